"""[[data.pipeline]]: the steps that training pairs go through, in order; [data.terms] and [data.fuzzy] are two more.

The settings of a step are declared by the step itself (`weft.data.filtering.steps`), which is imported when a recipe
has one: reading a recipe without a pipeline imports no filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from weft.errors import nearest
from weft.recipe.base import Probability, Settings
from weft.recipe.choices import STEPS, resolve


class StepSettings(Settings):
    """The settings of a step, of which `kind` is its name in `STEPS`."""

    kind: str
    needs_whole_corpus: ClassVar[bool] = False
    """Whether the step is decided after all pairs were read, so that streaming cannot have it."""


class StepByKind:
    """Annotation of a setting that is a step: validated by the class that `STEPS` has for its kind."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=core_schema.simple_ser_schema("any")
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"oneOf": [step.model_json_schema() for _, step in self.tagged_classes()]}

    @staticmethod
    def tagged_classes() -> Iterator[tuple[str, type[StepSettings]]]:
        """Every class of steps, with the tag that stands for it in the location of an error."""
        for kind in STEPS:
            yield f"<{kind}>", resolve(STEPS, kind)

    @staticmethod
    def _validate(value: Any) -> StepSettings:
        if isinstance(value, StepSettings):
            return value
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind is None:
            raise ValueError("data.pipeline: a step has no kind; for example {kind = 'length', max = 100}")
        if not isinstance(kind, str) or kind not in STEPS:
            raise ValueError(f"data.pipeline: {kind!r} is not a kind of step; {nearest(str(kind), STEPS)}")
        try:
            step: StepSettings = resolve(STEPS, kind).model_validate(value)
            return step
        except ValidationError as error:  # with the kind in each location, so that a message can name its settings
            details = [
                InitErrorDetails(type=e["type"], loc=(f"<{kind}>", *e["loc"]), input=e["input"], ctx=e.get("ctx", {}))
                for e in error.errors()
            ]
            raise ValidationError.from_exception_data(error.title, details) from None


AnyStep = Annotated[StepSettings, StepByKind()]
"""One step of a pipeline, of any kind."""

NonEmpty = Annotated[str, Field(min_length=1)]


class TermsSettings(Settings):
    """[data.terms]: terms of a glossary, written into training sources."""

    file: NonEmpty | None = Field(
        None, description="glossary whose target terms are written into training sources, for outputs that inflect them"
    )
    share: Probability = Field(0.5, description="share of its terms that are written into the sources that have them")


class FuzzySettings(Settings):
    """[data.fuzzy]: the most similar pair of a translation memory as a source column."""

    file: NonEmpty | None = Field(
        None,
        description="pairs (source, tab, target); the target of the most similar one is the last source column "
        "(needs model.sources.count = 2)",
    )
    min_similarity: float = Field(0.5, ge=0, le=1, description="the least similarity of a pair")
    empty: Probability = Field(0.1, description="share of similar pairs that are left out in training")
