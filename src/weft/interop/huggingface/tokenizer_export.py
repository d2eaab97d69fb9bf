"""The files of a tokenizer that `AutoTokenizer.from_pretrained` loads.

BPE and unigram tokenizers are tokenizer.json files already; characters, bytes and words between spaces become such
files. Each appends the end token to every text, and gets a padding token, which weft does not have, after its last id.
In a model with one table of embeddings for two vocabularies, the ids of the source follow those of the target. The
tokenizer of an imported model is written as the files of its family, with the ids of the original.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from weft.errors import RecipeError
from weft.files import save_bytes, save_text
from weft.interop.huggingface.architectures import unsupported_unit
from weft.text.characters import CharacterTokenizer
from weft.text.external_engines import ByteEngine, PieceEngine, TokenizersEngine
from weft.text.imported import ImportedTokenizer
from weft.text.preprocessing import normalizers_of
from weft.text.pretokenization import byte_alphabet
from weft.text.specials import END, SPECIALS, UNKNOWN
from weft.text.subwords import SubwordTokenizer
from weft.text.tokenizer import Tokenizer, Tokenizers
from weft.text.words import JOINER, JOINER_REPLACEMENT, WordTokenizer

PADDING = "<pad>"
TARGET_FOLDER = "target_tokenizer"
"""Folder of the target's tokenizer if it is not that of the source."""
FAST = "PreTrainedTokenizerFast"
SENTENCEPIECE = {"t5": "spiece.model", "umt5": "spiece.model", "pegasus": "spiece.model"}
"""The name of the SentencePiece file of a family; that of the others is sentencepiece.bpe.model."""
LANGUAGE_CLASSES = {"mbart": "MBart50Tokenizer", "m2m_100": "NllbTokenizer"}
"""Families whose class puts languages around a text, with a tokenizer.json."""
LANGUAGE_SETTINGS = {"source": "src_lang", "target": "tgt_lang"}


def check_tokenizer(name: str, side: str, tokenizer: Tokenizer) -> None:
    """Fail if a tokenizer cannot be written as files of transformers."""
    special = splits = False
    if isinstance(tokenizer, CharacterTokenizer):
        special = bool(tokenizer.tags or tokenizer.decompose or tokenizer.preprocessor.splits)
    elif isinstance(tokenizer, WordTokenizer):
        special, splits = tokenizer.preprocessor.splits, tokenizer.split_punctuation
    if reason := unsupported_unit(side, tokenizer.kind, special=special, splits_punctuation=splits):
        raise RecipeError(f"{name}: {reason}")


def save_tokenizers(
    folder: Path, tokenizers: Tokenizers, family: str, *, padding: int, longest: int, first: int = 0
) -> None:
    """Write the files.

    ``padding``: the id of the padding token; ``longest``: source tokens that the model can read; ``first``: the id in
    the export of the source's first token.
    """
    if isinstance(tokenizers.source, ImportedTokenizer):
        assert isinstance(tokenizers.target, ImportedTokenizer)
        _save_imported(folder, tokenizers.source, tokenizers.target, family, longest)
        return
    _save_fast(folder, tokenizers.source, padding, longest, first)
    if not tokenizers.joint or first:
        _save_fast(folder / TARGET_FOLDER, tokenizers.target, padding, longest)


def _save_fast(folder: Path, tokenizer: Tokenizer, padding: int, longest: int, first: int = 0) -> None:
    """tokenizer.json with an end token after each text."""
    library = tokenizers.Tokenizer.from_str(_library(tokenizer, padding, first))
    for special in (*SPECIALS, PADDING):
        library.add_special_tokens([AddedToken(special, special=True, normalized=False)])
    assert library.token_to_id(PADDING) == padding
    end = SPECIALS[END]
    library.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, first + END)]
    )
    folder.mkdir(exist_ok=True)
    save_text(folder / "tokenizer.json", library.to_str(pretty=True))
    settings = {
        "tokenizer_class": FAST,
        "unk_token": SPECIALS[UNKNOWN],
        "eos_token": end,
        "pad_token": PADDING,
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
    }
    _save_settings(folder, settings)


