"""Confidence on test sets: does it tell right from wrong, is it calibrated, are targets kept, and what does it cost?

    python benchmarks/confidence.py runs/g2p-fre runs/dates runs/tatoeba
    python benchmarks/confidence.py runs/django --data folder/with/the/data --target 0.95 --json results.json
    python benchmarks/confidence.py runs/* --features --samples 8 --save outputs

Each run is calibrated on its validation set (confidence.json is written, as weft train and weft calibrate do; --keep
uses the one that is there) and measured on the test set of its recipe:

    AUROC       the probability that a right output has more confidence than a wrong one
    ECE         expected calibration error, ten bins; its expectation from sampling alone if confidence were perfect
                ("by chance")
    precision   of the accepted outputs with its 95 % interval (Wilson), and whether that interval reaches the target;
                the interval of outputs that come in groups, as the forms of a lemma do, by their design effect
    coverage    the share of accepted outputs, beside what was promised
    chrF        sentences: rank correlation of confidence and sentence chrF, and the share of all sentences below
                chrF 30 that are in the least confident tenth
    splits      (--splits N, which leaves the test set closed) halves of the groups of the validation set, N times, such
                as the forms of a lemma: how often one half promises a target that the other misses (0.1 of the times at
                most), and how often if groups are ignored
    cost        seconds of a search of the test set, of reading all confidences after it, and then all flags, in turn;
                the medians of five turns, of processor time if the device is a CPU
    features    AUROC with further features (--features): the margin to the next hypothesis, the optimality gap,
                entropy of attention, unattended source tokens, and with --samples N the similarity of N samples to the
                output; fitted on the validation set like the others. For each set also the log loss on the validation
                set by cross-validation, which is what a choice among them may depend on

--json is written after each run. --save FOLDER keeps the features of both sets, and what was right, as NAME.json.gz for
studies that choose by the validation set.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import weft
from weft.evaluation.calibrate import LIMIT, Criterion, calibrate, criterion_named, sentence_chrf, source_groups
from weft.evaluation.calibration import calibrate as calibration
from weft.evaluation.confidence_fitting import auroc, fit_confidence, interpolate, mean_ranks, sigmoid
from weft.evaluation.pairs import EvaluationItems, find_scorable_items
from weft.evaluation.sacrebleu_metrics import sacrebleu_metric
from weft.translation.confidence import FORMER_FEATURES, TOKEN_FEATURES, feature_matrix
from weft.translation.precision_target import accepted_counts, design_effect, find_threshold
from weft.translation.translator import Translator

UNATTENDED = 0.2
"""Total attention below which a source token counts as never attended."""


def rank_correlation(first_N: np.ndarray, second_N: np.ndarray) -> float:
    """Spearman's ρ: the correlation of the ranks; 0 if one side is constant."""
    first_N, second_N = mean_ranks(first_N), mean_ranks(second_N)
    first_N, second_N = first_N - first_N.mean(), second_N - second_N.mean()
    norm = float(np.sqrt((first_N**2).sum() * (second_N**2).sum()))
    return float((first_N * second_N).sum()) / norm if norm else 0.0


def items_of(run: Translator, split: str, limit: int | None) -> EvaluationItems:
    items = find_scorable_items(run, None, grouping=run.recipe.evaluation.references, split=split).items
    if limit is None or limit >= len(items.sources):
        return items
    chosen = np.random.default_rng(1).permutation(len(items.sources))[:limit]
    return EvaluationItems([items.sources[item] for item in chosen], [items.references[item] for item in chosen])


def wilson(right: float, count: float) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    z, share = 1.96, right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    width = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return middle - width, middle + width


def chance_error(confidences: np.ndarray, draws: int = 200) -> float:
    """The mean ECE of outcomes that are drawn with exactly these probabilities."""
    generator = np.random.default_rng(1)
    errors = [
        calibration(confidences.tolist(), (generator.random(len(confidences)) < confidences).tolist()).error
        for _ in range(draws)
    ]
    return float(np.mean(errors))


def kept_targets(
    run: Translator, targets: list[float], confidences: np.ndarray, right: np.ndarray, groups: np.ndarray
) -> list[Any]:
    """``groups``: `source_groups` of the test set, whose design effect widens a second interval."""
    assert run.confidence is not None
    rows = []
    for target in targets:
        threshold = run.confidence.threshold(target)
        if threshold is None:
            rows.append({"target": target, "reached": False})
            continue
        accepted = confidences >= threshold.confidence
        low, high = wilson(int(right[accepted].sum()), int(accepted.sum()))
        effect = design_effect(right[accepted], groups[accepted]) if accepted.any() else 1.0
        rows.append(
            {
                "target": target,
                "reached": True,
                "confidence": threshold.confidence,
                "promised_coverage": threshold.coverage,
                "coverage": float(accepted.mean()),
                "precision": float(right[accepted].mean()) if accepted.any() else None,
                "interval": [low, high],
                "kept": high >= target,
                "interval_of_groups": wilson(right[accepted].sum() / effect, accepted.sum() / effect),
            }
        )
    return rows


