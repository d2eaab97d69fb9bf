"""Which weights model.safetensors holds: of which steps, why these, and how they did on the validation set.

Kept in the metadata of the file, so that it is true of these very weights; read when a run is loaded, to warn of
weights that cannot be any good and to refuse those from which nothing can come.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from weft.errors import CheckpointError, warn

STRUCTURAL = "structural_"
"""How the names of numbers begin that belong to the pairs held out for their structure (data.holdout.structure)."""
Kind = Literal["initial", "last", "best", "mean", "imported", "base"]


class WeightsOrigin(NamedTuple):
    """What the weights of a model file are."""

    kind: Kind
    """initial: those training starts from; last: of the last checkpoint, as long as no validation has chosen one;
    best: of the best checkpoint; mean: the mean of the best checkpoints, if it is better than the best of them;
    imported: of a model of another toolkit; base: of the run that adapters are trained on."""
    steps: tuple[int, ...]
    """The step, or the steps of a mean."""
    validation: dict[str, float] | None = None
    """Loss, perplexity and metric of these weights on the validation set, and of the structural holdout if there is one
    (`STRUCTURAL`); of weights that no validation chose: of the last validation, whose loss was not finite."""

    def metadata(self) -> dict[str, str]:
        """The entries of the metadata of a safetensors file."""
        entries = {"weights": self.kind, "step": ",".join(map(str, self.steps))}
        return entries if self.validation is None else {**entries, "validation": json.dumps(self.validation)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> WeightsOrigin | None:
        """The inverse of `metadata`; None if it says nothing, as in the first files of this format, or is damaged."""
        try:
            kind = metadata["weights"]
            steps = tuple(map(int, metadata["step"].split(",")))
            validation = json.loads(metadata["validation"]) if "validation" in metadata else None
            if kind not in get_args(Kind):
                return None
            numbers = None if validation is None else {str(name): float(value) for name, value in validation.items()}
            return cls(kind, steps, numbers)  # type: ignore[arg-type]
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            return None

    def describe(self) -> str:
        """In a few words: "step 300", "the mean of steps 300, 400 and 500"."""
        if self.kind in ("initial", "imported", "base"):
            return f"the {self.kind} weights"
        if len(self.steps) == 1:
            return f"step {self.steps[0]}"
        return f"the mean of steps {', '.join(map(str, self.steps[:-1]))} and {self.steps[-1]}"

    @property
    def diverged(self) -> bool:
        """Whether the validation loss is infinite or not a number."""
        return self.validation is not None and not math.isfinite(self.validation.get("loss", 0.0))

    def check(self, run: Path, *, steps: int, target_vocabulary: int, initialized: bool) -> None:
        """Refuse untrained and diverged weights; warn of weights that cannot be any good yet.

        ``steps``: of the whole training. ``initialized``: whether training started from weights that are not random.
        """
        go_on = f"continue with: {resume_command(run)}"
        lower = "train again with a lower training.learning_rate"
        perplexity = (self.validation or {}).get("perplexity", 0.0)
        if self.kind == "initial" and not initialized:
            raise CheckpointError(f"{run}: not trained yet: it holds the initial weights (step 0 of {steps}); {go_on}")
        if self.diverged:
            raise CheckpointError(
                f"{run}: training diverged: the validation loss was not finite ({self.describe()}); {lower}"
            )
        if perplexity > target_vocabulary:
            warn(
                f"{run}: has learned nothing: its validation perplexity, {perplexity:.4g}, is worse than a uniform "
                f"guess from the vocabulary of {target_vocabulary}; train longer, or {lower}"
            )
        elif self.kind in ("initial", "last") and self.steps[-1] < steps:
            warn(
                f"{run}: training is at step {self.steps[-1]} of {steps}, and these weights were never validated; "
                f"{go_on}"
            )


def resume_command(run: Path | str) -> str:
    """The command that resumes a run, as it can be pasted into a shell."""
    return f"weft train {shlex.quote(str(run))} --resume"
