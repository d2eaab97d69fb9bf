"""The tokenizers of a Hugging Face folder, without transformers.

A `tokenizer.json` is used as it is. Without one: SentencePiece with the ids of the family (Marian, M2M100: a
vocab.json; mBART, NLLB: those of fairseq; T5, Pegasus: their sentinels and offset), byte-level BPE from vocab.json and
merges.txt (BART), or bytes (ByT5). How each family frames its texts is in `_frame_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import VocabularyError
from weft.interop.huggingface.languages import ENGLISH
from weft.interop.huggingface.tokenizer_files import TokenizerFolder
from weft.interop.huggingface.vocabularies import Original, read_byte_level, read_bytes, read_pieces
from weft.text.frames import FrameRules, FrameToken
from weft.text.imported import ImportedTokenizer, Vocabulary, check_rows
from weft.text.specials import BEGIN, END
from weft.text.tokenizer import Tokenizers

LANGUAGE_TOKENS = {
    "marian": re.compile(r">>(?P<name>.+)<<"),
    "mbart": re.compile(r"(?P<name>[a-z]{2}_[A-Z]{2})"),
    "m2m_100": re.compile(r"__(?P<name>[a-z]{2,3})__|(?P<nllb>[a-z]{3}_[A-Z][a-z]{3})"),
}
"""The form of language tokens in each family."""
Languages = tuple[str | None, str | None]


class _Roles(NamedTuple):
    """The ids of the original that have a role; None: it has no such token."""

    start: int | None
    end: int | None
    begin: int | None
    padding: int | None
    forced: int | None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> _Roles:
        names = ("decoder_start_token_id", "eos_token_id", "bos_token_id", "pad_token_id", "forced_bos_token_id")
        return cls(*(_as_id(config.get(name)) for name in names))


def _as_id(value: Any) -> int | None:
    """An id of a configuration; several end tokens are given as a list, of which the first is the model's own."""
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, int) and not isinstance(first, bool) else None


def read_tokenizers(
    folder: Path,
    config: Mapping[str, Any],
    *,
    rows: tuple[int, int],
    languages: Languages = (None, None),
) -> Tokenizers:
    """The tokenizers of source and target; the same object twice if both sides share one.

    ``config``: config.json, updated with generation_config.json; ``rows``: rows of the embeddings of encoder and
    decoder; ``languages``: source and target language; by default those that the folder names, if any.
    """
    files = TokenizerFolder(folder)
    family = str(config.get("model_type"))
    if family == "marian":
        source, target = (read_pieces(files, family, side=side) for side in ("source", "target"))
        originals = [source] if source == target and rows[0] == rows[1] else [source, target]
    else:
        originals = [_read(files, family, rows[0])]
    configs = [_of_source(config, originals[0]) if len(originals) > 1 else config, config]
    sides = zip(originals, configs, rows, strict=False)
    tokenizers = [make_tokenizer(original, files, side_config, size) for original, side_config, size in sides]
    return choose_languages(Tokenizers(tokenizers[0], tokenizers[-1]), languages)


def _of_source(config: Mapping[str, Any], source: Original) -> dict[str, Any]:
    """The configuration with the ids that its roles have in the vocabulary of the source, if that is another."""
    roles = {"decoder_start_token_id": "<pad>", "pad_token_id": "<pad>", "eos_token_id": "</s>"}
    return {**config, **{role: source.names[name] for role, name in roles.items() if name in source.names}}


def choose_languages(tokenizers: Tokenizers, languages: Languages) -> Tokenizers:
    """The tokenizers for the languages given by `--source-language` and `--target-language`."""
    if not any(languages):
        return tokenizers
    imported = [tokenizer for tokenizer in tokenizers if isinstance(tokenizer, ImportedTokenizer)]
    for rules in (tokenizer.rules for tokenizer in imported):
        for side, language in zip(("source", "target"), languages, strict=True):
            if language is not None:
                rules.check_language(side, language)
    return tokenizers.with_languages(*languages)


def _read(files: TokenizerFolder, family: str, rows: int) -> Original:
    """Read the tokenizer of a model that has only one."""
    if files.settings.get("tokenizer_class") == "ByT5Tokenizer":
        return read_bytes(files, rows)
    if files.has("tokenizer.json"):
        return Original.from_tokenizer_json(files.path("tokenizer.json"), files.read("tokenizer.json"))
    return read_byte_level(files) if family == "bart" else read_pieces(files, family)