class SplitOutcome(NamedTuple):
    """A target that was promised by one half of a validation set, on the other half."""

    precision: float
    coverage: float
    promised_coverage: float


def split_outcomes(run: Translator, target: float, splits: int) -> dict[str, list[SplitOutcome]]:
    """Halves of the groups of the validation set: promised by one, measured on the other; also with groups ignored."""
    valid = items_of(run, "valid", LIMIT)
    outputs = run.translate(valid.sources, return_attention=False)
    assert run.confidence is not None
    right = criterion_named(run.recipe, run.confidence.right).right([output.text for output in outputs], valid)
    features, groups = np.nan_to_num(feature_matrix(outputs)), source_groups(valid.sources)
    generator = np.random.default_rng(1)
    outcomes: dict[str, list[SplitOutcome]] = {"groups": [], "groups ignored": []}
    for _ in range(splits):
        numbers = generator.permutation(groups.max() + 1)[groups]
        half = numbers < len(np.unique(groups)) // 2
        numbers_H = np.unique(numbers[half], return_inverse=True)[1]
        fitted = fit_confidence(features[half], right[half], numbers_H)
        counts = accepted_counts(fitted.confidences_N.tolist(), right[half].tolist())
        new = interpolate(fitted.curve, fitted.logistic.scores(features[~half]))
        for name, effect in (("groups", design_effect(right[half], numbers_H)), ("groups ignored", 1.0)):
            threshold = find_threshold(counts, target, effect=effect)
            accepted = np.zeros(len(new), bool) if threshold is None else new >= threshold.confidence
            if threshold is not None and accepted.any():
                values = float(right[~half][accepted].mean()), float(accepted.mean()), threshold.coverage
                outcomes[name].append(SplitOutcome(*values))
    return outcomes


FURTHER = ("margin", "gap", "entropy", "unattended", "equal_samples", "similar_samples")


class Observed(NamedTuple):
    """The outputs of a set."""

    texts: list[str]
    features_NF: np.ndarray
    """Those of confidence.json, then those of `FURTHER`."""
    token_scores: list[list[float]]


def observe(run: Translator, items: EvaluationItems, samples: int) -> Observed:
    """Outputs with all features; those of samples are 0 without samples."""
    beam = run.search_settings({}).kind == "beam"
    outputs = run.translate(items.sources, return_attention=run.recipe.model.attends, n_best=2 if beam else 1)
    columns = np.zeros((len(outputs), len(FURTHER)))
    for row, output in zip(columns, outputs, strict=True):
        margin = output.log_probability - output.alternatives[0].log_probability if output.alternatives else 20.0
        row[:2] = math.log1p(max(margin, 0.0)), math.log1p(max(20.0 if output.gap is None else output.gap, 0.0))
        if output.attention is not None and output.attention.size:
            weights = np.clip(output.attention, 1e-9, 1.0)
            row[2] = -(weights * np.log(weights)).sum(1).mean()
            row[3] = (output.attention.sum(0)[:-1] < UNATTENDED).mean() if weights.shape[1] > 1 else 0.0
    if samples:
        drawn = run.translate(items.sources, kind="sample", n_best=samples, return_attention=False)
        chrf = sacrebleu_metric("chrf")
        for row, output, sample in zip(columns, outputs, drawn, strict=True):
            others = [sample.text, *(one.text for one in sample.alternatives)]
            row[4] = sum(text == output.text for text in others) / samples
            similar = {text: float(chrf.sentence_score(text, [output.text]).score) / 100 for text in set(others)}
            row[5] = sum(similar[text] for text in others) / samples
    features_NF = np.column_stack([np.nan_to_num(feature_matrix(outputs)), columns])
    return Observed([output.text for output in outputs], features_NF, [list(output.token_scores) for output in outputs])


