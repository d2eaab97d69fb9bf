"""Recipes for pictures, frames and sound: stem, scale, encoder, decoder, CTC, augmentation, batch and steps.

lines of text   a state for each column of the picture; CTC alone, as labels are in the order of the columns
formulas        a state for each place, row by row; a decoder that attends with coverage
pictures        of anything else: a state for each place, and a decoder that attends
frames          a state for some frames; a decoder that attends, trained with CTC beside it
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from weft.data.columns.rows import PairInput
from weft.errors import plural
from weft.pairs.profiling.arrays import ArrayProfile
from weft.pairs.profiling.profile import PairProfile, left_out
from weft.pairs.recommendation.choices import Choice
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.kinds import unit_of
from weft.pairs.recommendation.network import recurrent, transformer
from weft.pairs.recommendation.splits import NAMES, choose_pairs
from weft.recipe.stem import STRIDES

Kind = Literal["line", "formula", "picture", "frames"]

FOLLOWING = 0.5
"""The correlation of a picture's shape with the length of its text, from which on it is a line of text."""
CHARACTER_HEIGHTS = 0.15, 1.5
"""Heights that pictures of one shape have for each character if they are lines of text."""
STATES_PER_CHARACTER = 1.2
"""States that CTC needs for a character: one, and a blank between two that are equal."""
LATEX_SHARE = 0.5
"""The share of targets with marks of LaTeX from which on they are formulas."""
LINE_HEIGHTS = (24, 32, 48, 64)
"""Heights to which lines are scaled, in pixels."""
LARGE_ALPHABET = 500
"""Different characters from which on lines need the largest of these heights."""
PICTURE_HEIGHT = {"cpu": 96, "cuda": 224}
"""The height to which larger pictures are scaled that are neither lines nor formulas."""
GRID_STATES = {"cpu": 150, "cuda": 400}
"""States of a typical picture at most: stages that halve its sides are added until there are no more."""
MAX_STAGES = 6
WIDTHS = {"cpu": (16, 32, 64, 96, 128, 128), "cuda": (32, 64, 128, 256, 256, 256)}
"""Channels of the stages of a stem."""
BATCH_PICTURES = {"cpu": 24, "cuda": 64}
MANY_PICTURES = 200_000
"""Pictures from which on augmentation has little to add."""
SEEN = {"line": 250_000, "formula": 600_000, "picture": 400_000, "frames": 400_000}
"""Pictures that are trained on in all epochs together."""
SEEN_ON_GPU = SEEN | {"formula": 1_500_000}
EPOCHS = 5, 150
"""The fewest and the most epochs."""
EPOCHS_ON_GPU = 5, 200
VALIDATIONS, PATIENCE = 20, 10
SHORT_TEXT = 20
"""Characters of a text up to which it is right or wrong as a whole."""
AUGMENTATIONS: dict[str, dict[str, float]] = {
    "line": {"scale": 0.1, "shift": 0.1, "shear": 0.2, "stroke": 0.5, "contrast": 0.3, "noise": 0.05},
    "formula": {"resize": 0.25, "scale": 0.1, "shear": 0.2, "stroke": 0.5},
    "picture": {"scale": 0.1, "shift": 0.1, "contrast": 0.2},
    "frames": {"time_masks": 2, "feature_masks": 2},
}


@dataclass(frozen=True)
class ArrayTask:
    """A task whose sources are arrays: its kind, and why it is that."""

    kind: Kind
    name: str
    reason: str


