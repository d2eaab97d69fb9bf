"""[training], [search] and [evaluation]: batch, learning rate, steps, patience, metric, beam."""

from __future__ import annotations

from typing import Any

from weft.pairs.profiling.profile import PairProfile
from weft.pairs.recommendation.choices import Choice
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.kinds import PUNCTUATED, UNSPACED, TaskProfile
from weft.pairs.recommendation.network import MANY_PAIRS
from weft.pairs.recommendation.speed import steps_in

VALIDATIONS = 20
PATIENCE = 10
"""Validations without improvement; half of them, as the cosine schedule improves most towards its end."""
MIN_STEPS, USUAL_STEPS, MAX_STEPS = 2_000, 10_000, 100_000
FORMAL_STEPS = 12_000
"""Steps for formal languages: training pairs are learned sooner, new combinations of symbols are not."""
LARGE_EPOCH, LARGE_STEPS = 2_000_000, 12_000
"""Above this many tokens per epoch, batches are larger, and this is the usual number of steps."""
FEW_EPOCHS_BATCH, FEW_EPOCHS_RATE = 512, 0.001
"""Tokens of a batch and learning rate where there is time for a few epochs only: many small steps."""
LOCATION_BATCH = 256
"""Tokens of a batch with location attention: the noise of small batches finds rules that large ones miss."""
CODE_BATCH, CODE_RATE = 1_024, 0.0005
"""Tokens of a batch at most, and learning rate, for formal languages with copied names."""
WORD_MINUTES = 12
"""Approximate upper limit of the time to train on pairs of words with two CPU cores."""