def feature_sets(samples: int) -> dict[str, list[int]]:
    count, former = len(TOKEN_FEATURES), len(FORMER_FEATURES)
    base = list(range(count))
    sets = {
        "log p(y|x) alone": [0],
        "without token scores": base[: former - 1],
        "those of version 2": base[:former],
        "all of confidence.json": base,
        "with the margin": [*base, count],
        "with the gap": [*base, count + 1],
        "with attention": [*base, count + 2, count + 3],
        "with all": [*range(count + 4)],
    }
    if samples:
        sets |= {"with samples": [*base, count + 4, count + 5], "with all and samples": [*range(count + 6)]}
    return sets


def log_loss(confidences: np.ndarray, right: np.ndarray) -> float:
    clipped = np.clip(confidences, 1e-6, 1 - 1e-6)
    return float(-np.where(right, np.log(clipped), np.log(1 - clipped)).mean())


def ablation(valid: Observed, right: np.ndarray, test: Observed, new_right: np.ndarray, samples: int) -> dict[str, Any]:
    """AUROC on the test set with more features and with fewer; log loss and AUROC on the validation set."""
    results = {}
    for name, columns in feature_sets(samples).items():
        fitted = fit_confidence(valid.features_NF[:, columns], right)
        new = interpolate(fitted.curve, fitted.logistic.scores(test.features_NF[:, columns]))
        results[name] = {
            "validation_log_loss": log_loss(sigmoid(fitted.scores_N), right),
            "validation_auroc": auroc(fitted.scores_N, right),
            "auroc": auroc(new, new_right),
            "ece": calibration(new.tolist(), new_right.tolist()).error,
        }
    return results


