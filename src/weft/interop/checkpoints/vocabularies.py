"""Lists of tokens as tokenizers.

Toolkits split texts with other programs, so that a text is a sequence of tokens with spaces between them: words, or
pieces such as ``▁the`` or ``low@@``. Where the SentencePiece model lies beside the checkpoint, plain texts are split
by it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from weft.errors import VocabularyError
from weft.interop.huggingface.tokenizer_files import TokenizerFolder
from weft.interop.huggingface.vocabularies import Original, with_table
from weft.interop.imported_run import Conversion
from weft.interop.word_tokenizers import characters, split_at_spaces
from weft.text.frames import FrameRules
from weft.text.imported import ImportedTokenizer, Vocabulary
from weft.text.tokenizer import Tokenizers

PIECES = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model")
"""Names of a SentencePiece model for both sides."""


class SpecialNames(NamedTuple):
    """A toolkit's names for its special tokens."""

    unknown: str = "<unk>"
    begin: str = "<s>"
    end: str = "</s>"
    padding: str = "<pad>"


class TokenList(NamedTuple):
    """The vocabulary of one side."""

    file: Path
    """The file that it was read from, for messages."""
    names: tuple[str, ...]
    """The tokens, by id."""
    special: SpecialNames = SpecialNames()
    pieces: Path | None = None
    """A SentencePiece model that splits plain texts; None: they are split already."""
    level: str = "words"
    """words or characters."""

    @property
    def texts(self) -> str:
        """The expected format of texts, for the user."""
        if self.pieces is not None:
            return f"plain, split by SentencePiece ({self.pieces.name})"
        return "plain, split into characters" if self.level == "characters" else "tokens separated by spaces"


def find_pieces(folder: Path, named: object = None) -> Path | None:
    """The SentencePiece model of one side beside a checkpoint: the one that the options name, or one for both sides."""
    names = [Path(named).name] if isinstance(named, str) and named else [*PIECES]  # never outside the folder
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_lines(file: Path) -> list[str]:
    """The lines of a file with a token on each."""
    content = TokenizerFolder(file.parent).read(file.name)
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise VocabularyError(f"{file}: damaged: not UTF-8") from None
    return lines[:-1] if not lines[-1] else lines


def fit(conversion: Conversion, lists: tuple[TokenList, TokenList]) -> tuple[Conversion, tuple[TokenList, TokenList]]:
    """Lists with a name for every row; rows of zeros for special tokens that only targets have in the original."""
    source, target = (_named(tokens, rows) for tokens, rows in zip(lists, conversion.rows, strict=True))
    for name in target.special[:3]:
        if name not in target.names:
            raise VocabularyError(f"{target.file}: the vocabulary of the target has no {name!r}")
    missing = tuple(name for name in source.special[:3] if name not in source.names)
    if not missing:
        return conversion, (source, target)
    tensors = dict(conversion.tensors)
    embedding_VE = tensors["source_embedding.weight_VE"]
    zeros_VE = embedding_VE.new_zeros(len(missing), embedding_VE.shape[1])
    tensors["source_embedding.weight_VE"] = torch.cat([embedding_VE, zeros_VE])
    rows = conversion.rows[0] + len(missing), conversion.rows[1]
    source = source._replace(names=(*source.names, *missing))
    return conversion._replace(tensors=tensors, rows=rows), (source, target)


def _named(tokens: TokenList, rows: int) -> TokenList:
    """The token list, padded with a name for every row of the embedding."""
    count = len(tokens.names)
    if count > rows:
        raise VocabularyError(f"{tokens.file}: has {count:,} tokens, but the embedding has only {rows:,} rows")
    return tokens._replace(names=(*tokens.names, *(f"<row {id}>" for id in range(count, rows))))


def make_tokenizers(lists: tuple[TokenList, TokenList], rules: FrameRules) -> Tokenizers:
    """The tokenizers of source and target; the same object twice if both sides share one."""
    source, target = lists
    first = _tokenizer(source, rules)
    if source._replace(file=target.file) == target:
        return Tokenizers(first, first)
    return Tokenizers(first, _tokenizer(target, rules))


def _tokenizer(tokens: TokenList, rules: FrameRules) -> ImportedTokenizer:
    ids = {name: id for id, name in reversed([*enumerate(tokens.names)])}
    unknown, begin, end = (ids[name] for name in tokens.special[:3])
    skipped = frozenset(ids[name] for name in tokens.special[1:] if name in ids)
    vocabulary = Vocabulary(len(tokens.names), (unknown, begin, end), skipped)
    return ImportedTokenizer(_original(tokens).make_engine(vocabulary.special), vocabulary, rules)


def _original(tokens: TokenList) -> Original:
    if tokens.pieces is not None:
        files = TokenizerFolder(tokens.pieces.parent)
        return with_table(tokens.pieces, files.read(tokens.pieces.name), tokens.names, files)
    special = tokens.special[1:]
    make = characters if tokens.level == "characters" else split_at_spaces
    return make(tokens.file, tokens.names, special=special, unknown=tokens.special.unknown)
