"""The vocabulary of a folder's tokenizer: token names with the original's ids, and the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import VocabularyError
from weft.interop.huggingface.languages import M2M_100, MBART_25, MBART_50, WMT_21
from weft.interop.huggingface.tokenizer_files import TokenizerFolder
from weft.text.external import Engine, check_isolated
from weft.text.external_engines import ByteEngine, PieceTable
from weft.text.imported import piece_engine, tokenizers_engine
from weft.text.isolation import library_errors

NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
"""The first tokens of models that were trained with fairseq, in place of SentencePiece's own three."""
PEGASUS_OFFSET = 103
SENTENCEPIECE_FILES = ("spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model")


@dataclass(frozen=True)
class Original:
    """A tokenizer with the original's ids."""

    path: Path
    """Its main file, for messages."""
    names: dict[str, int]
    special: frozenset[int] = frozenset()
    """Ids that are left out of decoded text."""
    content: str = ""
    """A `tokenizer.json`."""
    model: bytes = b""
    """A SentencePiece model, beside a table."""
    table: PieceTable | None = None
    sentinels: int = 0
    """Number of sentinel tokens of a byte vocabulary."""

    def make_engine(self, special: tuple[int, int, int]) -> Engine:
        """``special``: the ids of the unknown, begin and end tokens."""
        if self.content:
            return tokenizers_engine(self.content, special, name=str(self.path))
        if self.table is not None:
            return piece_engine(self.model, self.table, name=str(self.path))
        return ByteEngine(self.sentinels)

    @classmethod
    def from_tokenizer_json(cls, path: Path, data: bytes) -> Original:
        check_isolated("tokenizers", data, name=str(path))
        content = json.loads(data.decode("utf-8"))
        vocabulary = content["model"]["vocab"]
        names: dict[str, int] = (
            dict(vocabulary)
            if isinstance(vocabulary, dict)
            else {piece: id for id, (piece, _) in reversed([*enumerate(vocabulary)])}
        )
        added = content.get("added_tokens") or []
        names |= {token["content"]: token["id"] for token in added}
        special = frozenset(token["id"] for token in added if token.get("special"))
        return cls(path, names, special, content=data.decode("utf-8"))


def read_bytes(files: TokenizerFolder, rows: int) -> Original:
    """ByT5: bytes, and as many sentinels as there are rows for."""
    count = min(files.count("extra_ids", 125) or 125, max(rows - ByteEngine.FIRST - 256, 0))
    names = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    sentinels = {f"<extra_id_{number}>": ByteEngine.FIRST + 256 + number for number in range(count)}
    special = frozenset((*names.values(), *sentinels.values()))
    path = files.path("tokenizer_config.json")
    return Original(path, {**names, **sentinels, "<0xFF>": ByteEngine.FIRST + 255}, special, sentinels=count)


def read_byte_level(files: TokenizerFolder) -> Original:
    """BART: byte-level BPE of a vocab.json and merges.txt, as a `tokenizer.json`."""
    import tokenizers
    from tokenizers import AddedToken, decoders, models, pre_tokenizers

    path = files.path(files.first("tokenizer.json", "vocab.json"))
    tokens, merges = files.read_ids("vocab.json"), _read_merges(files)
    with library_errors(f"{path}: not a vocabulary of byte-level BPE"):
        library = tokenizers.Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=merges))
        library.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=files.settings.get("add_prefix_space") is True
        )
        library.decoder = decoders.ByteLevel()
        special = dict.fromkeys(files.token(role, name) for role, name in _usual_names())
        library.add_special_tokens(
            [
                AddedToken(name, lstrip=name == files.token("mask", "<mask>"), special=True, normalized=False)
                for name in special
                if name in tokens
            ]
        )
        content = library.to_str()
    return Original.from_tokenizer_json(path, content.encode("utf-8"))


def _usual_names() -> Iterable[tuple[str, str]]:
    defaults = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "sep": "</s>", "cls": "<s>"}
    return [*defaults.items(), ("mask", "<mask>")]