def _library(tokenizer: Tokenizer, padding: int, first: int) -> str:
    """The content of a tokenizer.json whose ids start with ``first``, and whose vocabulary ends with the padding token.

    Ids that another tokenizer uses have names that no text has.
    """
    if isinstance(tokenizer, SubwordTokenizer):
        content = json.loads(tokenizer.library_json())
        content["pre_tokenizer"]["pretokenizers"] = list(map(isolated_split, content["pre_tokenizer"]["pretokenizers"]))
    else:
        library = _words(tokenizer) if isinstance(tokenizer, WordTokenizer) else _single_symbols(tokenizer)
        content = json.loads(library.to_str())
    vocabulary = content["model"]["vocab"]
    end = first + tokenizer.size
    before, after = ([f"<unused_{id}>" for id in ids] for ids in (range(first), range(end, padding)))
    if isinstance(vocabulary, dict):
        ids = {token: id + first for token, id in vocabulary.items()}
        others = {name: id for id, name in [*enumerate(before), *enumerate([*after, PADDING], end)]}
        content["model"]["vocab"] = ids | others
    else:
        rows = [[[token, -10_000.0] for token in tokens] for tokens in (before, [*after, PADDING])]
        content["model"] |= {"vocab": [*rows[0], *vocabulary, *rows[1]], "unk_id": content["model"]["unk_id"] + first}
    for token in content["added_tokens"]:
        token["id"] += first
    return json.dumps(content)


def isolated_split(step: dict[str, Any]) -> dict[str, Any]:
    """A split rewritten as a regular expression of whole parts: transformers.js merges a boundary with neither side."""
    sides = {"MergedWithPrevious": "[^{0}]*{0}|[^{0}]+", "MergedWithNext": "{0}[^{0}]*|[^{0}]+"}
    if step["type"] != "Split" or step["behavior"] not in sides:
        return step
    parts = sides[step["behavior"]].format(step["pattern"]["String"])
    return {**step, "pattern": {"Regex": parts}, "behavior": "Isolated"}


def _words(tokenizer: WordTokenizer) -> tokenizers.Tokenizer:
    """Words between white space, by the rules of `str.split`."""
    preprocessor, unknown = tokenizer.preprocessor, SPECIALS[UNKNOWN]
    vocabulary = {token: id for id, token in enumerate([*SPECIALS, *tokenizer.vocabulary.symbols])}
    library = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    steps = [
        *normalizers_of(preprocessor.normalize, preprocessor.lowercase),
        normalizers.Replace(JOINER, JOINER_REPLACEMENT),
        normalizers.Replace(Regex(r"[\x1c-\x1f]"), " "),
    ]
    library.normalizer = normalizers.Sequence(steps)
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit()])
    return library


