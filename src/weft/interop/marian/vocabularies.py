"""Vocabularies of Marian, with an id more: that of the begin token, which is the last row of an imported embedding.

.spm                      SentencePiece, whose ids are the model's
.yml with source.spm      OPUS-MT: pieces of SentencePiece, looked up in the vocabulary
.yml alone                texts are tokens separated by spaces, as the model was trained on them
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.errors import VocabularyError
from weft.interop.huggingface.tokenizer_files import TokenizerFolder
from weft.interop.huggingface.tokenizers import Languages, choose_languages, make_tokenizer
from weft.interop.huggingface.vocabularies import Original, pieces_of, with_table
from weft.interop.word_tokenizers import split_at_spaces
from weft.interop.yaml_files import read_yaml
from weft.text.imported import ImportedTokenizer
from weft.text.tokenizer import Tokenizers

SENTENCEPIECE = ".spm"
NEMATUS = {"eos": "</s>", "UNK": "<unk>"}
"""Names of the first two tokens in Nematus vocabularies."""
SUBWORD_NMT = ("source.bpe", "target.bpe", "source.codes", "target.codes")
"""Files of OPUS-MT models whose texts were split by other tools."""


def read_tokenizers(
    folder: Path, files: tuple[Path, ...], *, rows: tuple[int, int], languages: Languages = (None, None)
) -> Tokenizers:
    """The tokenizers of source and target; the same object twice if both sides share one.

    ``files``: one vocabulary or two; ``rows``: rows of the embeddings, the begin token included.
    """
    source, target = (
        _read(folder, file, side, size) for file, side, size in zip((files[0], files[-1]), SIDES, rows, strict=True)
    )
    if source == target:
        tokenizer = _tokenizer(folder, source, rows[0])
        return choose_languages(Tokenizers(tokenizer, tokenizer), languages)
    first, second = _tokenizer(folder, source, rows[0]), _tokenizer(folder, target, rows[1])
    return choose_languages(Tokenizers(first, second.with_rules(first.rules)), languages)


SIDES = ("source", "target")


def _tokenizer(folder: Path, original: Original, rows: int) -> ImportedTokenizer:
    begin = rows - 1
    config: dict[str, Any] = {"model_type": "marian", "decoder_start_token_id": begin, "pad_token_id": begin}
    return make_tokenizer(original, TokenizerFolder(folder), config, rows)


def _read(folder: Path, file: Path, side: str, rows: int) -> Original:
    files = TokenizerFolder(file.parent)
    if file.suffix == SENTENCEPIECE:
        model = files.read(file.name)
        names = pieces_of(model, name=str(file))
        return with_table(file, model, _padded(file, names, rows), files)
    names = _padded(file, _read_names(file), rows)
    pieces = f"{side}{SENTENCEPIECE}"
    if (folder / pieces).is_file():
        beside = TokenizerFolder(folder)
        return with_table(folder / pieces, beside.read(pieces), names, beside, leading_code=side == "source")
    if split := next((name for name in SUBWORD_NMT if (folder / name).is_file()), None):
        raise VocabularyError(
            f"{folder / split}: texts of this model are split by subword-nmt, which weft does not have; import it from "
            f"a folder without this file, and give it texts that are split, with spaces between the pieces"
        )
    return split_at_spaces(file, names, special=("</s>", "<pad>"))


def _padded(file: Path, names: list[str], rows: int) -> list[str]:
    """A name for every row but the last, and one for that: the begin token."""
    if len(names) >= rows:
        raise VocabularyError(f"{file}: has {len(names):,} tokens, but the embedding has only {rows - 1:,} rows")
    return [*names, *(f"<row {id}>" for id in range(len(names), rows - 1)), "<pad>"]


def _read_names(file: Path) -> list[str]:
    """The tokens of a vocabulary by id: YAML or JSON with an id for each, or a line for each."""
    if file.suffix not in (".yml", ".yaml", ".json"):
        lines = TokenizerFolder(file.parent).read(file.name).decode("utf-8", errors="replace").split("\n")
        return lines[:-1] if not lines[-1] else lines
    content = read_yaml(file, as_text=True)
    ids: dict[int, str] = {}
    for name, value in content.items():
        if not isinstance(value, str) or not value.isdecimal() or int(value) >= 1 << 24:
            raise VocabularyError(f"{file}: the id of {name!r} is {value!r}, expected a number")
        if int(value) in ids:
            raise VocabularyError(f"{file}: {ids[int(value)]!r} and {name!r} have the same id, {value}")
        ids[int(value)] = str(name)
    names = [ids.get(id, f"<row {id}>") for id in range(max(ids, default=-1) + 1)]
    names[:2] = [NEMATUS.get(name, name) for name in names[:2]]
    return names
