"""Low-rank adapters: the literal equation, which weights are trained, and which projections are chosen."""

import math

import pytest
import torch

from weft.errors import RecipeError
from weft.models.build import build_model
from weft.models.lora import LoraLinear, LowRank, adapter_of, add_adapters, choose, merge, misfit, projections
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.recipe.training import LoraSettings
from weft.runs.weights import model_tensors

STACK = {"kind": "transformer", "layers": 2, "hidden": 12, "heads": 3, "feed_forward": 7}


def model_of(**stack):
    recipe = make_recipe(
        {"model": {"embedding": 12, "encoder": {**STACK, **stack}, "decoder": {**STACK, **stack}, "dropout": 0.0}}
    )
    return build_model(recipe.model, source_size=11, target_size=13)


def randomized(model, seed=3):
    """The same model with adapters that change its outputs."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model_tensors(model).values():
        parameter.normal_(generator=generator)
    return model


def logits(model):
    source, target = Ragged.of([[3, 4, 5], [6, 7]]), Ragged.of([[1, 4], [1, 5, 6, 7, 8]])
    model.eval()
    with torch.no_grad():
        return model(source, target).logits_NV


def literal(linear, x, parts, scale):
    """y_g = Σ_d W_gd x_d + b_g + scale Σ_r B_gr Σ_d A_rd x_d, in loops."""
    weight, bias = linear._parameters["weight"].detach(), linear.bias.detach()
    output = torch.zeros(len(x), len(weight))
    for n in range(len(x)):
        for g in range(len(weight)):
            total = float(bias[g]) + sum(float(weight[g, d]) * float(x[n, d]) for d in range(x.shape[1]))
            for name, rows in parts.items():
                if rows.start <= g < rows.stop:
                    a, b = linear.lora_A[name], linear.lora_B[name]
                    for r in range(len(a)):
                        inner = sum(a[r, d].item() * float(x[n, d]) for d in range(x.shape[1]))
                        total += scale * b[g - rows.start, r].item() * inner
            output[n, g] = total
    return output


@pytest.mark.parametrize("parts", [{"all": slice(0, 7)}, {"a": slice(0, 2), "c": slice(5, 7)}, {"b": slice(2, 5)}])
def test_the_equation(parts):
    torch.manual_seed(1)
    linear = LoraLinear(torch.nn.Linear(5, 7), parts, LoraSettings(rank=3, alpha=4.5))
    x = torch.randn(2, 5)
    assert torch.equal(linear(x), torch.nn.functional.linear(x, linear._parameters["weight"], linear.bias))
    for matrix in linear.lora_B.parameters():
        torch.nn.init.normal_(matrix)
    expected = literal(linear, x, parts, 4.5 / 3)
    torch.testing.assert_close(linear(x), expected)
    torch.testing.assert_close(torch.nn.functional.linear(x, linear.weight, linear.bias), expected)


def test_alpha_is_twice_the_rank_by_default():
    assert LoraSettings(rank=8).scale == 2.0 and LoraSettings(rank=8, alpha=4.0).scale == 0.5


def test_dropout_is_of_what_the_adapter_reads():
    torch.manual_seed(1)
    linear = LoraLinear(torch.nn.Linear(500, 2), {"all": slice(0, 2)}, LoraSettings(rank=2, dropout=0.5))
    torch.nn.init.normal_(linear.lora_B["all"])
    x = torch.randn(1, 500)
    assert not torch.equal(linear(x), linear(x))
    assert torch.equal(linear.eval()(x), linear(x))


def test_only_adapters_get_gradients():
    model = model_of()
    add_adapters(model, LoraSettings(rank=2), seed=1)
    randomized(model)
    source, target = Ragged.of([[3, 4, 5]]), Ragged.of([[1, 4]])
    model(source, target).logits_NV.logsumexp(-1).sum().backward()
    named = dict(model.named_parameters())
    trained = {name for name, parameter in named.items() if parameter.grad is not None}
    assert trained == set(model_tensors(model)) and len(trained) == 2 * 2 * (2 + 2 + 2)
    assert all(".lora_" in name and named[name].grad.abs().sum() > 0 for name in trained)


@pytest.mark.parametrize("stack", [{}, {"activation": "swiglu"}, {"key_value_heads": 1}, {"head_size": 5}])
def test_merged_is_the_same_model(stack):
    """And it depends on the seed alone, and not on the state of random numbers."""
    settings = LoraSettings(rank=2, targets=["*"])
    model, plain = model_of(**stack), model_of(**stack)
    before = logits(model)
    add_adapters(model, settings, seed=1)
    assert torch.equal(logits(model), before), "B is zero at first"
    randomized(model)
    adapter = adapter_of(model, model_tensors(model), settings.scale)
    assert set(adapter) == {each.name for each in projections(plain)}
    assert misfit(plain, adapter) is None
    merge(plain, adapter)
    assert not torch.allclose(logits(plain), before, atol=1e-2)
    torch.testing.assert_close(logits(model), logits(plain), atol=1e-4, rtol=1e-4)


def test_the_seed():
    first, second, other = model_of(), model_of(), model_of()
    for model, seed in ((first, 1), (second, 1), (other, 2)):
        torch.rand(1)
        add_adapters(model, LoraSettings(rank=2), seed=seed)
    a, b, c = (model_tensors(model) for model in (first, second, other))
    assert all(torch.equal(a[name], b[name]) for name in a) and any(not torch.equal(a[name], c[name]) for name in a)
    bound = 1 / math.sqrt(12)
    assert all(value.abs().max() <= bound for name, value in a.items() if ".lora_A." in name)


def test_projections_are_the_rows_of_maps():
    every = {each.name: each for each in projections(model_of(activation="geglu"))}
    layer = "decoder.stack.layers.1."
    value = every[f"{layer}self_attention.value"]
    assert value == (f"{layer}self_attention.value", f"{layer}self_attention.query_key_value", slice(24, 36))
    assert every[f"{layer}cross_attention.value"].rows == slice(12, 24)
    assert every[f"{layer}feed_forward.up"] == (f"{layer}feed_forward.up", f"{layer}feed_forward.linear1", slice(7, 14))


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("query", 6), ("value", 6), ("cross_attention.*", 8), ("decoder.*.output", 4), ("linear[12]", 8), ("*", 32)],
)
def test_patterns(pattern, count):
    assert len(choose(projections(model_of()), [pattern])) == count
    assert len(choose(projections(model_of()), [pattern, "*"])) == 32


def test_default_targets():
    """The queries and values of a Transformer; every projection of a model without them."""
    every = projections(model_of())
    assert choose(every, []) == choose(every, ["query", "value"])
    assert choose(other := [each for each in every if not each.name.endswith("value")], []) == other


def test_a_model_without_projections():
    with pytest.raises(RecipeError) as caught:
        choose([], ["*"])
    assert str(caught.value) == "training.lora: this model has no projections; train its weights, without --lora"


def test_a_pattern_that_matches_nothing():
    with pytest.raises(RecipeError) as caught:
        choose(projections(model_of()), ["query", "q_proj"])
    assert str(caught.value) == (
        "training.lora.targets: no projection matches 'q_proj'; this model has query, key, value, output, linear1, "
        "linear2"
    )


def test_an_adapter_of_another_model():
    name, model = "encoder.stack.layers.0.self_attention.query", model_of()
    a, b = torch.zeros(2, 12), torch.zeros(12, 2)
    assert misfit(model, {name: LowRank(a, b, 1.0)}) is None
    assert misfit(model, {"x.query": LowRank(a, b, 1.0)}) == "it adapts 'x.query', which the model does not have"
    assert misfit(model, {name: LowRank(torch.zeros(2, 13), b, 1.0)}) == (
        f"for {name!r} it has matrices (12, 2) and (2, 13); that projection is (12, 12)"
    )
    assert misfit(model, {name: LowRank(a, torch.zeros(12, 3), 1.0)}) is not None


@pytest.mark.parametrize(("targets", "largest"), [(["query"], 12), (["linear1"], 7), (["linear1", "query"], 12)])
def test_a_rank_above_that_of_every_matrix(targets, largest):
    """The feed-forward layers have 7 hidden units, everything else 12."""
    add_adapters(model_of(), LoraSettings(rank=largest, targets=targets), seed=1)
    with pytest.raises(RecipeError) as caught:
        add_adapters(model_of(), LoraSettings(rank=largest + 1, targets=targets), seed=1)
    assert str(caught.value) == (
        f"training.lora.rank: {largest + 1} was given; the matrices that get an adapter have rank {largest} at most, "
        "so a larger adapter is of no use"
    )


@pytest.mark.parametrize("targets", [["*"], ["keys"], ["keys", "queries"]])
@pytest.mark.parametrize(
    "settings",
    [{"attention": {"hard": "monotonic"}}, {"attention": {"hard": "first"}, "copy": True}],
    ids=["hard", "hard copying"],
)
def test_a_projection_called_keys(settings, targets):
    """Which is the name of a method of `nn.ParameterDict`."""
    settings = make_recipe({"model": {"embedding": 6, "dropout": 0.0, **settings}}).model
    model, plain = (build_model(settings, source_size=11, target_size=13) for _ in range(2))
    before = logits(model)
    lora = LoraSettings(rank=2, targets=targets)
    add_adapters(model, lora, seed=1)
    torch.testing.assert_close(logits(model), before)
    randomized(model)
    adapter = adapter_of(model, model_tensors(model), lora.scale)
    assert any(name.endswith(".keys") for name in adapter)
    merge(plain, adapter)
    torch.testing.assert_close(logits(model), logits(plain), atol=1e-4, rtol=1e-4)


def test_a_recurrent_model():
    """Whose readout is read as a matrix by a kernel: adapters are in it all the same."""
    model = build_model(make_recipe({}).model, source_size=11, target_size=13)
    names = [each.name for each in projections(model)]
    assert "decoder.readout" in names
    plain = build_model(make_recipe({}).model, source_size=11, target_size=13)
    settings = LoraSettings(rank=2, targets=["readout"])
    add_adapters(model, settings, seed=1)
    randomized(model)
    merge(plain, adapter_of(model, model_tensors(model), settings.scale))
    torch.testing.assert_close(logits(model), logits(plain), atol=1e-4, rtol=1e-4)