def _single_symbols(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Characters or bytes: BPE without merges."""
    steps: list[Any] = []
    splits: list[Any] = [pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")]
    if isinstance(tokenizer, CharacterTokenizer):
        symbols = list(tokenizer.vocabulary.symbols)
        steps = normalizers_of(tokenizer.preprocessor.normalize, tokenizer.preprocessor.lowercase)
        decoder: Any = decoders.Fuse()
    else:
        symbols = byte_alphabet()
        splits.insert(0, pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False))
        decoder = decoders.ByteLevel()
    vocabulary = {token: id for id, token in enumerate([*SPECIALS, *symbols])}
    library = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=SPECIALS[UNKNOWN]))
    if steps:
        library.normalizer = normalizers.Sequence(steps)
    library.pre_tokenizer = pre_tokenizers.Sequence(splits)
    library.decoder = decoder
    return library


def _save_imported(
    folder: Path, source: ImportedTokenizer, target: ImportedTokenizer, family: str, longest: int
) -> None:
    """The files that the family has in transformers."""
    rules = source.rules
    settings: dict[str, Any] = {"model_max_length": longest}
    for side, name in LANGUAGE_SETTINGS.items():
        if language := getattr(rules, side):
            settings[name] = language
    engine = source.engine
    if isinstance(engine, TokenizersEngine):
        save_text(folder / "tokenizer.json", _with_frame(engine, source))
        several = LANGUAGE_CLASSES.get(family) if rules.languages else None
        settings |= {"tokenizer_class": several or FAST, **special_names(source)}
    elif isinstance(engine, ByteEngine):
        settings |= {"tokenizer_class": "ByT5Tokenizer", "extra_ids": engine.sentinels}
    else:
        assert isinstance(engine, PieceEngine) and isinstance(target.engine, PieceEngine)
        settings |= _save_pieces(folder, (engine, target.engine), family)
    _save_settings(folder, settings)


def _save_pieces(folder: Path, engines: tuple[PieceEngine, PieceEngine], family: str) -> dict[str, Any]:
    """SentencePiece models with their tables; returns entries of tokenizer_config.json."""
    source, target = engines
    names = source.table.names
    if family == "marian":
        save_bytes(folder / "source.spm", source.model)
        save_bytes(folder / "target.spm", target.model)
        _save_ids(folder / "vocab.json", names)
        separate = names != target.table.names
        if separate:
            _save_ids(folder / "target_vocab.json", target.table.names)
        languages = {"source_lang": "source", "target_lang": "target"}
        return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, **languages}
    save_bytes(folder / SENTENCEPIECE.get(family, "sentencepiece.bpe.model"), source.model)
    if family in ("t5", "umt5"):
        return {"tokenizer_class": "T5Tokenizer", "extra_ids": sum(name.startswith("<extra_id_") for name in names)}
    if family == "pegasus":
        return {"tokenizer_class": "PegasusTokenizer", "offset": 2 + sum(name.startswith("<unk_") for name in names)}
    if family == "mbart":
        return {"tokenizer_class": "MBart50Tokenizer" if "af_ZA" in names else "MBartTokenizer"}
    if "__en__" in names:
        _save_ids(folder / "vocab.json", [name for name in names if not name.startswith("__")])
        return {"tokenizer_class": "M2M100Tokenizer"}
    ids = {name: id for id, name in enumerate(names) if (len(name) == 8 and name[3] == "_") or name == "<mask>"}
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    added = {str(id): {"content": name, **flags} for name, id in ids.items()}
    codes = [name for name in ids if name != "<mask>"]
    return {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": codes, "added_tokens_decoder": added}


def _with_frame(engine: TokenizersEngine, tokenizer: ImportedTokenizer) -> str:
    """A tokenizer.json that adds the special tokens that the model reads around a text."""
    library = tokenizers.Tokenizer.from_str(engine.content())
    order, frame = tokenizer.vocabulary.order(), tokenizer.frame
    around = [[order[id] for id in ids] for ids in (frame.source_before, frame.source_after)]
    names = {id: str(library.id_to_token(id)) for ids in around for id in ids}
    before, after = ([names[id] for id in ids] for ids in around)
    library.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, "$B:1", *(f"{name}:1" for name in after)],
        special_tokens=[(name, id) for id, name in names.items()],
    )
    return str(library.to_str(pretty=True))


def special_names(tokenizer: ImportedTokenizer) -> dict[str, str]:
    """The names of the special tokens of a tokenizer.json."""
    engine = tokenizer.engine
    assert isinstance(engine, TokenizersEngine)
    by_id = {id: name for name, id in engine.names().items()}
    roles = zip(("unk_token", "bos_token", "eos_token"), tokenizer.vocabulary.special, strict=True)
    names = {role: by_id[id] for role, id in roles if id in by_id}
    return {**names, **({"pad_token": PADDING} if PADDING in engine.names() else {})}


def _save_ids(path: Path, names: Any) -> None:
    save_text(path, json.dumps({name: id for id, name in enumerate(names)}, ensure_ascii=False))


def _save_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    save_text(folder / "tokenizer_config.json", json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
