"""Notebook display of translations and runs: HTML with candidates, attention map and curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.models.architecture import count_parameters
from weft.pictures.html.attention_map import attention_map
from weft.pictures.html.elements import Content, Html, data_text, element, table, terms
from weft.pictures.html.page import fragment
from weft.pictures.learning_curves import learning_curves
from weft.runs.layout import RunFolder
from weft.runs.training_log import read_training_log
from weft.translation.results import Translation
from weft.translation.word_alignment import attention_view

if TYPE_CHECKING:
    from weft.translation.translator import Translator

MAX_CANDIDATES = 20


def translation_html(translation: Translation) -> str:
    """Source and output, the other hypotheses with their scores, and the attention map."""
    rows: list[tuple[str, Content]] = [
        ("source", data_text(translation.source)),
        ("output", data_text(translation.text)),
        ("score", f"{translation.score:.4f} (log p {translation.log_probability:.3f}{_remark(translation)})"),
    ]
    parts: list[Content] = [terms(rows)]
    if translation.alternatives:
        hypotheses = [translation, *translation.alternatives][:MAX_CANDIDATES]
        candidates = [
            (data_text(item.text), f"{item.score:.4f}", f"{math.exp(min(item.log_probability, 0.0)):.2%}")
            for item in hypotheses
        ]
        parts.append(table(("candidates", "score", "p"), candidates, numbers=[1, 2]))
    view = attention_view(translation) if translation.source_tokens and translation.tokens else None
    drawing = Html("") if view is None else attention_map(*view.attention)
    return str(fragment(element("div", element("div", *parts), drawing, class_="beside")))


def run_html(run: Translator) -> str:
    """Name, model, training and validation scores of a run, and its learning curves."""
    recipe = run.recipe
    parameters = count_parameters(run.model)
    name = type(run.model).__name__
    if type(run.model).__module__.startswith("weft.") and recipe.model.kind == "seq2seq":
        name += f" ({recipe.model.encoder.kind} encoder, {recipe.model.decoder.kind} decoder)"
    sizes = f"{run.tokenizers.source.size:,} source and {run.tokenizers.target.size:,} target tokens"
    rows: list[tuple[str, Content]] = [
        ("model", f"{name}, {parameters:,} parameters"),
        ("vocabulary", f"{run.tokenizers.target.size:,} tokens, shared" if run.tokenizers.joint else sizes),
        ("device", f"{run.device}, {run.engine.name}"),
    ]
    charts: list[Html] = []
    if run.folder is not None:
        rows.insert(0, ("folder", element("code", data_text(str(run.folder)))))
        log = read_training_log(RunFolder(run.folder).log)
        if log is not None:
            charts = list(learning_curves(log))
            if log.validations:
                last = log.validations[-1]
                numbers = {"loss": last.loss, **last.metrics}
                values = ", ".join(f"{name} {value:.3f}" for name, value in numbers.items())
                rows.append((f"validation at step {last.step:,}", values))
    heading = element("h3", data_text(recipe.name))
    summary = [element("p", data_text(recipe.summary), class_="faint")] if recipe.summary else []
    return str(fragment(heading, *summary, terms(rows), element("div", *charts, class_="charts")))


def _remark(translation: Translation) -> str:
    if translation.ended_by_length:
        return "; cut off by the length limit"
    return "; proven best" if translation.proven else ""
