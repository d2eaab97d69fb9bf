import base64
import re

import numpy as np

from weft.data.arrays.pictures import read_picture
from weft.pictures.html.thumbnails import MAX_WIDTH, picture_element, thumbnail_sheet, thumbnails_page
from weft.pictures.thumbnails import Thumbnail


def embedded(markup):
    return [
        read_picture(base64.b64decode(content), "a.png")
        for content in re.findall(r'src="data:image/png;base64,([^"]+)"', markup)
    ]


def test_pictures():
    picture = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    markup = picture_element(picture, 'a "<b>"')
    assert np.array_equal(embedded(markup)[0], picture)
    assert 'alt="a &quot;&lt;b&gt;&quot;"' in markup and 'width="10" height="8"' in markup
    assert embedded(picture_element(np.full((3, 2), 9, np.uint8)))[0].shape == (3, 2, 1)
    assert embedded(picture_element(np.zeros((50, 9_000), np.uint8)))[0].shape[1] == MAX_WIDTH


def test_a_page():
    thumbnails = [Thumbnail(np.zeros((2, 3), np.uint8), "<i>1</i>", "a.png"), Thumbnail(np.ones((2, 3), np.uint8), "")]
    markup = thumbnails_page("Digits <1>", thumbnails)
    assert markup.startswith("<!DOCTYPE html>") and "Digits &lt;1&gt;" in markup and "&lt;i&gt;1" in markup
    assert "(empty)" in markup and "a.png  2 × 3" in markup
    assert len(embedded(thumbnail_sheet(thumbnails))) == 2
