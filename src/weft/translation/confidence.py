"""Confidence: the probability that an output is right, from what the search knows of it anyway.

    run.translate("he hit me with a pie").confidence         0.97; None if the run has no confidence.json

A model's own probability p(y|x) is none of the kind: it falls with the length of the output, and label smoothing keeps
it low. After training, `weft.evaluation.calibrate` translates validation pairs and fits a small model
(`weft.evaluation.confidence_fitting`) to the outputs that were right and wrong. Its features, with log p(y|x) the sum
of the token scores log p(y_t | y_<t, x), T their number and S the number of source tokens:

    log_probability   log(1 − log p(y|x))             tokens                log(1 + T)
    mean_token        log(1 − log p(y|x) / T)         length_ratio          log((1 + T) / (1 + S))
    weakest_token     log(1 − min_t log p(y_t | …))   unknown_tokens        log(1 + unknown tokens of source and output)
    first_token       log(1 − log p(y_1 | …))         cut_off               1 if it did not end by itself, else 0
    last_token        log(1 − log p(y_T | …))         second_weakest_token  as weakest_token, of the others; else 0
    weakest_doubt     log(1 − min_t p(y_t | …)), but at least log ε

Engines that return no token scores have only those that need none, so the file has two models: ``tokens`` and
``sequence``. The margin to the next hypothesis, the optimality gap and the attention are not among the features: they
take time, and benchmarks/confidence.py and docs/confidence.md show how little they add.

The file, confidence.json, is JSON with a version, and readable: what counts as right, the weights of the features, the
curve from scores to probabilities, and how many outputs had at least some confidence. It belongs to certain weights and
is ignored with others. Every number is checked when it is read. Torch is not imported here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import CheckpointError
from weft.files import CHECKSUM, read_json, save_text
from weft.text import specials
from weft.translation.flags import BY_END, NO_RULES, FlagRules, batch_unknown, read_rules, rules_record
from weft.translation.precision_target import AcceptedOutputs, Threshold, find_threshold

if TYPE_CHECKING:
    from weft.search.ranking import HypothesisArrays
    from weft.text.id_rows import IdRows
    from weft.translation.results import Translation

FILE_NAME = "confidence.json"
VERSION = 3
OLDEST_VERSION = 2
"""The version of the oldest files that are read."""
SEQUENCE_FEATURES = ("log_probability", "mean_token", "tokens", "length_ratio", "unknown_tokens", "cut_off")
TOKEN_FEATURES = (
    *SEQUENCE_FEATURES,
    *("weakest_token", "second_weakest_token", "weakest_doubt", "first_token", "last_token"),
)
FORMER_FEATURES = TOKEN_FEATURES[:7]
"""Those of a file of version 2, which is still read."""
FEATURES = {"tokens": TOKEN_FEATURES, "sequence": SEQUENCE_FEATURES}
"""The features of each model of a file, by name."""
LEAST_DOUBT = 1e-6
"""ε: the least 1 − p of a token."""
LARGEST = 1e6
"""The largest absolute value of a number in a file."""
MAX_POINTS = 1_000
"""Points of a curve or a table in a file, at most."""
DECIMALS = 6
"""Decimals of the numbers in a file: nothing there is known more exactly."""
MAX_BYTES = 1 << 20
UNKNOWN = specials.SPECIALS[specials.UNKNOWN]


def output_features(translation: Translation) -> list[float]:
    """The features of `TOKEN_FEATURES`; those of tokens are NaN if the search returned no token scores."""
    length = len(translation.tokens) + (translation.ended == "end")
    source_tokens = translation.source_tokens
    log_probability = min(translation.log_probability, 0.0)
    unknown = source_tokens.count(UNKNOWN) + translation.tokens.count(UNKNOWN)
    return [
        math.log1p(min(-log_probability, LARGEST)),
        math.log1p(min(-log_probability / max(length, 1), LARGEST)),
        math.log1p(length),
        math.log((1 + length) / (1 + len(source_tokens))),
        math.log1p(unknown),
        float(translation.ended != "end"),
        *_token_features([min(max(-score, 0.0), LARGEST) for score in translation.token_scores]),
    ]


def _token_features(surprises: Sequence[float]) -> list[float]:
    """The features of tokens, given −log p of each."""
    if not surprises:
        return [math.nan] * (len(TOKEN_FEATURES) - len(SEQUENCE_FEATURES))
    second, weakest = sorted([0.0, *surprises])[-2:]
    doubt = max(-math.expm1(-weakest), LEAST_DOUBT)
    return [*map(math.log1p, (weakest, second)), math.log(doubt), math.log1p(surprises[0]), math.log1p(surprises[-1])]


def batch_features(hypotheses: HypothesisArrays, sources: IdRows) -> np.ndarray:
    """`output_features` of the best hypotheses of a batch, with the ids of its sources."""
    lengths_B, ended_B = hypotheses.lengths_BN[:, 0], hypotheses.ended_BN[:, 0]
    log_probabilities_B = hypotheses.log_probabilities_BN[:, 0].astype(np.float64)
    surprises_B = np.clip(-log_probabilities_B, 0.0, LARGEST)
    scores_BT = hypotheses.token_scores_BNT[:, 0].astype(np.float64)
    inside_BT = np.arange(scores_BT.shape[1]) < lengths_B[:, None]
    surprises_BT = np.where(inside_BT, np.clip(-scores_BT, 0.0, LARGEST), 0.0)
    surprises_BT = np.pad(surprises_BT, ((0, 0), (0, 2)))  # two tokens without surprise, where there are fewer
    second_B, weakest_B = np.partition(surprises_BT, -2)[:, -2:].T
    last_B = surprises_BT[np.arange(len(lengths_B)), np.maximum(lengths_B - 1, 0)]
    features_BF: np.ndarray = np.column_stack(
        [
            np.log1p(surprises_B),
            np.log1p(surprises_B / np.maximum(lengths_B, 1)),
            np.log1p(lengths_B),
            np.log((1 + lengths_B) / (1 + sources.lengths_B)),
            np.log1p(batch_unknown(hypotheses, sources)),
            ended_B != BY_END,
            np.log1p(weakest_B),
            np.log1p(second_B),
            np.log(np.maximum(-np.expm1(-weakest_B), LEAST_DOUBT)),
            np.log1p(surprises_BT[:, 0]),
            np.log1p(last_B),
        ]
    )
    return features_BF


@dataclass(frozen=True)
class FeatureModel:
    """A score z = bias + Σ weight · (feature − mean) / deviation, and a curve from scores to probabilities."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    curve: tuple[tuple[float, float], ...]
    """(score, probability): scores increase, probabilities do not decrease; linear between two points."""
    accepted: tuple[AcceptedOutputs, ...]
    """Validation outputs by their confidence, the most confident first."""

    def confidences(self, features_NF: np.ndarray) -> list[float]:
        """The confidence of each output, by the first of `TOKEN_FEATURES`, as many as the model has."""
        features_NF = features_NF[:, : len(self.means)]
        scores_N = (features_NF - np.array(self.means)) / np.array(self.deviations) @ np.array(self.weights) + self.bias
        scores, probabilities = np.array(self.curve).T
        confidences: list[float] = np.interp(scores_N, scores, probabilities).tolist()
        return confidences

    def record(self, names: Sequence[str]) -> dict[str, Any]:
        curve = {round(score, DECIMALS): probability for score, probability in self.curve}  # equal ones become one
        numbers = zip(names, self.means, self.deviations, self.weights, strict=True)
        return {
            "features": {name: {"mean": m, "deviation": d, "weight": w} for name, m, d, w in numbers},
            "bias": self.bias,
            "curve": [list(point) for point in curve.items()],
            "accepted": [list(item) for item in self.accepted],
        }


