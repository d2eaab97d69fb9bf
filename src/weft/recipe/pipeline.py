"""[[data.pipeline]]: the steps that training pairs go through, one group a step, in order.

Names and defaults are those of the steps themselves (data/steps.py, data/noise.py):
``STEPS[settings.kind](**settings.model_dump(exclude={"kind"}))`` makes one. A Python function is never among them.
"""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from weft.recipe.base import CountOrNone, Probability, Settings

Side = Literal["both", "source", "target"]
Unit = Literal["words", "characters"]


def _checked(expression: str, by: str = "") -> str:
    """The regular expression, if it is one and can be replaced by that."""
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"data.pipeline: {expression!r} is no regular expression: {error}") from None
    try:
        pattern.sub(by, "")  # reads the replacement first, whether or not anything is found
    except (re.error, IndexError) as error:
        raise ValueError(f"data.pipeline: {by!r} cannot replace {expression!r}: {error}") from None
    return expression


class LengthSettings(Settings):
    """Drop pairs that are too short or too long."""

    kind: Literal["length"] = Field("length", description="drop pairs that are too short or too long")
    least: CountOrNone = Field(1, description="shortest that is kept; 1: no blank sides")
    most: CountOrNone = Field(0, description="longest that is kept; 0: no limit")
    unit: Unit = Field("words", description="what is counted; a word is what stands between white space")
    side: Side = Field("both", description="which side must fit")

    @model_validator(mode="after")
    def _agree(self) -> LengthSettings:
        if self.most and self.least > self.most:
            raise ValueError(f"data.pipeline: length: least = {self.least} is above most = {self.most}")
        return self


class RatioSettings(Settings):
    """Drop pairs whose sides differ too much in length."""

    kind: Literal["ratio"] = Field("ratio", description="drop pairs whose sides differ too much in length")
    most: float = Field(3.0, ge=1, description="longer side over shorter side, at most")
    unit: Unit = Field("words", description="what is counted")


class DuplicatesSettings(Settings):
    """Drop what was there before."""

    kind: Literal["duplicates"] = Field("duplicates", description="drop what was there before; the first stays")
    of: Literal["pair", "source", "target"] = Field("pair", description="what must not come twice")


class IdenticalSettings(Settings):
    """Drop pairs whose sides are the same."""

    kind: Literal["identical"] = Field("identical", description="drop pairs whose sides are the same")


class ScriptsSettings(Settings):
    """Drop pairs written in other scripts."""

    kind: Literal["scripts"] = Field("scripts", description="drop pairs written in other scripts")
    allowed: list[str] = Field(min_length=1, description="such as ['Latin'] or ['Han', 'Hiragana', 'Katakana']")
    least: Probability = Field(0.9, description="share of the letters that must be of these")
    side: Side = Field("both", description="which side must fit")


class PatternSettings(Settings):
    """Drop pairs by a regular expression."""

    kind: Literal["pattern"] = Field("pattern", description="drop pairs by a regular expression")
    expression: str = Field(description="what is looked for, anywhere in the text")
    keep: bool = Field(True, description="drop pairs where it is not found; false: where it is")
    side: Side = Field("both", description="where it is looked for")

    @field_validator("expression")
    @classmethod
    def _compiles(cls, given: str) -> str:
        return _checked(given)


class LowercaseSettings(Settings):
    """Write everything in small letters."""

    kind: Literal["lowercase"] = Field("lowercase", description="write everything in small letters")
    side: Side = Field("both", description="which side")


class PrefixSettings(Settings):
    """Put a tag before a side."""

    kind: Literal["prefix"] = Field("prefix", description="put a tag, such as <2de>, and a space before a side")
    text: str = Field(description="the tag")
    side: Side = Field("source", description="which side")

    @field_validator("text")
    @classmethod
    def _says_something(cls, given: str) -> str:
        if not given.strip():
            raise ValueError("data.pipeline: prefix: the text is blank; give one, such as text = '<2de>'")
        return given


class ReplaceSettings(Settings):
    """Replace what a regular expression finds."""

    kind: Literal["replace"] = Field("replace", description="replace what a regular expression finds")
    expression: str = Field(description="what is looked for")
    by: str = Field("", description=r"what it becomes; \1 is the first group")
    side: Side = Field("both", description="which side")

    @model_validator(mode="after")
    def _compiles(self) -> ReplaceSettings:
        _checked(self.expression, self.by)
        return self


class NoiseSettings(Settings):
    """Lose, blank out, replace and move words or characters."""

    kind: Literal["noise"] = Field("noise", description="lose, blank out, replace and move words or characters")
    drop: Probability = Field(0.0, description="chance that one is lost")
    blank: Probability = Field(0.0, description="chance that one is blanked out")
    blank_text: str = Field("<blank>", description="what a blanked one becomes")
    replace: Probability = Field(0.0, description="chance that one becomes another of the same text")
    swap: CountOrNone = Field(0, description="places that one may move")
    unit: Unit = Field("words", description="words, or the characters inside each word")
    side: Side = Field("source", description="which side")

    @model_validator(mode="after")
    def _agree(self) -> NoiseSettings:
        chances = self.drop + self.blank + self.replace
        if chances > 1:
            raise ValueError(f"data.pipeline: noise: drop, blank and replace sum to {chances:g}; at most 1 can be")
        if not chances and not self.swap:
            raise ValueError("data.pipeline: noise: there is none; set drop, blank, replace or swap")
        if self.blank_text.split() != [self.blank_text]:
            raise ValueError(f"data.pipeline: noise: blank_text = {self.blank_text!r}; it must be one word")
        return self


KINDS: dict[str, type[Settings]] = {
    "length": LengthSettings,
    "ratio": RatioSettings,
    "duplicates": DuplicatesSettings,
    "identical": IdenticalSettings,
    "scripts": ScriptsSettings,
    "pattern": PatternSettings,
    "lowercase": LowercaseSettings,
    "prefix": PrefixSettings,
    "replace": ReplaceSettings,
    "noise": NoiseSettings,
}


def _known(given: Any) -> Any:
    """Refuse a step of no kind, or of none there is, in words of our own."""
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    if kind is None:
        raise ValueError("data.pipeline: a step has no kind; for example {kind = 'length', most = 100}")
    if not isinstance(kind, str) or kind not in KINDS:
        close = difflib.get_close_matches(str(kind), KINDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(KINDS)}"
        raise ValueError(f"data.pipeline: {kind!r} is no kind of step; {hint}")
    return given


def _tag(given: Any) -> str:
    return f"<{given['kind'] if isinstance(given, dict) else given.kind}>"


StepSettings = Annotated[
    Annotated[LengthSettings, Tag("<length>")]
    | Annotated[RatioSettings, Tag("<ratio>")]
    | Annotated[DuplicatesSettings, Tag("<duplicates>")]
    | Annotated[IdenticalSettings, Tag("<identical>")]
    | Annotated[ScriptsSettings, Tag("<scripts>")]
    | Annotated[PatternSettings, Tag("<pattern>")]
    | Annotated[LowercaseSettings, Tag("<lowercase>")]
    | Annotated[PrefixSettings, Tag("<prefix>")]
    | Annotated[ReplaceSettings, Tag("<replace>")]
    | Annotated[NoiseSettings, Tag("<noise>")],
    Discriminator(_tag),
    BeforeValidator(_known),
]
"""One step of a pipeline, told by its kind. The tags in brackets keep error messages to the kind meant."""
