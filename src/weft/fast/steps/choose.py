"""Which steps a search takes: those of the model, or faster ones.

Each module of this package offers a function of a model, its memory, the number of hypotheses and whether attention
weights are returned; it returns a `StepModel`, or None where it has none for this model. Equal to the model itself
(`weft.search.interface.steps_for`); tests/fast/steps/test_choose.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from weft.models.architecture import architecture_of
from weft.search.interface import SearchRequest, StepModel
from weft.translation.engines.started_model import StartedModel

if TYPE_CHECKING:
    from weft.models.seq2seq import Seq2Seq


def is_one_sentence_on_cpu(model: StepModel, request: SearchRequest, *, rows: int, return_attention: bool) -> bool:
    return len(request.max_lengths) == 1 and torch.device(request.device).type == "cpu"


def one_sentence_steps(model: StepModel, request: SearchRequest, *, rows: int, return_attention: bool) -> StepModel:
    """The steps of a search of one sentence."""
    return find_one_sentence_steps(model, request.memory, rows=rows, return_attention=return_attention) or model


def find_one_sentence_steps(model: StepModel, memory: Any, *, rows: int, return_attention: bool) -> StepModel | None:
    """The faster steps of a model for one sentence; None: it has none."""
    if isinstance(model, StartedModel):
        steps = find_one_sentence_steps(model.model, memory, rows=rows, return_attention=return_attention)
        return None if steps is None else StartedModel(steps, model.tokens)
    described = architecture_of(model)
    if described.kind == "seq2seq" and described.is_plain and described.is_transformer:
        from weft.fast.steps.one_sentence_transformer import sentence_steps

        return sentence_steps(cast("Seq2Seq", model), memory, rows=rows, return_attention=return_attention)
    return None