def find_array_task(profile: PairProfile, arrays: ArrayProfile) -> ArrayTask:
    """The kind of task by the profile; the first rule that holds decides."""
    if arrays.kind == "frames":
        return ArrayTask("frames", "frames to text", f"{plural(arrays.widths[1], 'value')} a frame")
    if arrays.latex >= LATEX_SHARE:
        return ArrayTask("formula", "formulas", f"{arrays.latex:.0%} of the targets are LaTeX")
    follows, each = arrays.follows_width, arrays.character_heights
    if _states_per_character(profile, arrays, across=2) >= STATES_PER_CHARACTER:
        if follows is not None and follows >= FOLLOWING:
            reason = f"longer texts have wider pictures, correlation {follows:.2f}"
            return ArrayTask("line", "lines of text", reason)
        few = profile.target.distinct * profile.sampled <= max(2, profile.sampled // 50)
        if follows is None and not few and CHARACTER_HEIGHTS[0] <= each <= CHARACTER_HEIGHTS[1]:
            return ArrayTask("line", "lines of text", f"as wide as {each:.2g} heights for each character")
    return ArrayTask("picture", "pictures to text", "the text does not run along the picture")


def choose_for_arrays(
    profile: PairProfile,
    parts: dict[str, PairInput],
    device: Device,
    hold_out: Collection[str] = ("valid", "test"),
    given_steps: int | None = None,
) -> list[Choice]:
    """The choices for a table whose sources name arrays; the parameters are those of `choose_settings`."""
    arrays = profile.arrays
    if arrays is None:
        raise ValueError("the sources of this profile are texts")
    task = find_array_task(profile, arrays)
    choices = [*choose_pairs(profile, parts, hold_out), _files(profile, arrays), Choice("task", task.name, task.reason)]
    choices += _units(profile, arrays, task, device)
    choices += _stem(profile, arrays, task, device)
    choices += _network(profile, task, device)
    choices += _augmentation(profile, task)
    return [*choices, *_training(profile, arrays, task, device, given_steps), _search(task), _metric(profile, task)]


def array_warnings(profile: PairProfile, arrays: ArrayProfile) -> list[str]:
    """Warnings about the files, one line each."""
    warnings = []
    if profile.pairs < 500:
        warnings.append(f"{plural(profile.pairs, 'pair')}: very few; expect errors, and collect more")
    if arrays.unreadable:
        first = "; ".join(arrays.errors)
        warnings.append(f"{arrays.unreadable} of {plural(arrays.sampled, 'file')} cannot be read: {first}")
    for part, share in profile.overlaps.items():
        if share > 0.01:
            warnings.append(f"{share:.0%} of the {NAMES[part]} have a file that is trained on; scores will be too good")
    if profile.bad_rows:
        warnings.append(left_out(profile.bad_rows, profile.first_error))
    return warnings + [f"{NAMES[part]}: {error}" for part, error in profile.part_errors.items()]


def _files(profile: PairProfile, arrays: ArrayProfile) -> Choice:
    """The sizes of the files; those that cannot be read are left out, unless all were looked at and can be."""
    looked_at = f"{arrays.sampled:,} of {profile.pairs:,} looked at"
    all_good = arrays.sampled >= profile.pairs and not arrays.unreadable
    settings = {} if all_good else {"data.bad_rows": "skip"}
    return Choice("pictures" if arrays.kind == "picture" else "frames", arrays.describe(), looked_at, settings)


def _channels(arrays: ArrayProfile, task: ArrayTask) -> int:
    """Values of a pixel or of a frame; text is read in gray."""
    if arrays.kind == "frames":
        return arrays.widths[1]
    return 3 if task.kind == "picture" and arrays.colored > 0.1 else 1


def _height(profile: PairProfile, arrays: ArrayProfile, kind: Kind, device: Device) -> int:
    """The height to which pictures are scaled; 0: they keep their sizes."""
    low, middle, high = arrays.heights
    if kind == "line":
        if low == high <= LINE_HEIGHTS[-1]:
            return 0
        if profile.target.alphabet > LARGE_ALPHABET:
            return LINE_HEIGHTS[-1]
        return max((height for height in LINE_HEIGHTS[:-1] if height <= middle), default=LINE_HEIGHTS[0])
    return PICTURE_HEIGHT[device] if kind == "picture" and middle > PICTURE_HEIGHT[device] else 0


def _size(profile: PairProfile, arrays: ArrayProfile, kind: Kind, device: Device) -> tuple[float, float]:
    """Height and width of a typical picture, as the model reads it."""
    height, width = arrays.heights[1], arrays.widths[1]
    scaled = _height(profile, arrays, kind, device)
    return (scaled, width * scaled / height) if scaled else (height, width)


def _states_per_character(profile: PairProfile, arrays: ArrayProfile, across: int) -> float:
    """States of a line for each character where there are few; ``across``: pixels of a state."""
    height = _height(profile, arrays, "line", "cpu") or arrays.heights[1]
    return arrays.character_heights * height / across


def _units(profile: PairProfile, arrays: ArrayProfile, task: ArrayTask, device: Device) -> list[Choice]:
    """[tokenizer]: channels and scale of the source, units of the target."""
    channels = _channels(arrays, task)
    settings: dict[str, Any] = {"tokenizer.kind": arrays.kind, "tokenizer.channels": channels}
    settings |= {"tokenizer.joint": False, "model.stem.inputs": channels}
    if arrays.kind == "picture":
        value, reason = ("colors", f"{arrays.colored:.0%} have some") if channels == 3 else ("gray", _gray(task))
        height = _height(profile, arrays, task.kind, device)
        most = arrays.heights[2] * arrays.widths[2] * channels
        if height:
            settings["tokenizer.height"] = height
            value, reason = f"{value}, scaled to a height of {height}", f"{reason}; heights differ"
        if most > 1 << 22:
            settings["tokenizer.max_values"] = 1 << (2 * most - 1).bit_length()
    else:
        value, reason = f"{channels} values a frame", "normalized in each file"
    units, settings["tokenizer.target_kind"], why = _target_unit(profile, task)
    if settings["tokenizer.target_kind"] == "word":
        settings["tokenizer.split_punctuation"] = False
    if settings["tokenizer.target_kind"] == "bpe":
        settings["tokenizer.size"] = max(300, min(4_000, profile.pairs // 10))
    sizes = profile.target.characters if settings["tokenizer.target_kind"] == "character" else profile.target.tokens
    if sizes.maximum > 200:
        settings["data.max_length"] = 50 * -(-round(1.2 * sizes.maximum) // 50)
    return [Choice("source", value, reason, settings), Choice("target units", units, why)]


def _gray(task: ArrayTask) -> str:
    return "without colors" if task.kind == "picture" else "what is written has the same meaning in every color"


def _target_unit(profile: PairProfile, task: ArrayTask) -> tuple[str, str, str]:
    """Name and kind of the units of a target, and why they are chosen."""
    target = profile.target
    if task.kind == "formula" and target.tokens.mean >= 3 and target.token_characters <= 4:
        return "words", "word", f"{target.spaced.size:,} different symbols between spaces"
    if task.kind in ("line", "formula", "frames"):
        return "characters", "character", f"{target.alphabet} different"
    unit, reason = unit_of(target, profile.scale, is_target=True)
    kind = "word" if unit == "symbol" else unit
    return {"word": "words", "character": "characters", "bpe": "BPE"}[kind], kind, reason


def _stem(profile: PairProfile, arrays: ArrayProfile, task: ArrayTask, device: Device) -> list[Choice]:
    """[model.stem]: which states, of how many stages."""
    if task.kind == "frames":
        settings: dict[str, Any] = {"model.stem.kind": "frames", "model.stem.widths": [WIDTHS[device][2]] * 2}
        return [Choice("states", "one for every 4 frames", "neighboring frames are alike", settings)]
    height, width = _size(profile, arrays, task.kind, device)
    if task.kind == "line":
        strides = [*map(list, STRIDES["columns"])]
        if _states_per_character(profile, arrays, across=4) < STATES_PER_CHARACTER:
            strides[1] = [2, 1]
        across = strides[0][1] * strides[1][1]
        settings = {"model.stem.kind": "columns", "model.stem.widths": [*WIDTHS[device][:3]]}
        settings |= {"model.stem.blocks": 1 if device == "cuda" else 0}
        if strides != [*map(list, STRIDES["columns"])]:
            settings["model.stem.strides"] = strides
        value = f"one for every {across} columns of pixels"
        return [Choice("states", value, f"about {width / across:.0f} of a picture", settings)]
    stages = 3
    while stages < MAX_STAGES and height * width / 4**stages > GRID_STATES[device]:
        stages += 1
    settings = {"model.stem.kind": "grid", "model.stem.widths": [*WIDTHS[device][:stages]]}
    rows, columns = (-(-round(side) // 2**stages) for side in (height, width))
    return [Choice("states", f"one for every {2**stages} × {2**stages} pixels", f"{rows} × {columns} places", settings)]


def _network(profile: PairProfile, task: ArrayTask, device: Device) -> list[Choice]:
    """[model]: the encoder on the states, and the decoder."""
    small = device == "cpu"
    hidden = 128 if small else 512
    if task.kind == "line":
        settings = {"model.kind": "ctc", **recurrent("lstm", hidden, hidden)}
        settings = {name: value for name, value in settings.items() if not name.startswith("model.decoder")}
        settings["model.encoder.layers"] = 1 if small else 2
        dropout = 0.1 if profile.pairs >= 5_000 else 0.3
        return [
            Choice("model", f"LSTM {hidden} and CTC", "characters are in the order of the columns", settings),
            Choice("dropout", f"{dropout:g}", plural(profile.pairs, "picture"), {"model.dropout": dropout}),
        ]
    dropout = 0.3 if profile.pairs < 20_000 else 0.1
    regularized = Choice("dropout", f"{dropout:g}", plural(profile.pairs, "picture"), {"model.dropout": dropout})
    if task.kind == "frames":
        settings = {**recurrent("lstm", 2 * hidden, hidden), "training.ctc": 0.3}
        reason = "the decoder attends; CTC beside it teaches the encoder the order"
        return [Choice("model", f"LSTM {2 * hidden} with attention and CTC", reason, settings), regularized]
    if small:
        settings = {**recurrent("gru", 256, 128), "model.attention.score": "additive"}
        settings |= {"model.attention.coverage": "sum", "model.attention.placement": "before"}
        reason = "attention knows which places it has been at"
        return [Choice("model", "GRU 256, attention with coverage", reason, settings), regularized]
    settings = {**transformer((2, 3), 256, 1024, 8), "model.tie": "target"}
    return [Choice("model", "Transformer, 2 + 3 layers of 256", "places in any order", settings), regularized]


def _augmentation(profile: PairProfile, task: ArrayTask) -> list[Choice]:
    if profile.pairs >= MANY_PICTURES:
        return []
    changes = AUGMENTATIONS[task.kind]
    settings = {f"training.augmentation.{name}": value for name, value in changes.items()}
    names = ", ".join(name.replace("_", " ") for name in changes)
    return [Choice("augmentation", names, f"{profile.pairs:,} are too few to show every variation", settings)]


def _training(
    profile: PairProfile, arrays: ArrayProfile, task: ArrayTask, device: Device, given_steps: int | None
) -> list[Choice]:
    """[training]: batch, steps, learning rate."""
    if arrays.kind == "picture":
        height, width = _size(profile, arrays, task.kind, device)
        scale = height * width / (arrays.heights[1] * arrays.widths[1])
        each = max(1, round(arrays.values * scale)) * _channels(arrays, task)
    else:
        each = max(1, round(2 * arrays.values * arrays.widths[1]))  # half precision
    batch = 1000 * max(1, round(BATCH_PICTURES[device] * each / 1000))
    seen, (fewest, most) = (SEEN, EPOCHS) if device == "cpu" else (SEEN_ON_GPU, EPOCHS_ON_GPU)
    epochs = min(max(seen[task.kind] / profile.pairs, fewest), most)
    per_epoch = max(1.0, profile.pairs * each / batch)
    steps = given_steps or max(200, round(epochs * per_epoch, -2))
    steps = int(steps)
    warmup = min(max(50, steps // 20), 1_000, steps // 4)
    rate = 0.002 if task.kind == "line" and device == "cpu" else 0.001 if device == "cpu" else 0.0005
    settings: dict[str, Any] = {"training.steps": steps, "training.save_every": steps, "training.average": 5}
    settings |= {"training.validate_every": min(max(25, steps // VALIDATIONS), steps), "training.patience": PATIENCE}
    schedule = {"training.learning_rate": rate, "training.warmup": warmup, "training.schedule": "cosine"}
    smoothing = 0.0 if task.kind == "line" else 0.1
    reason = "CTC has none" if task.kind == "line" else "the usual amount"
    return [
        Choice(
            "batch", f"{batch:,} bytes", f"{BATCH_PICTURES[device]} typical files", {"training.batch_tokens": batch}
        ),
        Choice(
            "steps", f"up to {steps:,}", f"{steps / per_epoch:,.0f} epochs; stops earlier without improvement", settings
        ),
        Choice("learning rate", f"{rate:g}, cosine", f"warmup of {warmup:,} steps", schedule),
        Choice("label smoothing", f"{smoothing:g}", reason, {"training.label_smoothing": smoothing}),
    ]


def _search(task: ArrayTask) -> Choice:
    if task.kind == "line":
        return Choice("search", "beam of 3", "sums over alignments are close to each other", {"search.size": 3})
    return Choice("search", "beam of 5", "the usual size", {"search.size": 5})


def _metric(profile: PairProfile, task: ArrayTask) -> Choice:
    """The metric of validations, and those of evaluations."""
    whole = task.kind == "formula" or profile.target.characters.median <= SHORT_TEXT
    names = ["exact_match", "character_error_rate"] if whole else ["character_error_rate", "exact_match"]
    reason = "right or wrong as a whole" if whole else "long texts are hardly ever right as a whole at first"
    if task.kind == "formula":
        names.append("token_match")
    if task.kind == "picture" and profile.target.tokens.median >= 5:
        names, reason = ["bleu", "chrf"], "sentences"
    settings = {"training.metric": names[0], "evaluation.metrics": names, "training.valid_sentences": 500}
    return Choice("metric", names[0], reason, settings)
