"""Tokenizers of models whose texts are split before they are read: into words, or pieces of words, or characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.errors import VocabularyError
from weft.interop.huggingface.vocabularies import Original

SPACE = "▁"
"""The token for a space in character vocabularies that have one."""


def split_at_spaces(file: Path, names: Sequence[str], *, special: Sequence[str], unknown: str = "<unk>") -> Original:
    """Tokens that are separated by spaces, as a `tokenizer.json`; ``special``: tokens that are not text."""
    from tokenizers import Regex, pre_tokenizers

    library = _word_level(file, names, unknown)
    library.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "removed")
    library.add_special_tokens([name for name in special if name in names])
    return Original.from_tokenizer_json(file, library.to_str().encode("utf-8"))


def characters(file: Path, names: Sequence[str], *, special: Sequence[str], unknown: str = "<unk>") -> Original:
    """A token for each character, as a `tokenizer.json`."""
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    library = _word_level(file, names, unknown)
    parts: list[Any] = [decoders.Fuse()]
    if SPACE in names:
        library.normalizer = normalizers.Replace(" ", SPACE)
        parts.insert(0, decoders.Replace(SPACE, " "))
    library.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    library.decoder = decoders.Sequence(parts)
    library.add_special_tokens([name for name in special if name in names])
    return Original.from_tokenizer_json(file, library.to_str().encode("utf-8"))


def _word_level(file: Path, names: Sequence[str], unknown: str) -> Any:
    """A library's tokenizer that looks up words."""
    import tokenizers
    from tokenizers import models

    ids = {name: id for id, name in reversed([*enumerate(names)])}
    if unknown not in ids:
        raise VocabularyError(f"{file}: its vocabulary has no unknown token; expected {unknown!r}")
    return tokenizers.Tokenizer(models.WordLevel(vocab=ids, unk_token=unknown))