@dataclass(frozen=True)
class ConfidenceModel:
    """How likely outputs of a run are right; kept as confidence.json in the run folder."""

    right: str
    """When an output counts as right: "exact_match", another metric that decides it, or "chrf>=50"."""
    outputs: int
    """Validation outputs that it was fitted to."""
    accuracy: float
    """The share of them that is right."""
    auroc: float | None
    """The probability that a right output has a higher confidence than a wrong one, by cross-validation; None if all
    are right, or none."""
    search: str
    """The signature of the search that they are outputs of."""
    weights: str
    """A checksum of the weights."""
    models: dict[str, FeatureModel]
    """By the names of `FEATURES`."""
    source_lengths: tuple[float, ...] = ()
    """Quantiles of the number of source tokens, from the smallest to the largest."""
    flag_rules: FlagRules = NO_RULES
    """Rules for normal outputs: `weft.translation.flags`."""
    design_effect: float = 1.0
    """How much more the errors of these outputs vary than if each were right or wrong independently, because they come
    in groups: `weft.translation.precision_target`."""

    def of_output(self, translation: Translation) -> float:
        """The confidence of the best output of a search."""
        features = output_features(translation)
        if math.isnan(features[-1]):
            return self.models["sequence"].confidences(np.array([features]))[0]
        return self.models["tokens"].confidences(np.array([features]))[0]

    def of_batch(self, hypotheses: HypothesisArrays, sources: IdRows) -> list[float]:
        """The confidence of the best output of each sentence of a batch."""
        return self.models["tokens"].confidences(batch_features(hypotheses, sources))

    def threshold(self, target: float, *, model: str = "tokens") -> Threshold | None:
        """The threshold for a precision target, from 0 to 1; None if no threshold is safe.

        ``model``: "tokens", or "sequence" for outputs without token scores.
        """
        return find_threshold(self.models[model].accepted, target, effect=self.design_effect)

    def record(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "version": VERSION if len(self.models["tokens"].means) == len(TOKEN_FEATURES) else OLDEST_VERSION,
            "right": self.right,
            "outputs": self.outputs,
            "accuracy": self.accuracy,
            "auroc": self.auroc,
            "search": self.search,
            "weights": self.weights,
            "design_effect": self.design_effect,
            "source_lengths": list(self.source_lengths),
            "models": {name: model.record(FEATURES[name][: len(model.means)]) for name, model in self.models.items()},
            "flags": rules_record(self.flag_rules),
        }

    def write(self, folder: Path) -> Path:
        path = folder / FILE_NAME
        content = json.dumps(_rounded(self.record()), indent=1)
        save_text(path, re.sub(r"\[[^\[\]]*\]", lambda numbers: " ".join(numbers[0].split()), content) + "\n")
        return path


