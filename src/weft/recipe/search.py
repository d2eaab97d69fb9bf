"""[search]: how outputs are searched for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from weft.recipe.base import MAX_COUNT, Count, CountOrNone, Probability, Seed, Settings, Share
from weft.recipe.choices import StrategyName, UtilityName


def _check_batch_tokens(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT):
        return value
    from weft.recipe.messages import shown  # which imports this module

    expected = f"expected a whole number from 1 to {MAX_COUNT}, or auto"
    raise ValueError(f"search.batch_tokens: {shown(value)} was given; {expected}")


def _check_memory(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (0 < value <= 1 or FEWEST_BYTES <= value <= MAX_COUNT * FEWEST_BYTES):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    from weft.recipe.messages import shown  # which imports this module

    expected = f"expected a share of the free memory, above 0 and up to 1, or bytes, at least {FEWEST_BYTES:,}"
    raise ValueError(f"search.memory: {shown(value)} was given; {expected}")


FEWEST_BYTES = 1_000_000
Memory = Annotated[float, BeforeValidator(_check_memory)]
BatchTokens = Annotated[Count | Literal["auto"], BeforeValidator(_check_batch_tokens)]


class SearchSettings(Settings):
    """[search]: how outputs are searched for."""

    kind: StrategyName = Field(
        "beam",
        description="the search strategy: the most likely token at each step (greedy), several hypotheses side by side "
        "(beam), random (sample), the sample most similar to the others (mbr), the provably best by branch and bound "
        "(exact), the best of all (exhaustive)",
    )
    size: Count = Field(5, description="beam: number of hypotheses in the beam")
    stop: Literal["finished", "outranked", "outranked_by_all", "provable", "steps"] | None = Field(
        None,
        description="beam: stop when enough hypotheses have finished; when also none in the beam ranks above the best "
        "of them, or above any of them; "
        "when no better one can follow; or at the maximum length. If not set, `outranked` for a model that copies or "
        "has fewer than 1,000 target tokens, else `finished`; with the engine ctranslate2 `finished`",
    )
    finish: CountOrNone = Field(0, description="beam: finished hypotheses at which to stop; 0: the size of the beam")
    groups: Count = Field(1, description="beam: number of groups that avoid each other's tokens (diverse beam search)")
    diversity: float = Field(
        0.5, ge=0, description="beam: log-probability subtracted from a token for each group that chose it"
    )
    normalization: Literal["power", "gnmt", "none"] = Field(
        "power", description="rank by log p / length^α, log p / ((5 + length) / 6)^α, or log p"
    )
    length_penalty: float = Field(1.0, ge=0, description="the exponent α of the normalization")
    ctc: Share = Field(
        0.0, description="weight of the encoder's CTC probabilities beside the decoder's; needs training.ctc"
    )
    coverage_penalty: float = Field(0.0, ge=0, description="weight of the penalty for source tokens without attention")
    max_length: CountOrNone = Field(0, description="maximum output length in tokens; 0: max_ratio and max_extra apply")
    max_ratio: float | None = Field(
        None,
        ge=0,
        description="maximum output length: this × source length + max_extra; if not set, learned from the pairs",
    )
    max_extra: CountOrNone | None = Field(
        None, description="maximum output length: see max_ratio; if not set, learned from the training pairs"
    )
    min_length: CountOrNone = Field(0, description="minimum output length in tokens")
    min_ratio: float = Field(0.0, ge=0, description="minimum output length as a multiple of the source length")
    temperature: float = Field(
        1.0, gt=0, description="sample, mbr: above 1 a flatter distribution, below 1 a sharper one"
    )
    top_k: CountOrNone = Field(0, description="sample, mbr: draw from the k most likely tokens only; 0: from all")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="sample, mbr: draw from the fewest tokens that hold this probability (nucleus)"
    )
    min_p: Probability = Field(
        0.0, description="sample, mbr: draw from tokens with at least this fraction of the largest probability"
    )
    typical: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="sample, mbr: draw from the most typical tokens that hold this probability"
    )
    seed: Seed | None = Field(None, description="sample, mbr: random seed; if not set, the recipe's seed")
    samples: Count = Field(32, description="mbr: samples per sentence")
    utility: UtilityName = Field("chrf", description="mbr: the utility function that compares samples")
    prefix: str = Field("", description="text that every output begins with")
    banned: list[str] = Field([], description="phrases that no output contains")
    banned_ids: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]] = Field(
        [], description="the same as lists of token ids, such as [[1]] for the begin token"
    )
    required: list[str] = Field([], description="beam, greedy: phrases that every output contains")
    no_repeat_ngram: CountOrNone = Field(0, description="length of n-grams that may not occur twice; 0: no such limit")
    repetition_penalty: float = Field(1.0, ge=1, description="factor on log p of a token that occurred before")
    no_loops: bool | None = Field(
        None,
        description="forbid phrases of up to 16 tokens 3 or more times in a row, over 10 tokens or more; if not set, "
        "on unless more than 1 in 1,000 training targets contain such a repetition",
    )
    replace_unknown: bool = Field(
        False, description="replace unknown tokens by the source word with the most attention"
    )
    source_language: str | None = Field(
        None, description="language of the sources, for a model that has several; if not set, that of the run"
    )
    target_language: str | None = Field(
        None, description="language to translate into, for a model that has several; if not set, that of the run"
    )
    max_space: Count = Field(1_000_000, description="exhaustive: refuse to try more outputs than this")
    max_nodes: Count = Field(100_000, description="exact: give up after expanding this many prefixes")
    batch_tokens: BatchTokens = Field(
        "auto", description="source tokens in a batch; auto: 4,096 on a CPU, on a GPU by the memory that is free"
    )
    memory: Memory = Field(
        0.25,
        description="the memory that a search may take: a share of what is free on the device, or above 1 a number of "
        "bytes; batches are made smaller to fit, and never larger than helps",
    )

    @model_validator(mode="after")
    def _agree(self) -> SearchSettings:
        if self.size % self.groups:
            raise ValueError(f"search.groups: a beam of {self.size} cannot be divided into {self.groups} equal groups")
        if self.max_length and self.min_length > self.max_length:
            raise ValueError(f"search.min_length: {self.min_length} is above search.max_length = {self.max_length}")
        if self.required and self.kind not in ("beam", "greedy"):
            raise ValueError(
                f"search.required: phrases are required of a beam or greedy search, not of kind = '{self.kind}'"
            )
        for phrase in (*self.banned, *self.required):
            if not phrase.strip():
                raise ValueError("search.banned, search.required: a phrase is empty")
        return self


_SAMPLING = frozenset({"temperature", "top_k", "top_p", "min_p", "typical", "seed"})
SCOPES: dict[str, frozenset[str]] = {
    "greedy": frozenset({"required"}),
    "beam": frozenset({"size", "stop", "finish", "groups", "diversity", "required"}),
    "sample": _SAMPLING,
    "mbr": _SAMPLING | {"samples", "utility"},
    "exact": frozenset({"max_nodes"}),
    "exhaustive": frozenset({"max_space"}),
}
"""The settings that belong to each kind of search; all others apply to every kind."""


def irrelevant_settings(kind: str) -> frozenset[str]:
    """The settings that belong to other kinds of search, and so change nothing about this one."""
    return frozenset().union(*SCOPES.values()) - SCOPES.get(kind, frozenset())