def save(path: Path, parts: dict[str, tuple[Observed, np.ndarray, EvaluationItems]], criterion: Criterion) -> None:
    """The features and outcomes of both sets as JSON."""
    content: dict[str, Any] = {"features": [*TOKEN_FEATURES, *FURTHER]}
    for split, (observed, right, items) in parts.items():
        content[split] = {
            "features": observed.features_NF.round(6).tolist(),
            "right": right.astype(int).tolist(),
            "chrf": None if criterion.chrf is None else np.round(sentence_chrf(observed.texts, items), 2).tolist(),
            "token_scores": [[round(score, 4) for score in scores] for scores in observed.token_scores],
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(content, file)


def measure(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    run = weft.load(path, device=arguments.device, engine=arguments.engine)
    if arguments.data is not None:
        data = run.recipe.data.model_copy(update={"folder": str(arguments.data)})
        run.recipe = run.recipe.model_copy(update={"data": data})
    run.recipe = run.recipe.accepting_new_data()
    if not (arguments.keep and run.confidence is not None):
        calibrate(run)
    model = run.confidence
    assert model is not None
    if arguments.splits:
        splits = {target: split_outcomes(run, target, arguments.splits) for target in arguments.target}
        return {"run": str(path), "right": model.right, "splits": splits}
    items = items_of(run, "test", arguments.limit)
    criterion = criterion_named(run.recipe, model.right)
    clock = time.process_time if run.engine.device.type == "cpu" else time.perf_counter
    turns = []
    for _ in range(5):
        times = [clock()]
        outputs = run.translate(items.sources, return_attention=False)
        times.append(clock())
        confidences = np.array([0.0 if one.confidence is None else one.confidence for one in outputs])
        times.append(clock())
        assert all(isinstance(one.flags, tuple) for one in outputs)
        times.append(clock())
        turns.append(np.diff(times))
    searching, reading, flagging = np.median(turns, 0).tolist()
    texts = [output.text for output in outputs]
    right = criterion.right(texts, items)
    error = calibration(confidences.tolist(), right.tolist()).error
    result: dict[str, Any] = {
        "run": str(path),
        "right": model.right,
        "validation": {"outputs": model.outputs, "accuracy": model.accuracy, "auroc": model.auroc},
        "test": {
            "outputs": len(right),
            "accuracy": float(right.mean()),
            "auroc": auroc(confidences, right),
            "auroc_of_log_p": auroc(np.array([output.log_probability for output in outputs]), right),
            "ece": error,
            "ece_by_chance": chance_error(confidences),
        },
        "targets": kept_targets(run, arguments.target, confidences, right, source_groups(items.sources)),
        "cost": {"search": searching, "confidence": reading / searching, "flags": flagging / searching},
    }
    if criterion.chrf is not None:
        scores = np.array(sentence_chrf(texts, items))
        lowest = np.argsort(confidences)[: max(1, len(scores) // 10)]
        poor = int((scores < 30).sum())
        result["chrf"] = {
            "rank_correlation": rank_correlation(confidences, scores),
            "below_30": poor / len(scores),
            "in_lowest_tenth": float((scores[lowest] < 30).sum() / poor) if poor else None,
        }
    if arguments.features or arguments.save is not None:
        valid = items_of(run, "valid", LIMIT)
        of_valid, of_test = (observe(run, part, arguments.samples) for part in (valid, items))
        outcomes = criterion.right(of_valid.texts, valid), criterion.right(of_test.texts, items)
        result["features"] = ablation(of_valid, outcomes[0], of_test, outcomes[1], arguments.samples)
        if arguments.save is not None:
            parts = {"valid": (of_valid, outcomes[0], valid), "test": (of_test, outcomes[1], items)}
            save(arguments.save / f"{path.name}.json.gz", parts, criterion)
    return result


def show_splits(by_target: dict[float, dict[str, list[SplitOutcome]]]) -> None:
    for target, by_kind in by_target.items():
        for name, outcomes in by_kind.items():
            coverage = promised = math.nan
            missed = sum(outcome.precision < target for outcome in outcomes)
            if outcomes:
                coverage = float(np.mean([outcome.coverage for outcome in outcomes]))
                promised = float(np.mean([outcome.promised_coverage for outcome in outcomes]))
            print(
                f"  {target:.2f}, {name}: promised {len(outcomes)} times, missed {missed} times; "
                f"coverage {coverage:.3f}, promised {promised:.3f}"
            )


def show(result: dict[str, Any]) -> None:
    if "splits" in result:
        print(result["run"])
        show_splits(result["splits"])
        return
    test, valid, cost = result["test"], result["validation"], result["cost"]
    value = {name: "none" if number is None else f"{number:.3f}" for name, number in test.items() if name != "outputs"}
    print(f"{result['run']}   right: {result['right']}; {valid['outputs']:,} validation outputs")
    print(f"  test      {test['outputs']:,} outputs, {value['accuracy']} right")
    print(f"  AUROC     {value['auroc']}   (log p(y|x) alone: {value['auroc_of_log_p']})")
    print(f"  ECE       {value['ece']}   (by chance: {value['ece_by_chance']})")
    for row in result["targets"]:
        if not row["reached"]:
            print(f"  target    {row['target']:.2f}: not reached by any threshold")
            continue
        precision = "none accepted" if row["precision"] is None else f"{row['precision']:.3f}"
        print(
            f"  target    {row['target']:.2f}: precision {precision} "
            f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}] {'kept' if row['kept'] else 'MISSED'}"
            f", of groups [{row['interval_of_groups'][0]:.3f}, {row['interval_of_groups'][1]:.3f}]; "
            f"coverage {row['coverage']:.3f}, promised {row['promised_coverage']:.3f}"
        )
    if "chrf" in result:
        chrf = result["chrf"]
        tenth = "none" if chrf["in_lowest_tenth"] is None else f"{chrf['in_lowest_tenth']:.1%}"
        print(
            f"  chrF      rank correlation {chrf['rank_correlation']:.3f}; lowest tenth has {tenth} of those below 30"
        )
    print(f"  cost      {cost['search']:.2f} s search; confidence {cost['confidence']:.2%}, flags {cost['flags']:.2%}")
    for name, numbers in result.get("features", {}).items():
        shown = ", ".join(f"{one} {'none' if number is None else f'{number:.4f}'}" for one, number in numbers.items())
        print(f"  features  {name:<26} {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, help="the folder of the data files, if the recipes name another")
    parser.add_argument("--target", type=float, action="append", help="precision target; may be repeated")
    parser.add_argument("--limit", type=int, help="use a random sample of the test set")
    parser.add_argument("--features", action="store_true", help="AUROC with further features")
    parser.add_argument("--splits", type=int, default=0, help="split the validation set this often, nothing else")
    parser.add_argument("--samples", type=int, default=0, help="with --features: samples of each output")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="keep the features of both sets there")
    parser.add_argument("--keep", action="store_true", help="use the confidence.json that is there")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    arguments.target = arguments.target or [0.8, 0.9, 0.95, 0.99]
    results = []
    for path in arguments.runs:
        results.append(measure(path, arguments))
        show(results[-1])
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    results = [result for result in results if "splits" not in result]
    at_95 = [row for result in results for row in result["targets"] if row["target"] == 0.95 and row["reached"]]
    if len(results) > 1 and at_95:
        within = sum(abs(row["coverage"] - row["promised_coverage"]) <= 0.03 for row in at_95)
        print(
            f"target 0.95: reached by {len(at_95)} of {len(results)} runs; kept within its interval by "
            f"{sum(row['kept'] for row in at_95)}, coverage within 3 points by {within}"
        )


if __name__ == "__main__":
    main()
