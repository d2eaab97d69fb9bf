"""Augmentation: literal oracles for each equation, and what holds for every picture, setting and seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from oracles import augmentation as oracle
from weft.data.arrays.augmentation import augment_picture, ink_box, mask_frames, paper_of, sampled, with_strokes
from weft.recipe.augmentation import AugmentationSettings
from weft.tasks.drawn_digits import draw

STRONG = AugmentationSettings(
    scale=0.5, shift=0.5, shear=0.9, stroke=2.5, contrast=0.9, noise=0.02, time_masks=3, feature_masks=2
)
EACH = [
    AugmentationSettings(**{name: value})
    for name, value in {
        "resize": 0.4,
        "scale": 0.4,
        "shift": 0.4,
        "shear": 0.6,
        "stroke": 1.5,
        "contrast": 0.8,
        "noise": 0.1,
    }.items()
]
NAMES = [f"pictures/12-6-{number:012x}.png" for number in range(12)]
pictures = arrays.arrays(np.uint8, arrays.array_shapes(min_dims=2, max_dims=3, max_side=9))
seeds = st.integers(0, 2**63) | st.lists(st.integers(0, 2**63), min_size=1, max_size=3)


def square(height: int = 17, width: int = 23, *, paper: int = 230, ink: int = 20) -> np.ndarray:
    picture = np.full((height, width), paper, np.uint8)
    picture[5:11, 7:12] = ink
    return picture


@given(pictures, seeds)
def test_shape_and_type_stay(picture, seed):
    before = picture.copy()
    augmented = augment_picture(picture, STRONG, seed)
    assert augmented.shape == picture.shape and augmented.dtype == np.uint8
    assert np.array_equal(picture, before), "the argument is not changed"
    assert np.array_equal(augmented, augment_picture(picture, STRONG, seed)), "the same seed, the same result"


@given(pictures, seeds)
def test_nothing_is_changed_by_default(picture, seed):
    assert np.array_equal(augment_picture(picture, AugmentationSettings(), seed), picture)
    frames = picture.reshape(len(picture), -1).astype(np.float16)
    assert np.array_equal(mask_frames(frames, AugmentationSettings(), seed), frames)


@pytest.mark.parametrize("settings", EACH, ids=lambda settings: next(iter(settings.model_dump(exclude_defaults=True))))
def test_each_setting_changes_pictures_by_the_seed(settings):
    picture = draw(NAMES[0])
    variants = {augment_picture(picture, settings, [1, seed]).tobytes() for seed in range(10)}
    assert len(variants) >= 9, "thinning by a pixel and more is one change"


def test_channels_are_changed_alike():
    picture = draw(NAMES[1])
    settings = STRONG.model_copy(update={"noise": 0.0})
    gray = augment_picture(picture, settings, 5)
    colored = augment_picture(np.repeat(picture[:, :, None], 3, 2), settings, 5)
    assert all(np.array_equal(colored[:, :, channel], gray) for channel in range(3))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("inverted", [False, True])
def test_no_picture_becomes_blank(name, inverted):
    """Contrast of ink with paper, before and after, also with light ink on dark paper."""
    picture = 255 - draw(name) if inverted else draw(name)

    def contrast(picture):
        values_HWC = picture[:, :, None].astype(float)
        return np.abs(values_HWC - paper_of(values_HWC)).max()

    for seed in range(20):
        assert contrast(augment_picture(picture, STRONG, seed)) > 0.1 * contrast(picture)


@given(st.integers(0, 10_000))
def test_ink_stays_inside(seed):
    """The ink of a square keeps its amount, changed only by its new size: nothing is cut off."""
    picture = square(paper=255, ink=0)
    settings = AugmentationSettings(scale=0.9, shift=0.9, shear=0.9)
    ink = 255.0 - augment_picture(picture, settings, seed)
    assert ink[[0, -1]].sum() + ink[:, [0, -1]].sum() < 0.75 * ink.sum()
    shifted = 255.0 - augment_picture(picture, AugmentationSettings(shift=0.9), seed)
    assert abs(shifted.sum() - 30 * 255) < 0.01 * 30 * 255


def test_a_square_is_scaled_within_its_limits():
    settings = AugmentationSettings(scale=0.3)
    heights, widths = [], []
    for seed in range(300):
        ink = 230.0 - augment_picture(square(), settings, seed)
        widths.append(ink.sum() / ink.sum(0).max())
        heights.append(ink.sum() / ink.sum(1).max())
    for sizes, size in ((widths, 5), (heights, 6)):
        assert size / 1.3 - 1 < min(sizes) < size / 1.2 and size * 1.2 < max(sizes) < size * 1.3 + 1


def test_a_picture_is_resized_with_all_that_is_on_it():
    """Ink that fills its picture fills it at every size, and grows as much as the picture."""
    picture = np.zeros((20, 30), np.uint8)
    picture[[0, -1]] = picture[:, [0, -1]] = 255
    shapes = set()
    for seed in range(100):
        resized = augment_picture(picture, AugmentationSettings(resize=0.25), seed)
        shapes.add(resized.shape)
        ink = 255.0 - resized
        factor_y, factor_x = (new / old for new, old in zip(resized.shape, picture.shape, strict=True))
        assert ink.sum() == pytest.approx(255 * 18 * 28 * factor_y * factor_x, rel=0.1)
    heights, widths = zip(*shapes, strict=True)
    assert (min(heights), max(heights), min(widths), max(widths)) == (16, 25, 24, 37)


def test_sampling_equals_the_oracle():
    random = np.random.default_rng(2)
    picture = random.integers(0, 256, (7, 5)).astype(float)
    y, x = random.uniform(-3, 9, 11), random.uniform(-3, 8, (11, 13))
    found = sampled(picture[:, :, None], y, x, np.array([200.0]))[:, :, 0]
    expected = [
        [oracle.interpolated(picture.tolist(), at_y, at_x, 200.0) for at_x in row]
        for at_y, row in zip(y.tolist(), x.tolist(), strict=True)
    ]
    assert np.allclose(found, expected)


@pytest.mark.parametrize("change", [-3.0, -1.0, -0.4, 0.3, 1.0, 2.7])
def test_strokes_equal_the_oracle(change):
    picture = np.random.default_rng(4).integers(0, 256, (7, 11)).astype(float)
    picture[2:5, 3:9] = 0  # ink is darker than paper
    paper = np.array([240.0])
    found = with_strokes(picture[:, :, None], paper, change)[:, :, 0]
    assert np.allclose(found, oracle.strokes(picture.tolist(), change))
    inverted = with_strokes(255 - picture[:, :, None], 255 - paper, change)[:, :, 0]
    assert np.allclose(255 - inverted, found), "light ink on dark paper"


def test_strokes_become_wider_and_thinner():
    picture = square()[:, :, None].astype(float)
    paper = np.array([230.0])

    def area(change):
        return ((230 - with_strokes(picture, paper, change)) / 210).sum()

    assert area(0.0) == pytest.approx(30) and area(1.0) == pytest.approx(8 * 7) and area(2.0) == pytest.approx(10 * 9)
    assert area(0.5) == pytest.approx((30 + 56) / 2)
    assert area(-1.0) == area(-2.0) == pytest.approx(30 - 18 / 2), "half of the ink at the edge"


@given(pictures.filter(lambda picture: picture.ndim == 2))
def test_paper_equals_the_oracle(picture):
    assert paper_of(picture[:, :, None].astype(float)) == [oracle.paper(picture.tolist())]


def test_ink_box():
    values_HWC = square()[:, :, None].astype(float)
    assert ink_box(values_HWC, paper_of(values_HWC)) == (5, 11, 7, 12)
    blank = np.full((4, 6, 1), 9.0)
    assert ink_box(blank, paper_of(blank)) == (0, 4, 0, 6)


def test_noise_has_its_deviation():
    gray = np.full((101, 103), 128, np.uint8)
    deviations = [augment_picture(gray, AugmentationSettings(noise=0.1), seed).std() for seed in range(60)]
    assert 23 < max(deviations) < 26.5 and min(deviations) < 4
    means = [augment_picture(gray, AugmentationSettings(noise=0.1), seed).mean() for seed in range(10)]
    assert all(abs(mean - 128) < 1.5 for mean in means)


def test_contrast_has_its_limits():
    settings = AugmentationSettings(contrast=0.5)
    differences = []
    for seed in range(200):
        augmented = augment_picture(square(paper=160, ink=100), settings, seed).astype(int)
        differences.append(augmented[0, 0] - augmented[7, 8])
        assert abs(augmented[0, 0] - 160) <= 32
    assert 60 / 1.5 - 1 <= min(differences) < 44 and 80 < max(differences) <= 91


class TestMasks:
    SETTINGS = AugmentationSettings(time_masks=2, time_mask=4, feature_masks=3, feature_mask=2)

    @given(st.integers(1, 40), st.integers(1, 30), seeds, st.sampled_from([np.uint8, np.float16, np.float32]))
    def test_at_most_half(self, time, features, seed, dtype):
        frames = np.ones((time, features), dtype)
        masked = mask_frames(frames, self.SETTINGS, seed)
        assert masked.dtype == dtype and masked.shape == frames.shape and frames.all()
        assert np.array_equal(masked, mask_frames(frames, self.SETTINGS, seed))
        assert 2 * (~masked.any(1)).sum() <= time and 2 * (~masked.any(0)).sum() <= features

    @pytest.mark.parametrize("seed", range(10))
    def test_equal_the_oracle(self, seed):
        frames = np.random.default_rng(9).normal(size=(31, 17)).astype(np.float32)
        masked = mask_frames(frames, self.SETTINGS, seed)
        random = np.random.default_rng(seed)
        spans = []
        for size, number, longest in ((31, 2, 4), (17, 3, 2)):
            lengths = []
            for _ in range(number):
                length = random.integers(longest + 1)
                lengths.append((random.integers(size - length + 1), length))
            spans.append(lengths)
        assert np.array_equal(masked, np.array(oracle.masked(frames.tolist(), *spans), np.float32))

    def test_lengths(self):
        settings = AugmentationSettings(time_masks=1, time_mask=5)
        lengths = [(mask_frames(np.ones((50, 3)), settings, seed)[:, 0] == 0).sum() for seed in range(200)]
        assert set(lengths) == set(range(6))
