"""Lists of features as tags."""

import pytest

from weft.text.features import features_as_tags


@pytest.mark.parametrize(
    ("features", "tags"),
    [
        ("", ""),
        ("N", "<N>"),
        ("N;ACC(PL)", "<N><ACC(PL)>"),
        ("N;ABL(PL;PSS(1,PL));X", "<N><ABL(PL;PSS(1,PL))><X>"),
        ("N;;X", None),
        (";", None),
        ("N;(", None),
        ("N)", None),
        ("<N><ACC(PL)>", "<N><ACC(PL)>"),
        ("<N", None),
        ("<N>;X", None),
        ("N SG", None),
    ],
)
def test_features(features: str, tags: str | None) -> None:
    assert features_as_tags(features) == tags