def _read_merges(files: TokenizerFolder) -> list[tuple[str, str]]:
    try:
        lines = files.read("merges.txt").decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise VocabularyError(f"{files.path('merges.txt')}: damaged: not UTF-8") from None
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if (number == 1 and line.startswith("#version")) or not line.strip():
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise VocabularyError(f"{files.path('merges.txt')}:{number}: {len(parts)} columns, expected 2")
        merges.append((parts[0], parts[1]))
    return merges


def read_pieces(files: TokenizerFolder, family: str, *, side: str = "") -> Original:
    """A SentencePiece model with the ids of its family; ``side``: the side of Marian's two models."""
    if family == "marian":
        return _marian(files, side)
    file = files.first("tokenizer.json", *SENTENCEPIECE_FILES)
    model = files.read(file)
    path = files.path(file)
    if family == "m2m_100" and files.has("vocab.json"):
        codes = WMT_21 if files.settings.get("language_codes") == "wmt21" else M2M_100
        return with_table(path, model, [*files.read_ids("vocab.json"), *(f"__{code}__" for code in codes)], files)
    pieces = pieces_of(model, name=str(path))
    if family in ("m2m_100", "mbart"):
        return with_table(path, model, [*FAIRSEQ, *pieces[3:], *_codes(files, family), "<mask>"], files)
    if family == "pegasus":
        offset = files.count("offset", PEGASUS_OFFSET)
        masks = ["<mask_1>", files.token("mask", "<mask_2>")]
        unused = [f"<unk_{number}>" for number in range(2, offset)]
        return with_table(path, model, [*pieces[:2], *masks, *unused, *pieces[2:]], files, added=masks)
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(files.count("extra_ids", 100)))]
    return with_table(path, model, [*pieces, *sentinels], files, added=sentinels)


def _marian(files: TokenizerFolder, side: str) -> Original:
    """OPUS-MT: pieces of source.spm and target.spm, both looked up in vocab.json, or each in its own."""
    separate = files.settings.get("separate_vocabs") is True
    vocabulary = "target_vocab.json" if separate and side == "target" else "vocab.json"
    file = files.first(f"{side}.spm")
    names = files.read_ids(vocabulary)
    return with_table(files.path(file), files.read(file), names, files, leading_code=side == "source")


def _codes(files: TokenizerFolder, family: str) -> Sequence[str]:
    """The languages of an mBART or NLLB model without a `tokenizer.json`."""
    if family == "m2m_100":
        codes = [name for name in files.special_names() if NLLB_CODE.fullmatch(name)]
        if not codes:
            raise VocabularyError(
                f"{files.folder}: its languages are not listed; add its tokenizer.json or special_tokens_map.json"
            )
        return codes
    return MBART_50 if str(files.settings.get("tokenizer_class")).startswith("MBart50") else MBART_25


def pieces_of(model: bytes, *, name: str) -> list[str]:
    """The pieces of a SentencePiece model, by its own ids."""
    check_isolated("sentencepiece", model, name=name)
    import sentencepiece

    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [str(library.id_to_piece(id)) for id in range(library.get_piece_size())]


def with_table(path: Path, model: bytes, names: Sequence[str], files: TokenizerFolder, **options: Any) -> Original:
    """A SentencePiece model whose pieces have the ids of a table; ``options``: its fields; ``added``: names."""
    ids = {name: id for id, name in reversed([*enumerate(names)])}
    unknown = ids.get(files.token("unk", "<unk>"))
    if unknown is None:
        raise VocabularyError(f"{path}: its vocabulary has no unknown token; expected {files.token('unk', '<unk>')!r}")
    added = frozenset(ids[name] for name in options.pop("added", ()))
    usual = [files.token(role, name) for role, name in _usual_names()]
    special = frozenset(ids[name] for name in (*usual, *files.special_names()) if name in ids and ids[name] != unknown)
    table = PieceTable(tuple(names), unknown, special | added, added, **options)
    return Original(path, ids, special | added, model=model, table=table)
