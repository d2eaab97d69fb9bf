"""The folder of a race, OUT.race beside the run folder OUT, and race.json: where the race stands, for its continuation.

The folder is beside OUT because a run folder appears complete in one rename. Once the winner's folder is there,
race.json moves into it, and the folder of the race is removed. Importing this module does not import torch.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import CheckpointError, WeftError, option
from weft.files import json_value, read_json, save_text
from weft.pairs.halving import Standing
from weft.pairs.recommendation.proposals import CandidateRecipe
from weft.pairs.time_limit.budget import Speed
from weft.recipe.toml import write_toml

if TYPE_CHECKING:
    from weft.pairs.race.probe import Probe

RACE_FILE = "race.json"


class RaceRecord:
    """The state of a race; written after each validation of a candidate and after each decision."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(f"{out.name}.race")
        self.content: dict[str, Any] = {}

    @property
    def elapsed(self) -> float:
        """Seconds that an interrupted race has taken; 0 if there is none to be continued."""
        try:
            return float(read_json(self.folder / RACE_FILE)["elapsed"])
        except (OSError, WeftError, KeyError, TypeError, ValueError):
            return 0.0

    @property
    def speed(self) -> Speed | None:
        """The speed of the winner as observed in its probe; None if there was no race, or too short a one.

        What the probe has compiled is not compiled again.
        """
        probe = self.content.get("probes", {}).get(self.content.get("winner"), {})
        step, speed = probe.get("step_seconds"), probe.get("speed")
        return None if step is None or speed is None else Speed(*speed)._replace(step=step, startup=0.0)

    @property
    def exists(self) -> bool:
        return (self.folder / RACE_FILE).is_file()

    def begin(self, candidates: Sequence[CandidateRecipe], minutes: float, probe_seconds: float) -> None:
        """A new race, or the one that was interrupted if it was between these candidates."""
        recipes = {candidate.name: _fingerprint(candidate) for candidate in candidates}
        if self.exists:
            self.content = read_json(self.folder / RACE_FILE)
            if not isinstance(self.content, dict) or self.content.get("recipes") != recipes:
                raise CheckpointError(
                    f"{self.folder}: is of an interrupted race between other recipes or on other pairs; remove it, or "
                    f"choose another {option('out')}"
                )
            return
        self.content = {
            "minutes": minutes,
            "recipes": recipes,
            "networks": {candidate.name: candidate.summary for candidate in candidates},
            "probe_seconds": probe_seconds,
            "rung": 0,
            "probes": {},
            "eliminated": {},
        }

    def save(self, elapsed: float) -> None:
        """Write the file; ``elapsed``: seconds since the race began, without interruptions."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.content["elapsed"] = elapsed
        save_text(self.folder / RACE_FILE, json.dumps(json_value(self.content), indent=1) + "\n")

    def restore(self, probe: Probe) -> None:
        """Give a candidate its scores from before the interruption."""
        before = self.content["probes"].get(probe.name)
        if before is not None and before["score"] is not None:
            probe.standing = Standing(probe.name, before["score"], before["loss"])
            probe.outputs = before["outputs"]
            probe.speed = None if before.get("speed") is None else Speed(*before["speed"])
            probe.batch_tokens = before.get("batch_tokens")

    def note(self, standing: Standing, **numbers: Any) -> None:
        """The best validation of a candidate so far."""
        self.content["probes"][standing.name] = {"score": standing.score, "loss": standing.loss, **numbers}

    def eliminate(self, name: str, reason: str) -> None:
        self.content["eliminated"][name] = reason
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def remove(self) -> None:
        """Remove the probes and their folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def probe(self) -> Path:
        """The probe of the winner while the winner is trained."""
        return self.out / "race" / "probe"

    def move_into_run(self) -> None:
        """race.json and the winner's probe become part of the run folder, which exists now; the others are removed."""
        if self.content:
            self.save_in_run()
            probe = self.folder / self.content["winner"]
            if (probe / "model.safetensors").is_file():
                shutil.rmtree(self.probe, ignore_errors=True)
                probe.rename(self.probe)
        self.remove()

    def save_in_run(self) -> None:
        folder = self.out / "race"
        folder.mkdir(exist_ok=True)
        save_text(folder / RACE_FILE, json.dumps(json_value(self.content), indent=1) + "\n")


def interrupted_race(out: Path) -> bool:
    """Whether the race for this run folder was interrupted, so that the same command continues it."""
    return not (out / "recipe.toml").is_file() and RaceRecord(out).exists


def _fingerprint(candidate: CandidateRecipe) -> str:
    return hashlib.sha256(write_toml(candidate.recipe).encode("utf-8")).hexdigest()[:16]
