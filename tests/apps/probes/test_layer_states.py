"""States by layer beside those of the plain model, and linear probes on states that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.apps.probes.layer_states import control_labels, fit_probe, layer_states, linear_probe, word_ends
from weft.errors import SearchError
from weft.ragged import Ragged
from weft.text.specials import BEGIN, END

TEXTS = ["a b c", "c", "b a d e f"]


def made_up(count: int, signal: float, classes: int = 2) -> tuple[list[torch.Tensor], list[int]]:
    generator = torch.Generator().manual_seed(3)
    labels = [index % classes for index in range(count)]
    noise_ND = torch.randn(count, 5, generator=generator)
    noise_ND[range(count), [2 + label for label in labels]] += signal
    return list(noise_ND), labels


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_there_is_told(classes: int) -> None:
    assert linear_probe(*made_up(600, 20.0, classes)) == 100.0


def test_what_is_not_there_is_not() -> None:
    assert 35 < linear_probe(*made_up(400, 0.0)) < 65


def test_a_class_that_only_the_other_half_has() -> None:
    """It is never told, and no error."""
    states, labels = made_up(400, 20.0)
    assert linear_probe(states, [*labels[:200], *[2] * 200]) == 0.0


def test_against_least_squares() -> None:
    """Far more texts than dimensions: the penalty is negligible, and the solution that of least squares."""
    states, labels = made_up(400, 1.0)
    inputs_ND = torch.stack(states).double()
    fitted_ND = torch.cat([inputs_ND[:200], torch.ones(200, 1)], 1)
    targets_N = torch.tensor(labels).double() * 2 - 1
    weights_D = torch.linalg.lstsq(fitted_ND, targets_N[:200, None]).solution[:, 0]
    right_N = (torch.cat([inputs_ND[200:], torch.ones(200, 1)], 1) @ weights_D).sign() == targets_N[200:]
    assert linear_probe(states, labels) == pytest.approx(100 * right_N.double().mean().item(), abs=1.5)
    assert sum(fit_probe(states, labels).right(states, labels)) > 250


def test_labels_of_the_control_depend_on_the_word_alone() -> None:
    words = ["king", "queen", "king", "boy"] * 50
    labels = control_labels(words, 5)
    assert len({*zip(words, labels, strict=True)}) == 3 and labels == control_labels(words, 5)
    assert len(set(control_labels([*range(500)], 5))) == 5


def test_word_ends() -> None:
    assert word_ends(["▁the", "▁ani", "mal", "</s>"], "the animal") == [0, 2]
    assert word_ends(["the", "<unk>"], "the animal") is None


def transformer(part: str) -> dict[str, Any]:
    sizes = {"kind": "transformer", "hidden": 8, "heads": 2, "layers": 2, "feed_forward": 8}
    return {f"model.{part}.{name}": value for name, value in sizes.items()}


MODELS: dict[str, dict[str, Any]] = {
    "stacked": {"model.encoder.layers": 2, "model.encoder.bidirectional": True},
    "reversed": {"model.encoder.reverse_source": True, "model.encoder.bidirectional": False},
    "transformer": transformer("encoder") | transformer("decoder"),
    "language model": {"model.kind": "language_model"},
    "transformer language model": {"model.kind": "language_model"} | transformer("decoder"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_top_layer_is_what_the_model_returns(name: str, tiny, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    list(weft.train(tiny({**MODELS[name], "training.steps": 1}), tmp_path / "run"))
    run = weft.load(tmp_path / "run", device="cpu", precision="fp32", engine="torch")
    read = layer_states(run, TEXTS)
    assert read.tokens == [text.split() for text in TEXTS]
    model: Any = run.model
    is_language_model = "language" in name
    tokenizer = run.tokenizers.target if is_language_model else run.tokenizers.source
    ids = tokenizer.encode_batch(TEXTS)
    with torch.no_grad():
        if is_language_model:
            inputs = Ragged.of([[BEGIN, *row] for row in ids])
            embedding = model.target_embedding if "transformer" in name else model.embedding
            stack, embedded = model.stack, embedding.ragged(inputs)
        else:
            inputs = Ragged.of([[*row, END] for row in ids])
            embedded = model.source_embedding.ragged(inputs)
            stack = model.encoder.stack
        top = model.encoder(embedded).states.split() if not is_language_model else None
    layers = [*read.layers]
    assert layers[0] == "embedding" and len(layers) == 1 + len(stack.layers)
    for index, row in enumerate(ids):
        sizes = {len(read.layers[layer][index]) for layer in layers}
        assert sizes == {len(row)}
        if top is not None and "transformer" not in name:  # that of a Transformer is normalized once more
            assert torch.allclose(read.layers[layers[-1]][index], top[index][: len(row)], atol=1e-5)
        if "transformer" not in name and not is_language_model:
            expected = embedded.split()[index][: len(row)]
            assert torch.allclose(read.layers["embedding"][index], expected, atol=1e-6)


def test_the_states_of_a_text_do_not_depend_on_the_others(copier: weft.Translator) -> None:
    together, alone = layer_states(copier, TEXTS), layer_states(copier, TEXTS[2:])
    for layer, rows in together.layers.items():
        assert torch.allclose(rows[2], alone.layers[layer][0], atol=1e-5)


def test_a_model_that_nothing_is_known_of(copier: weft.Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.models.architecture.HasArchitecture", str)
    with pytest.raises(SearchError, match="expected an encoder of one source column, or a language model"):
        layer_states(copier, TEXTS)