def _rounded(value: Any) -> Any:
    """JSON with as many decimals as are known."""
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def weights_checksum(folder: Path) -> str:
    """A checksum of the weights and adapters of a run folder, from the headers of their files."""
    from weft.runs.weights import read_metadata

    paths = [folder / "model.safetensors", *sorted(folder.glob("adapters/*/adapter_model.safetensors"))]
    return "-".join(read_metadata(path).get(CHECKSUM, "unknown") for path in paths)


def read_confidence(folder: Path) -> ConfidenceModel | None:
    """The confidence of a run folder; None if there is none, or it is of other weights.

    A link is not followed: it may lead out of the folder.
    """
    path = folder / FILE_NAME
    if path.is_symlink() or not path.is_file():
        return None
    try:
        content = read_json(path, max_bytes=MAX_BYTES)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
    version = content.get("version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"{path}: version {version}; this weft reads up to {VERSION}: update weft, or remove the file"
        )
    if isinstance(version, int) and version < OLDEST_VERSION:
        raise CheckpointError(
            f"{path}: version {version}, of an earlier weft; calibrate the run again: weft calibrate {folder}"
        )
    try:
        model = _model_of(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error) if type(error) is ValueError else "a value is missing or of the wrong type"
        raise CheckpointError(
            f"{path}: damaged ({reason}); remove it, then calibrate the run again: weft calibrate {folder}"
        ) from None
    return model if model.weights == weights_checksum(folder) else None


def _model_of(content: Any) -> ConfidenceModel:
    """The confidence of the content of a file; `KeyError`, `TypeError` or `ValueError` if something is wrong in it."""
    auroc = content["auroc"]
    names_of_models = FEATURES if content["version"] == VERSION else {**FEATURES, "tokens": FORMER_FEATURES}
    return ConfidenceModel(
        right=_text(content["right"]),
        outputs=int(_number(content["outputs"], 0)),
        accuracy=_number(content["accuracy"], 0, 1),
        auroc=None if auroc is None else _number(auroc, 0, 1),
        search=_text(content["search"]),
        weights=_text(content["weights"]),
        models={name: _feature_model(content["models"][name], names) for name, names in names_of_models.items()},
        design_effect=_number(content.get("design_effect", 1.0), 1),  # files of version 2 may lack it
        source_lengths=tuple(_increasing([_number(value, 0) for value in _items(content["source_lengths"])])),
        flag_rules=read_rules(content["flags"]),
    )


def _feature_model(content: Any, names: Sequence[str]) -> FeatureModel:
    features = content["features"]
    if set(features) != set(names):
        raise ValueError(f"expected the features {', '.join(names)}")
    points = [tuple(map(_number, point)) for point in _items(content["curve"])]
    accepted = [AcceptedOutputs(_number(c, 0, 1), int(n), int(r)) for c, n, r in _items(content["accepted"])]
    if not points or any(len(point) != 2 for point in points):
        raise ValueError("curve: expected points of a score and a probability")
    scores, probabilities = zip(*points, strict=True)
    if len(set(_increasing(scores))) != len(scores) or not all(0 <= one <= 1 for one in _increasing(probabilities)):
        raise ValueError("curve: expected increasing scores and probabilities from 0 to 1")
    counts = [item.outputs for item in accepted]
    if not accepted or _increasing(counts)[0] < 1 or any(not 0 <= item.right <= item.outputs for item in accepted):
        raise ValueError("accepted: expected a confidence, a number of outputs, and how many of them are right")
    return FeatureModel(
        means=tuple(_number(features[name]["mean"]) for name in names),
        deviations=tuple(_number(features[name]["deviation"], 1e-9) for name in names),
        weights=tuple(_number(features[name]["weight"]) for name in names),
        bias=_number(content["bias"]),
        curve=tuple(zip(scores, probabilities, strict=True)),
        accepted=tuple(accepted),
    )


def _number(value: Any, low: float = -LARGEST, high: float = LARGEST) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{str(value)[:40]}: expected a number from {low:g} to {high:g}")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 1_000:
        raise ValueError("expected a text of at most 1,000 characters")
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_POINTS:
        raise ValueError(f"expected a list of at most {MAX_POINTS:,} items")
    return value


def _increasing(values: Sequence[float]) -> Sequence[float]:
    if any(later < earlier for earlier, later in pairwise(values)):
        raise ValueError("expected numbers that do not decrease")
    return values


def feature_matrix(translations: Sequence[Translation]) -> np.ndarray:
    """The features of several outputs."""
    return np.array([output_features(translation) for translation in translations]).reshape(-1, len(TOKEN_FEATURES))
