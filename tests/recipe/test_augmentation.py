import pytest
from pydantic import ValidationError

from weft.recipe.augmentation import AugmentationSettings


def test_nothing_is_changed_by_default():
    settings = AugmentationSettings()
    assert not settings.changes_pictures and not settings.changes_frames


@pytest.mark.parametrize(
    ("change", "pictures", "frames"),
    [
        *(({name: 0.1}, True, False) for name in ("scale", "shift", "shear", "stroke", "contrast", "noise")),
        *(({name: 1}, False, True) for name in ("time_masks", "feature_masks")),
        *(({name: 7}, False, False) for name in ("time_mask", "feature_mask")),
    ],
)
def test_which_arrays_a_setting_changes(change, pictures, frames):
    settings = AugmentationSettings(**change)
    assert (settings.changes_pictures, settings.changes_frames) == (pictures, frames)


@pytest.mark.parametrize("change", [{"scale": 1.0}, {"shift": -0.1}, {"stroke": 9.0}, {"time_masks": 101}, {"zoom": 1}])
def test_limits(change):
    with pytest.raises(ValidationError):
        AugmentationSettings(**change)
