"""The choices that a recipe makes by name, and the class of each.

Each table maps a name to ``"module:Class"``. The module is imported when the class is used, so that reading a recipe
does not import PyTorch. A recipe contains names only, never modules: loading a recipe cannot run foreign code.

To add an attention score, a normalizer, a window, a hard alignment, a recurrent cell, an encoder, a pipeline step or a
tokenizer: write the class and add its line here.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

SCORES: dict[str, str] = {
    "dot": "weft.attention.scores:Dot",
    "scaled_dot": "weft.attention.scores:ScaledDot",
    "general": "weft.attention.scores:General",
    "scaled_general": "weft.attention.scores:ScaledGeneral",
    "concat": "weft.attention.scores:Concat",
    "additive": "weft.attention.scores:Additive",
    "cosine": "weft.attention.scores:Cosine",
    "parameter_free": "weft.attention.scores:ParameterFree",
}
"""Attention scores, which compare a query with a key."""

OUTPUTS: dict[str, str] = {
    "cross_entropy": "weft.models.layers:Output",
    "entmax15": "weft.models.layers:Entmax15Output",
}
"""The output layer that each training loss trains."""

NORMALIZERS: dict[str, str] = {
    "softmax": "weft.attention.normalizers:softmax",
    "sparsemax": "weft.attention.normalizers:sparsemax",
    "entmax15": "weft.attention.normalizers:entmax15",
}
"""Attention normalizers, which turn scores into weights."""

WINDOWS: dict[str, str] = {
    "monotonic": "weft.attention.windows:Monotonic",
    "predictive": "weft.attention.windows:Predictive",
}
"""Windows of source states that local attention attends to."""

HARD_ALIGNMENTS: dict[str, str] = {
    "zeroth": "weft.attention.hard_alignment:Zeroth",
    "monotonic": "weft.attention.hard_alignment:Monotonic",
    "first": "weft.attention.hard_alignment:First",
}
"""Alignment models of hard attention: how a source position depends on the one before."""

CELLS: dict[str, str] = {
    "rnn": "weft.models.recurrent:RNN",
    "gru": "weft.models.recurrent:GRU",
    "lstm": "weft.models.recurrent:LSTM",
}
"""Recurrent cells, of encoders and decoders."""

ENCODERS: dict[str, str] = {
    "transformer": "weft.models.transformer:TransformerEncoder",
    "attention": "weft.models.transformer:TransformerEncoder",
}
"""Encoders without recurrence; every recurrent cell is a kind of encoder too."""

STEPS: dict[str, str] = {
    "length": "weft.data.filtering.steps:Length",
    "ratio": "weft.data.filtering.steps:Ratio",
    "duplicates": "weft.data.filtering.steps:Duplicates",
    "identical": "weft.data.filtering.steps:Identical",
    "scripts": "weft.data.filtering.steps:Scripts",
    "pattern": "weft.data.filtering.steps:Pattern",
    "lowercase": "weft.data.filtering.steps:Lowercase",
    "prefix": "weft.data.filtering.steps:Prefix",
    "replace": "weft.data.filtering.steps:Replace",
    "truncate": "weft.data.filtering.steps:Truncate",
    "noise": "weft.data.filtering.noise:Noise",
    "exchange": "weft.data.filtering.exchange:Exchange",
    "substitute": "weft.data.filtering.exchange:Substitute",
    "splice": "weft.data.filtering.splice:Splice",
}
"""Steps of data.pipeline: filters and transforms of pairs."""

TOKENIZERS: dict[str, str] = {
    "bpe": "weft.text.bpe:BPE",
    "unigram": "weft.text.unigram:Unigram",
    "word": "weft.text.words:WordTokenizer",
    "character": "weft.text.characters:CharacterTokenizer",
    "byte": "weft.text.bytes:ByteTokenizer",
}
"""Tokenizers that can be learned."""

ARRAY_SOURCES: dict[str, str] = {
    "picture": "weft.data.arrays.tokenizer:PictureTokenizer",
    "frames": "weft.data.arrays.tokenizer:FramesTokenizer",
}
"""Tokenizers of sources that are arrays: pictures, and frames of features or sound."""
TOKENIZERS_OF_SOURCES = ChainMap(ARRAY_SOURCES, TOKENIZERS)
"""Both."""

DRAWINGS: dict[str, str] = {
    "drawn-digits": "weft.tasks.drawn_digits:draw",
}
"""Built-in corpora whose sources are drawings, and the function that draws the picture of a name."""

STEMS: dict[str, str] = {
    "columns": "weft.models.stems:ColumnStem",
    "grid": "weft.models.stems:GridStem",
    "frames": "weft.models.stems:FrameStem",
}
"""Stems, which make of an array the sequence of vectors that an encoder reads."""

FORMATS: dict[str, str] = {
    "tsv": "weft.data.reading.delimited:Tsv",
    "csv": "weft.data.reading.delimited:Csv",
    "jsonl": "weft.data.reading.json_lines:JsonLines",
    "parquet": "weft.data.reading.arrow:Parquet",
}
"""Formats of tables that pairs are read from."""

STRATEGIES: dict[str, str] = {
    "greedy": "weft.translation.engines.torch:greedy",
    "beam": "weft.translation.engines.torch:beam",
    "sample": "weft.translation.engines.torch:sampling",
    "mbr": "weft.translation.mbr:mbr",
    "exact": "weft.translation.exact:exact",
    "exhaustive": "weft.translation.exact:exhaustive",
}
"""Search strategies."""

UTILITIES: dict[str, str] = {
    "chrf": "weft.translation.utilities:chrf",
    "bleu": "weft.translation.utilities:bleu",
    "edit": "weft.translation.utilities:edit",
    "exact": "weft.translation.utilities:exact",
}
"""Utility functions of minimum Bayes risk."""

SCHEDULES: dict[str, str] = {
    "constant": "weft.training.optimizer:constant",
    "inverse_sqrt": "weft.training.optimizer:inverse_sqrt",
    "cosine": "weft.training.optimizer:cosine",
    "plateau": "weft.training.optimizer:constant",
}
"""Learning rate schedules."""


def resolve(table: Mapping[str, str], name: str) -> Any:
    """The class that a table has under this name, imported now."""
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)


class Choice:
    """Annotation of a string setting: one of the keys of a table, checked and reported like a ``Literal`` of them."""

    def __init__(self, table: Mapping[str, str], *, besides: tuple[str, ...] = ()) -> None:
        """``besides``: values that are not in the table, listed before its keys."""
        self.table = table
        self.besides = besides

    @property
    def names(self) -> list[str]:
        return [*self.besides, *self.table]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"enum": self.names, "type": "string"}

    def _check(self, value: Any) -> str:
        if isinstance(value, str) and value in self.names:
            return value
        *others, last = map(repr, self.names)
        expected = f"{', '.join(others)} or {last}" if others else last
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})


LossName = Annotated[str, Choice(OUTPUTS)]
ScoreName = Annotated[str, Choice(SCORES, besides=("none",))]
NormalizerName = Annotated[str, Choice(NORMALIZERS)]
WindowName = Annotated[str, Choice(WINDOWS, besides=("none",))]
HardName = Annotated[str, Choice(HARD_ALIGNMENTS, besides=("none",))]
CellName = Annotated[str, Choice(CELLS)]
EncoderName = Annotated[str, Choice(ENCODERS)]
TokenizerKind = Annotated[str, Choice(TOKENIZERS_OF_SOURCES)]
StemName = Annotated[str, Choice(STEMS, besides=("none",))]
TargetTokenizerKind = Annotated[str, Choice(TOKENIZERS, besides=("same",))]
StrategyName = Annotated[str, Choice(STRATEGIES)]
UtilityName = Annotated[str, Choice(UTILITIES)]


ScheduleName = Annotated[str, Choice(SCHEDULES)]