def choose_training(
    profile: PairProfile,
    task: TaskProfile,
    tree: dict[str, Any],
    device: Device,
    given_steps: int | None = None,
    few_epochs: str | None = None,
) -> list[Choice]:
    """The training of the model of `tree`, its search, and its metric.

    ``given_steps``: the number of steps, if it was given; warmup and validations depend on it.
    ``few_epochs``: why there is only time for a few epochs.
    """
    tokens = epoch_tokens(profile, task)
    batch = FEW_EPOCHS_BATCH if few_epochs else _batch(tokens, task, tree, device)
    steps, reason = _steps(profile, task, tokens, batch)
    if device == "cpu" and task.is_word_level:
        affordable = steps_in(60 * WORD_MINUTES, tree, batch)
        if affordable < steps:
            steps, reason = affordable, f"about {WORD_MINUTES} minutes on two CPU cores"
    steps = given_steps or steps
    rate = FEW_EPOCHS_RATE if few_epochs else _learning_rate(profile, task, tree)
    warmup = min(max(50, steps // 10), 2_000, steps // 4)
    settings: dict[str, Any] = {"training.steps": steps, "training.save_every": steps}
    settings |= {"training.validate_every": min(max(25, steps // VALIDATIONS), steps)}
    settings |= {"training.patience": 0 if task.kind == "formal" else PATIENCE, "training.average": 5}
    settings |= _delivered(profile, task)
    schedule = {"training.learning_rate": rate, "training.warmup": warmup, "training.schedule": "cosine"}
    choices = [
        Choice("batch", f"{batch:,} tokens", f"about {tokens:,} tokens per epoch", {"training.batch_tokens": batch}),
        _duration(task, steps, reason, settings),
        Choice("learning rate", f"{rate:g}, cosine", f"warmup of {warmup:,} steps", schedule),
        _smoothing(task),
        _metric(profile, task, device),
    ]
    if task.kind == "answer":
        choices.append(Choice("search", "greedy", "one token decides", {"search.kind": "greedy"}))
    else:
        reason = "the usual size" if "search" in tree else "the length limit is learned from the pairs"
        choices.append(Choice("search", "beam of 5", reason, {"search.size": 5}))
    return choices


def _duration(task: TaskProfile, steps: int, reason: str, settings: dict[str, Any]) -> Choice:
    """The duration of training; to the end for formal languages, whose new structures are learned late."""
    if settings["training.patience"]:
        return Choice("steps", f"up to {steps:,}", f"{reason}; stops earlier without improvement", settings)
    return Choice("steps", f"{steps:,}", f"{reason}; new combinations are learned after the validation pairs", settings)


def _delivered(profile: PairProfile, task: TaskProfile) -> dict[str, Any]:
    """The weights that a run delivers, if they are not the best on validation.

    Formal languages with many pairs: the last ones, since validation pairs like the training pairs are soon all right
    and cannot tell weights apart. With few pairs, validation still can.
    """
    return {"training.choose": "last"} if task.kind == "formal" and profile.pairs >= MANY_PAIRS else {}


def epoch_tokens(profile: PairProfile, task: TaskProfile) -> int:
    """The tokens of the longer side in all pairs, roughly."""
    lengths = []
    for unit, side in ((task.source, profile.source), (task.target, profile.target)):
        if unit == "character":
            lengths.append(side.characters.mean)
        else:
            lengths.append(side.tokens.mean * (1.0 if unit == "symbol" else 1.3))
    mean = max(lengths) if task.kind != "summary" else min(lengths[0], 200)
    return max(1, round(profile.pairs * (mean + 1)))


def _batch(tokens: int, task: TaskProfile, tree: dict[str, Any], device: Device) -> int:
    """Tokens of a batch: some fifty batches an epoch on a GPU; smaller ones on a CPU, where larger are not faster."""
    on_gpu = device == "cuda"
    if tree["model"].get("attention", {}).get("location"):
        return LOCATION_BATCH
    if _is_code(task):
        return _power_of_two(tokens / (60 if on_gpu else 120), 512, CODE_BATCH)
    if task.kind == "inflection" and on_gpu:
        return _power_of_two(tokens / 30, 1_024, 4_096)
    if task.is_word_level:
        return _power_of_two(tokens / 60, 1_024, 2_048 if on_gpu else 1_024)
    return _power_of_two(tokens / (60 if on_gpu else 120), 512, 4_096 if tokens <= LARGE_EPOCH else 8_192)


def _power_of_two(value: float, low: int, high: int) -> int:
    power = low
    while power < high and power * 1.5 <= value:
        power *= 2
    return power


def _steps(profile: PairProfile, task: TaskProfile, tokens: int, batch: int) -> tuple[int, str]:
    """The number of updates, and why."""
    per_epoch = max(1, round(tokens / batch))
    usual = USUAL_STEPS if tokens <= LARGE_EPOCH else LARGE_STEPS
    if task.kind == "formal" and tokens <= LARGE_EPOCH:
        usual = FORMAL_STEPS
    steps = max(MIN_STEPS, min(usual, per_epoch * _epochs(profile, task)), per_epoch * 5)
    steps = round(min(steps, MAX_STEPS), -2)
    return steps, f"{steps / per_epoch:,.0f} epochs"


def _epochs(profile: PairProfile, task: TaskProfile) -> int:
    """The largest number of epochs: higher where pairs are few and answers are exact."""
    if task.kind == "summary":
        return 8
    if task.kind == "inflection":
        return 100
    if task.kind == "spelling":
        return 80 if profile.pairs < 20_000 else 40
    if task.kind == "formal":
        return 400 if profile.pairs < 10_000 else 160
    if profile.targets_per_source >= 3:
        return 25
    return 80 if profile.pairs <= 50_000 else 30


def _is_code(task: TaskProfile) -> bool:
    """Whether targets are of a formal language whose names are copied."""
    return task.kind == "copying" and task.is_formal


def _learning_rate(profile: PairProfile, task: TaskProfile, tree: dict[str, Any]) -> float:
    encoder = tree["model"]["encoder"]
    if encoder["kind"] != "transformer":
        return 0.001
    if _is_code(task):
        return CODE_RATE
    rate = 0.0005 if profile.pairs < 10_000 or encoder["hidden"] >= 512 else 0.001
    return 2 * rate if tree["model"]["dropout"] >= 0.4 else rate


def _smoothing(task: TaskProfile) -> Choice:
    exceptions: dict[str, str] = {"answer": "one right answer", "copying": "what is copied is certain"}
    exceptions["formal"] = "one right output; smoothing costs new combinations of symbols"
    value, reason = (0.0, exceptions[task.kind]) if task.kind in exceptions else (0.1, "the usual amount")
    return Choice("label smoothing", str(value), reason, {"training.label_smoothing": value})


def _metric(profile: PairProfile, task: TaskProfile, device: Device) -> Choice:
    several = profile.targets_per_source >= 2
    names, reason = _metrics(profile, task, several=several)
    settings: dict[str, Any] = {
        "training.metric": names[0],
        "training.valid_sentences": 1_000 if device == "cuda" else 500,
        "evaluation.metrics": names,
    }
    if several:
        settings["evaluation.references"] = "grouped"
        reason += f"; {profile.targets_per_source:.1f} targets a source count as references"
    return Choice("metric", names[0], reason, settings)


def _metrics(profile: PairProfile, task: TaskProfile, *, several: bool) -> tuple[list[str], str]:
    if task.is_word_level:
        symbols = task.target == "symbol"
        second = "token_error_rate" if symbols else "character_error_rate"
        return ["exact_match"] if several else ["exact_match", second], "right or wrong as a whole"
    if task.kind == "answer":
        return ["exact_match"], "an answer is right or wrong"
    if task.kind == "correction":
        return ["edit_f05", "exact_match"], "edits are judged, not what stays"
    if task.kind == "summary":
        return ["rouge_1", "rouge_2", "rouge_l_f1"], "summaries are judged by shared words"
    if task.is_formal:
        return ["token_match", "token_match@5"], "formal language is right or wrong"
    if profile.target.script in UNSPACED and profile.target.tokens.median <= 3:
        return ["chrf"], f"no spaces between words ({profile.target.script})"
    if profile.target.punctuated < PUNCTUATED:
        return ["bleu_tokenized", "chrf"], "the target is tokenized already"
    return ["bleu", "chrf"], "sentences"
