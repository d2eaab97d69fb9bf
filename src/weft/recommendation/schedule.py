"""[training], [search] and [evaluation]: batch, learning rate, steps, patience, metric, beam."""

from __future__ import annotations

from typing import Any

from weft.data.profiling.profile import PairProfile
from weft.data.profiling.sides import SideProfile
from weft.recommendation.choices import Choice
from weft.recommendation.kinds import UNSPACED, Task

VALIDATIONS = 20
PATIENCE = 8
MAX_STEPS = 100_000


def choose_training(profile: PairProfile, task: Task, tree: dict[str, Any]) -> list[Choice]:
    """How to train the model of `tree`, how to search with it, and what it is judged by."""
    tokens = epoch_tokens(profile, task)
    batch = _power_of_two(tokens / 120, 512, 4_096 if tokens <= 2_000_000 else 8_192)
    per_epoch = max(1, round(tokens / batch))
    steps = max(2_000, min(10_000, per_epoch * _epochs(profile, task)), per_epoch * 5)
    steps = round(min(steps, MAX_STEPS), -2)
    rate = _learning_rate(profile, tree)
    warmup = max(50, min(2_000, steps // 10))
    size = f"about {tokens:,} tokens an epoch"
    settings: dict[str, Any] = {"training.steps": steps, "training.validate_every": max(25, steps // VALIDATIONS)}
    settings |= {"training.patience": PATIENCE, "training.average": 5, "training.save_every": steps}
    choices = [
        Choice("batch", f"{batch:,} tokens", size, {"training.batch_tokens": batch}),
        Choice(
            "steps", f"up to {steps:,}", f"{steps / per_epoch:.0f} epochs; stops earlier without improvement", settings
        ),
        Choice(
            "learning rate",
            f"{rate:g}, cosine",
            f"warmup of {warmup} steps",
            {"training.learning_rate": rate, "training.warmup": warmup, "training.schedule": "cosine"},
        ),
        _smoothing(task),
        _metric(profile, task),
    ]
    if task.kind == "answer":
        choices.append(Choice("search", "greedy", "one token decides", {"search.kind": "greedy"}))
    else:
        choices.append(Choice("search", "beam of 5", "longest output learned from the pairs", {"search.size": 5}))
    return choices


def _epochs(profile: PairProfile, task: Task) -> int:
    """How often to see the pairs at most: more often where they are few and the answer is exact."""
    if task.kind == "summary":
        return 8
    if task.kind == "inflection":
        return 120
    if task.kind == "spelling":
        return 40
    if task.kind == "formal":
        return 200 if profile.pairs < 10_000 else 40
    if profile.targets_per_source >= 3:
        return 25
    return 80 if profile.pairs <= 50_000 else 30


def epoch_tokens(profile: PairProfile, task: Task) -> int:
    """The tokens of the longer side in all pairs, roughly."""
    lengths = []
    for unit, side in ((task.source, profile.source), (task.target, profile.target)):
        if unit == "character":
            lengths.append(side.characters.mean)
        else:
            lengths.append(side.tokens.mean * (1.0 if unit == "symbol" else 1.3))
    mean = max(lengths) if task.kind != "summary" else min(lengths[0], 200)
    return max(1, round(profile.pairs * (mean + 1)))


def _power_of_two(value: float, low: int, high: int) -> int:
    power = low
    while power < high and power * 1.5 <= value:
        power *= 2
    return power


def _learning_rate(profile: PairProfile, tree: dict[str, Any]) -> float:
    encoder = tree["model"]["encoder"]
    if encoder["kind"] != "transformer":
        return 0.001
    return 0.0005 if profile.pairs < 10_000 or encoder["hidden"] >= 512 else 0.001


def _smoothing(task: Task) -> Choice:
    value = 0.0 if task.kind == "answer" else 0.1
    reason = "one right answer" if task.kind == "answer" else "the usual amount"
    return Choice("label smoothing", str(value), reason, {"training.label_smoothing": value})


def _metric(profile: PairProfile, task: Task) -> Choice:
    several = profile.several_targets > 0.2
    names, reason = _metrics(profile, task, several=several)
    settings: dict[str, Any] = {
        "training.metric": names[0],
        "training.valid_sentences": 1_000,
        "evaluation.metrics": names,
    }
    if several:
        settings["evaluation.references"] = "grouped"
        reason += f"; {profile.targets_per_source:.1f} targets a source count as references"
    return Choice("metric", names[0], reason, settings)


def _metrics(profile: PairProfile, task: Task, *, several: bool) -> tuple[list[str], str]:
    if task.is_word_level:
        symbols = task.target == "symbol"
        second = "token_error_rate" if symbols else "character_error_rate"
        return ["exact_match"] if several else ["exact_match", second], "a word is right or wrong"
    if task.kind == "answer":
        return ["exact_match"], "an answer is right or wrong"
    if task.kind == "correction":
        return ["edit_f05", "exact_match"], "edits are judged, not what stays"
    if task.kind == "summary":
        return ["rouge_1", "rouge_2", "rouge_l_f1"], "summaries are judged by shared words"
    if task.kind == "formal" or (task.kind == "copying" and not _is_text(profile.target)):
        return ["token_match", "token_match@5"], "formal language is right or wrong"
    if profile.target.script in UNSPACED and profile.target.tokens.median <= 3:
        return ["chrf"], f"no spaces between words ({profile.target.script})"
    if profile.target.punctuated < 0.01:
        return ["bleu_tokenized", "chrf"], "the target is tokenized already"
    return ["bleu", "chrf"], "sentences"


def _is_text(side: SideProfile) -> bool:
    """Whether words carry their punctuation, as in running text."""
    return side.punctuated > 0.05
