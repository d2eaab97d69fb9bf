"""Stems against literal convolutions of one picture at a time. The contracts of models hold for them, too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from weft.models.positions import sinusoids
from weft.models.stems import MAX_PADDING, Stem, bin_shares, make_stem, packed_shapes, similar_sizes
from weft.packed import pack
from weft.ragged import Ragged
from weft.recipe.stem import StemSettings

SIZES = [(13, 17), (5, 3), (1, 1), (2, 29), (11, 16)]
RANDOM = np.random.default_rng(3)
PICTURES = [RANDOM.integers(0, 256, (*size, 3), dtype=np.uint8) for size in SIZES]


def stem_of(kind: str, **settings: object) -> Stem:
    torch.manual_seed(5)
    checked = StemSettings.model_validate({"kind": kind, "inputs": 3, "widths": [5, 7], **settings})
    stem = make_stem(checked, width=11, dropout=0.0).double().eval()
    for name, parameter in stem.named_parameters():
        if "norm" in name or "bias" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    return stem


def batch_of(arrays: list[np.ndarray]) -> Ragged:
    return Ragged.of([torch.from_numpy(pack(array)) for array in arrays])


def convolved(image: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: tuple[int, int]) -> np.ndarray:
    """y(o, i, j) = b(o) + Σ w(o, c, m, n) x(c, s i + m − M, t j + n − N), zero outside of the picture."""
    _, height, width = image.shape
    outputs, _, rows, columns = weight.shape
    result = np.zeros((outputs, -(-height // stride[0]), -(-width // stride[1])))
    for i in range(result.shape[1]):
        for j in range(result.shape[2]):
            result[:, i, j] = bias
            for m in range(rows):
                for n in range(columns):
                    y, x = stride[0] * i + m - rows // 2, stride[1] * j + n - columns // 2
                    if 0 <= y < height and 0 <= x < width:
                        result[:, i, j] += weight[:, :, m, n] @ image[:, y, x]
    return result


def normed(image: np.ndarray, norm: torch.nn.Module) -> np.ndarray:
    weight, bias = (getattr(norm, name).detach().numpy()[:, None, None] for name in ("weight", "bias"))
    centered = image - image.mean(0)
    return centered / np.sqrt(image.var(0) + 1e-5) * weight + bias


def last_stage(stem: Stem, image: np.ndarray) -> np.ndarray:
    """The channels (C, H, W) of one picture after all stages and the last norm, place by place."""
    for stage in stem.stages:
        parts = [parameter.detach().numpy() for parameter in (stage.convolution.weight, stage.convolution.bias)]  # type: ignore[union-attr]
        image = convolved(image, *parts, stage.stride)  # type: ignore[arg-type]
        for block in stage.blocks:  # type: ignore[union-attr]
            inner = image
            for norm, convolution in zip(block.norms, block.convolutions, strict=True):  # type: ignore[union-attr,arg-type]
                weights = convolution.weight.detach().numpy(), convolution.bias.detach().numpy()
                inner = convolved(np.maximum(normed(inner, norm), 0), *weights, (1, 1))
            image = image + inner
    return normed(image, stem.norm)


def projected(stem: Stem, vectors: np.ndarray) -> Tensor:
    return stem.projection(torch.from_numpy(vectors)).detach()


def ink(picture: np.ndarray) -> np.ndarray:
    return 1 - picture.transpose(2, 0, 1) / 255


def test_columns_are_the_convolutions_of_each_picture_alone() -> None:
    stem = stem_of("columns", bins=2)
    states = stem.ragged(batch_of(PICTURES)).split()
    for picture, states_ND in zip(PICTURES, states, strict=True):
        image = last_stage(stem, ink(picture))
        height = image.shape[1]
        halves = []
        for start in (0.0, height / 2):  # the mean over each half of the height, a row in the middle counts half
            shares = [max(0.0, min(y + 1, start + height / 2) - max(y, start)) * 2 / height for y in range(height)]
            halves.append(np.einsum("h,chw->wc", np.array(shares), image))
        torch.testing.assert_close(states_ND.detach(), projected(stem, np.concatenate(halves, 1)))


def test_a_grid_has_a_state_at_each_place_with_its_position() -> None:
    stem = stem_of("grid")
    rows, columns = sinusoids(20, 5).numpy(), sinusoids(20, 6).numpy()
    for picture, states_ND in zip(PICTURES, stem.ragged(batch_of(PICTURES)).split(), strict=True):
        image = last_stage(stem, ink(picture))
        for index, state_D in enumerate(states_ND.detach()):
            row, column = divmod(index, image.shape[2])
            position = torch.from_numpy(np.concatenate([rows[row], columns[column]]))
            expected_D = projected(stem, image[:, row, column]) + position
            torch.testing.assert_close(state_D, expected_D, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
def test_frames_are_convolved_over_time(dtype: str) -> None:
    stem = stem_of("frames")
    frames = [RANDOM.integers(0, 256, (length, 3)).astype(dtype) for length in (13, 1, 6)]
    for array, states_ND in zip(frames, stem.ragged(batch_of(frames)).split(), strict=True):
        values = array.astype(float) / (255 if dtype == "uint8" else 1)
        expected_ND = projected(stem, last_stage(stem, values.T[:, None])[:, 0].T)
        torch.testing.assert_close(states_ND.detach(), expected_ND)


@pytest.mark.parametrize("kind", ["columns", "grid"])
def test_as_many_states_as_the_settings_say(kind: str) -> None:
    stem = stem_of(kind)
    expected = [rows * columns for rows, columns in (stem.settings.output_shape(*size) for size in SIZES)]
    assert stem.ragged(batch_of(PICTURES)).lengths.tolist() == expected


def test_ids_of_a_batch_are_bytes_of_any_type() -> None:
    stem, batch = stem_of("columns"), batch_of(PICTURES)
    bytes_only = Ragged(batch.values.to(torch.uint8), batch.layout)
    assert torch.equal(stem.ragged(batch).values, stem.ragged(bytes_only).values)
    assert [(shape.height, shape.width) for shape in packed_shapes(bytes_only)] == SIZES
    assert stem.ragged(batch_of([])).values.shape == (0, 11)


def test_pictures_of_similar_size_are_padded_together() -> None:
    sizes = [(10, 100), (11, 90), (300, 2), (10, 97), (1, 1)]
    groups = list(similar_sizes(sizes))
    assert sorted(row for group in groups for row in group) == [0, 1, 2, 3, 4]
    assert [0, 1, 3] in [sorted(group) for group in groups]
    for group in groups:
        area = sum(sizes[row][0] * sizes[row][1] for row in group)
        padded = len(group) * max(sizes[row][0] for row in group) * max(sizes[row][1] for row in group)
        assert padded <= MAX_PADDING * area


def test_every_bin_is_a_mean() -> None:
    for height in (1, 2, 5, 13):
        (shares_KH,) = bin_shares(torch.tensor([height]), 4, 17)
        torch.testing.assert_close(shares_KH.sum(1), torch.ones(4))
        assert not shares_KH[:, height:].any()
