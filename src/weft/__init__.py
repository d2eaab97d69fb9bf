"""weft: sequence-to-sequence learning. Train, decode and explain encoder-decoder models.

    import weft

    recipe = weft.load_recipe("grammar", ["training.steps=500"])   # a shipped recipe, or a TOML file
    for event in weft.train(recipe, "runs/grammar"):               # yields every step, validation and checkpoint
        print(event)
    run = weft.load("runs/grammar")
    run.translate("he hit me with a pie").text                     # one source, or a list of them
    print(weft.evaluate(run))                                      # on the test set of its recipe

    print(weft.recommend("pairs.tsv"))                             # a recipe for your own pairs, with its reasons
    for event in weft.train("pairs.tsv", minutes=10):              # trained with it, within ten minutes
        print(event)

Functions
    load_recipe(name, changes)   a recipe, with settings changed: "training.steps=500"
    make_recipe(settings)        a recipe from nested dictionaries
    recommend(pairs)             a recipe for pairs, each choice with its reason, as a Recommendation
    train(recipe, folder)        train a model into a run folder, from a recipe or on pairs; an iterator of events
    load(folder)                 a trained run, as a Translator
    evaluate(run, pairs)         metrics of a run, as an Evaluation
    calibrate(run)               fit how likely its outputs are right: Translation.confidence
    translate_text(run, text)    a text of several sentences and paragraphs, or a document, in the same layout
    translate_file(run, file, out)   a document: HTML, XML, XLIFF, Markdown, subtitles, gettext, JSON
    distill(run, out=folder)     train a student on what a run, or an ensemble of runs, knows; an iterator of events
    back_translate(run, file, out)   training pairs from monolingual targets and a run of the reverse direction
    tune(recipe, folder)         train variants of a recipe, also for pairs, and keep the best; an iterator of events
    compare(run, run)            runs on the same test set, with tests of the differences, as a Comparison
    report(run)                  all about a run on one HTML page, as a RunReport

Labs
    labs.scaling()               an experiment with its data, charts and verdict; labs.LABS lists all of them

Probes
    probes.repeat(run, phrase)   a measurement of a trained run with its numbers and chart, as a ProbeResult; also
                                 probes.nonsense, probes.bias; probes.trace_table: a search in given probabilities

Classes
    Recipe          every setting of a run
    Recommendation  a recipe for pairs, the reasons of its choices, and warnings about the pairs
    Translator      translates, scores, samples and shows attention
    Translation     an output: text, score, tokens, attention, word links
    Evaluation      scores with their signatures, outputs, and what they were computed from
    RunReport       data, settings, learning curves, scores, errors and examples of a run; shows itself in a notebook
    Comparison      scores of several runs with intervals and p-values, and where their outputs differ
    Pair            a source, its target and their word links
    WeftError       every error that weft raises on purpose; its message is one line

Modules
    weft.training.events     what `train` yields: Started, Step, Validation, Saved, Finished, …
    weft.errors              the subclasses of WeftError
    weft.models.interface    the protocol of a model of your own
    weft.apps.serve               `create_app`: runs behind an HTTP API

Names are imported when they are first used, so that importing weft is quick. On the command line: ``weft --help``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.apps import labs, probes
    from weft.apps.reporting.report import RunReport, report
    from weft.apps.texts.files import translate_file, translate_text
    from weft.apps.tuning.tune import tune
    from weft.data.pairs import Pair
    from weft.errors import WeftError
    from weft.evaluation.calibrate import calibrate
    from weft.evaluation.comparison import Comparison, compare
    from weft.evaluation.evaluate import Evaluation, evaluate
    from weft.pairs.distillation.back_translation import back_translate
    from weft.pairs.distillation.distill import distill
    from weft.pairs.recommendation.recommend import Recommendation, recommend
    from weft.pairs.train import train
    from weft.recipe import Recipe, load_recipe, make_recipe
    from weft.translation.load import load
    from weft.translation.results import Translation
    from weft.translation.translator import Translator

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Evaluation",
    "Pair",
    "Recipe",
    "Recommendation",
    "RunReport",
    "Translation",
    "Translator",
    "WeftError",
    "back_translate",
    "calibrate",
    "compare",
    "distill",
    "evaluate",
    "labs",
    "load",
    "load_recipe",
    "make_recipe",
    "probes",
    "recommend",
    "report",
    "train",
    "translate_file",
    "translate_text",
    "tune",
]

_MODULES = {
    "load": "weft.translation.load",
    "Translator": "weft.translation.translator",
    "Translation": "weft.translation.results",
    "translate_text": "weft.apps.texts.files",
    "translate_file": "weft.apps.texts.files",
    "train": "weft.pairs.train",
    "distill": "weft.pairs.distillation.distill",
    "back_translate": "weft.pairs.distillation.back_translation",
    "recommend": "weft.pairs.recommendation.recommend",
    "Recommendation": "weft.pairs.recommendation.recommend",
    "tune": "weft.apps.tuning.tune",
    "evaluate": "weft.evaluation.evaluate",
    "calibrate": "weft.evaluation.calibrate",
    "Evaluation": "weft.evaluation.evaluate",
    "compare": "weft.evaluation.comparison",
    "Comparison": "weft.evaluation.comparison",
    "report": "weft.apps.reporting.report",
    "RunReport": "weft.apps.reporting.report",
    "Recipe": "weft.recipe",
    "load_recipe": "weft.recipe",
    "make_recipe": "weft.recipe",
    "Pair": "weft.data.pairs",
    "WeftError": "weft.errors",
}
"""The module of each public name; type checkers read the imports above."""


if not TYPE_CHECKING:  # a type checker that saw this function would accept every name

    def __getattr__(name: str) -> Any:
        if name in ("labs", "probes"):
            return import_module(f"weft.apps.{name}")
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
