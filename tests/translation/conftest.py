"""Runs of several kinds of models, trained for a few steps."""

import pytest
import torch

from weft.text import specials
from weft.training.train import train
from weft.translation.load import load

STACK = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "feed_forward": 24}
ATTENTIVE = {
    "transformer": {"encoder": STACK, "decoder": STACK},
    "rotary": {"encoder": {**STACK, "positions": "rotary"}, "decoder": {**STACK, "positions": "rotary"}},
    "prefix": {"kind": "prefix_lm", "decoder": {**STACK, "positions": "relative"}},
    "gru to transformer": {"encoder": {"kind": "gru", "hidden": 14}, "decoder": {**STACK, "positions": "alibi"}},
    "attention to lstm": {"encoder": {**STACK, "kind": "attention"}, "decoder": {"hidden": 14}},
    "language model": {"kind": "language_model", "decoder": STACK},
}


def flat(tree):
    """Settings of a model by their names."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from ((f"model.{name}.{inner}", one) for inner, one in value.items())
        else:
            yield f"model.{name}", value


@pytest.fixture(scope="session")
def attentive(tiny, tmp_path_factory):
    """Runs of models with Transformers in them, a little trained, by their names."""
    found = {}

    def attentive(name):
        if name not in found:
            path = tmp_path_factory.mktemp("attentive") / "run"
            changes = {"training.steps": 40, "training.batch_tokens": 200, "training.warmup": 5, "search.max_extra": 3}
            list(train(tiny({"name": "attentive", **changes, **dict(flat(ATTENTIVE[name]))}), path))
            found[name] = load(path)
        return found[name]

    return attentive


@pytest.fixture(scope="session")
def endless(tiny, tmp_path_factory):
    """Models with 8 learned positions that never want to end, by their kinds."""
    found = {}

    def endless(kind):
        if kind not in found:
            path = tmp_path_factory.mktemp("endless") / "run"
            changes = {"kind": kind, "encoder": STACK, "decoder": {**STACK, "positions": "learned", "max_positions": 8}}
            shape = {"data.max_length": 7, "training.steps": 1, "data.options.length": 7}
            list(train(tiny({**shape, **dict(flat(changes))}), path))
            found[kind] = load(path)
            with torch.no_grad():
                found[kind].model.output.bias_V[: specials.END + 1] = -1e4  # nor do they say other marks
        return found[kind]

    return endless
