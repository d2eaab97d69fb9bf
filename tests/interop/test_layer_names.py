"""The table of names, read and written."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.interop.huggingface.t5 import layer_names
from weft.interop.layer_names import FAIRSEQ, LayerNames, StackReader, write_layers
from weft.interop.marian.conversion import NAMES

WIDTH, INNER, HEADS = 6, 10, 2


class Reader(StackReader):
    """Makes numbered tensors, and remembers which were asked for."""

    def __init__(self, side: str, settings: dict[str, object], names: LayerNames) -> None:
        super().__init__(side, settings, names)
        self.made: dict[str, dict[str, Tensor]] = {}

    def linear(self, name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        size, first = outputs * inputs, 1000.0 * len(self.made)
        weight = torch.arange(first, first + size).reshape(outputs, inputs)
        self.made[name] = {"weight": weight, "bias": weight[:, 0] + 0.5}
        return self.made[name]

    def norm(self, name: str) -> dict[str, Tensor]:
        self.made[name] = {"weight": torch.full((self.width,), 1000.0 * len(self.made))}
        return self.made[name]


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("names", [FAIRSEQ, NAMES, layer_names("decoder", gated=True)])
def test_what_is_read_is_written_again(names: LayerNames, side: str) -> None:
    settings = {"hidden": WIDTH, "feed_forward": INNER, "heads": HEADS, "norm_placement": "post"}
    reader, layers = Reader(side, settings, names), ["first.", "second."]
    own = reader.read(layers, "top")
    written = dict(write_layers(side, own, layers, names))
    assert list(written) == list(reader.made) and "top" not in written
    for name, parts in written.items():
        assert parts.keys() == reader.made[name].keys()
        for part, tensor in parts.items():
            torch.testing.assert_close(tensor, reader.made[name][part], rtol=0, atol=0)


def test_sizes_of_heads_that_do_not_divide_the_width_and_of_shared_keys() -> None:
    settings = {"hidden": 8, "feed_forward": INNER, "heads": 4, "head_size": 3}
    own = Reader("decoder", settings, FAIRSEQ).read(["0."], "top")
    assert own["layers.0.self_attention.query_key_value.weight"].shape == (36, 8)
    assert own["layers.0.self_attention.output.weight"].shape == (8, 12)
    assert "final_norm.weight" in own
    shared = {"hidden": 8, "feed_forward": INNER, "heads": 4, "key_value_heads": 2}
    own = Reader("decoder", shared, FAIRSEQ).read(["0."], "top")
    assert own["layers.0.self_attention.query_key_value.bias"].shape == (8 + 4 + 4,)
    assert own["layers.0.cross_attention.key_value.weight"].shape == (8, 8)
