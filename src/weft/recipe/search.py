"""[search]: how a trained model is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weft.recipe.base import Count, CountOrNone, Probability, Settings


class SearchSettings(Settings):
    """[search]: how a trained model is asked."""

    kind: Literal["greedy", "beam", "sample", "mbr", "exact", "exhaustive"] = Field(
        "beam",
        description="the way to search: one path, several side by side, by chance, by chance and then the one that "
        "agrees most with the others, the provably best (branch and bound), all there are",
    )
    size: Count = Field(5, description="beam: hypotheses kept")
    stop: Literal["finished", "provable", "steps"] = Field(
        "finished", description="beam: stop at enough finished, when nothing better can come, or at the longest output"
    )
    finish: CountOrNone = Field(0, description="beam: stop at so many finished; 0: as many as the beam holds")
    groups: Count = Field(1, description="beam: so many groups that avoid each other's tokens (diverse beam)")
    diversity: float = Field(0.5, ge=0, description="beam: how much a token counts less for each group that chose it")
    normalization: Literal["power", "gnmt", "none"] = Field(
        "power", description="rank by log p / length^α, log p / ((5 + length) / 6)^α, or log p"
    )
    length_penalty: float = Field(1.0, ge=0, description="the α of the normalization")
    coverage_penalty: float = Field(0.0, ge=0, description="how much source tokens that were not looked at count")
    max_length: CountOrNone = Field(0, description="longest output in tokens; 0: as the next two say")
    max_ratio: float = Field(2.0, ge=0, description="longest output: this times the source's tokens …")
    max_extra: CountOrNone = Field(10, description="… plus this")
    min_length: CountOrNone = Field(0, description="shortest output in tokens …")
    min_ratio: float = Field(0.0, ge=0, description="… and in the source's tokens")
    temperature: float = Field(1.0, gt=0, description="sample, mbr: above 1 flatter, below 1 sharper")
    top_k: CountOrNone = Field(0, description="sample, mbr: only from the k likeliest; 0: from all")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="sample, mbr: only from the fewest that hold this probability"
    )
    min_p: Probability = Field(0.0, description="sample, mbr: only from those with this share of the likeliest's")
    typical: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="sample, mbr: only from the most ordinary that hold this probability"
    )
    seed: CountOrNone | None = Field(None, description="sample, mbr: of the draws; not given: the recipe's seed")
    samples: Count = Field(32, description="mbr: outputs drawn a sentence")
    utility: Literal["chrf", "bleu", "edit", "exact"] = Field("chrf", description="mbr: how outputs are compared")
    prefix: str = Field("", description="what every output begins with")
    banned: list[str] = Field([], description="phrases that are not said")
    required: list[str] = Field([], description="beam: phrases that every output contains")
    no_repeat_ngram: CountOrNone = Field(0, description="no so many tokens in a row are said twice; 0: they may be")
    repetition_penalty: float = Field(1.0, ge=1, description="log p of a token that was said already × this")
    no_loops: bool = Field(
        True, description="a phrase of up to 16 tokens is not said 3 times in a row or more, over 10 tokens or more"
    )
    replace_unknown: bool = Field(False, description="unknown tokens become the source word looked at most")
    max_space: Count = Field(1_000_000, description="exhaustive: refuse to try more outputs than this")
    max_nodes: Count = Field(100_000, description="exact: give up after looking beyond so many beginnings")
    batch_tokens: Count = Field(4_096, description="source tokens a batch")

    @model_validator(mode="after")
    def _agree(self) -> SearchSettings:
        if self.size % self.groups:
            raise ValueError(f"search.groups: a beam of {self.size} cannot be parted into {self.groups} equal groups")
        if self.max_length and self.min_length > self.max_length:
            raise ValueError(f"search.min_length: {self.min_length} is above search.max_length = {self.max_length}")
        if self.required and self.kind != "beam":
            raise ValueError(f"search.required: phrases are required of a beam, not of kind = '{self.kind}'")
        for phrase in (*self.banned, *self.required):
            if not phrase.strip():
                raise ValueError("search.banned, search.required: a phrase is empty")
        return self