def make_tokenizer(
    original: Original, files: TokenizerFolder, config: Mapping[str, Any], rows: int
) -> ImportedTokenizer:
    """The tokenizer with weft's ids, and the frame of its family."""
    family, roles = str(config.get("model_type")), _Roles.of(config)
    check_rows(original.names.values(), rows, name=str(original.path))
    unknown = original.names.get(files.token("unk", "<unk>"))
    end = original.names.get(files.token("eos", "</s>")) if roles.end is None else roles.end
    starts_with_language = family == "mbart" and not _language_first(files, roles)
    starts = (None if starts_with_language else roles.start, roles.begin, roles.padding)
    begin = next((id for id in starts if id is not None and id not in (unknown, end)), None)
    roles_found = {"unknown": unknown, "begin": begin, "end": end}
    for role, id in roles_found.items():
        if id is None or not 0 <= id < rows:
            problem = "has none" if id is None else f"names the id {id}, but the embedding has {rows:,} rows"
            article = "a" if role == "begin" else "an"
            raise VocabularyError(f"{original.path}: a model needs {article} {role} token; this one {problem}")
    assert unknown is not None and begin is not None and end is not None
    tokens = _language_tokens(family, original.names)
    special = {id for id in roles if id is not None} | original.special | set(tokens.values())
    vocabulary = Vocabulary(rows, (unknown, begin, end), frozenset(special - {unknown}))
    order = {external: id for id, external in enumerate(vocabulary.order())}
    rules = _frame_rules(family, files, roles, order, {name: order[id] for name, id in tokens.items()})
    engine = original.make_engine(vocabulary.special)
    return ImportedTokenizer(engine, vocabulary, _with_defaults(rules, files, roles, order))


def _language_tokens(family: str, names: Mapping[str, int]) -> dict[str, int]:
    """The id of every language, by its name."""
    expression = LANGUAGE_TOKENS.get(family)
    if expression is None:
        return {}
    matches = ((expression.fullmatch(name), id) for name, id in sorted(names.items(), key=lambda item: item[1]))
    return {next(filter(None, match.groups())): id for match, id in matches if match is not None}


def _language_first(files: TokenizerFolder, roles: _Roles) -> bool:
    """Whether an mBART or NLLB model reads the language before the text: not those of 25 languages."""
    tokenizer_class = str(files.settings.get("tokenizer_class"))
    if tokenizer_class.startswith("Nllb") or "legacy_behaviour" in files.settings:
        return not files.settings.get("legacy_behaviour")
    if tokenizer_class.startswith("MBart"):
        return tokenizer_class.startswith("MBart50")
    return roles.start == roles.end


def _frame_rules(
    family: str, files: TokenizerFolder, roles: _Roles, order: Mapping[int, int], languages: Mapping[str, int]
) -> FrameRules:
    """The special tokens around the texts of a family, without chosen languages."""
    begin = BEGIN if roles.start is None else order[roles.start]
    if family == "marian":
        return FrameRules(("target",) if languages else (), begin=begin, languages=languages, required=False)
    if family == "bart":
        first = END if roles.begin is None else order[roles.begin]
        before: tuple[FrameToken, ...] = () if first == begin else (first,)
        return FrameRules((first,), begin=begin, target_before=before)
    if family not in ("mbart", "m2m_100"):
        return FrameRules(begin=begin)
    first_language = (family == "m2m_100" and "legacy_behaviour" not in files.settings) or _language_first(files, roles)
    source_before: tuple[FrameToken, ...] = ("source",) if first_language else ()
    source_after: tuple[FrameToken, ...] = (END,) if first_language else (END, "source")
    if family == "mbart" and not first_language:
        return FrameRules((), source_after, begin="target", languages=languages)
    return FrameRules(source_before, source_after, begin, ("target",), languages)


def _with_defaults(rules: FrameRules, files: TokenizerFolder, roles: _Roles, order: Mapping[int, int]) -> FrameRules:
    """The rules with the languages that the folder names; the source is English where it names none."""
    if not rules.languages:
        return rules
    by_id = {id: name for name, id in rules.languages.items()}
    named = {order[id] for id in (roles.forced, roles.start) if id is not None and id in order}
    source = _first(rules.languages, [files.settings.get("src_lang"), *ENGLISH])
    target = _first(rules.languages, [files.settings.get("tgt_lang"), *(by_id.get(id) for id in named)])
    takes_source = "source" in (*rules.source_before, *rules.source_after)
    return rules.with_languages(source if takes_source else None, target)


def _first(languages: Mapping[str, int], names: Iterable[Any]) -> str | None:
    """The first of these names that is a language."""
    return next((name for name in names if isinstance(name, str) and name in languages), None)
