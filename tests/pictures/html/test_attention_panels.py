import xml.etree.ElementTree as ET

import numpy as np

from weft.data.arrays.pictures import read_picture
from weft.pictures.attention_panels import AttentionPanels
from weft.pictures.html.attention_panels import FAINTEST, animation, attention_panels, panels_page, panels_svg

RANDOM = np.random.default_rng(5)
PICTURE = RANDOM.integers(0, 256, (24, 35), np.uint8)
PANELS = AttentionPanels(PICTURE, ["4", "<b>&"], RANDOM.random((2, 9)) ** 4, (24, 4))
NAME = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_written_once():
    from base64 import b64decode

    [image] = ET.fromstring(panels_svg(PANELS)).iter(f"{NAME}image")
    picture = read_picture(b64decode(image.get("href").partition(",")[2]), "a.png")
    assert np.array_equal(picture[:, :, 0], PICTURE)
    assert (image.get("width"), image.get("height")) == ("35", "24")


def test_cells():
    rects = [part for part in ET.fromstring(panels_svg(PANELS)).iter(f"{NAME}rect") if part.get("class") == "tint"]
    expected = sum((PANELS.weights_THW[token] > FAINTEST * PANELS.peak(token)).sum() for token in range(2))
    assert len(rects) == expected
    assert max(float(rect.get("fill-opacity")) for rect in rects) == 0.6
    assert rects[0].findtext(f"{NAME}title").startswith("4: 0.")


def test_tokens_are_text():
    for drawing in (panels_svg(PANELS, "<i>"), animation(PANELS, "<i>")):
        root = ET.fromstring(drawing)
        assert any("<b>&" in (text.text or "") for text in root.iter(f"{NAME}text"))
        assert not list(root.iter(f"{NAME}b")) and not list(root.iter(f"{NAME}i"))


def test_several_drawings_in_a_page_have_parts_of_their_own():
    other = AttentionPanels(PICTURE, ["4", "5"], np.ones((2, 9)), (24, 4))
    identifiers = [next(ET.fromstring(panels_svg(panels)).iter(f"{NAME}image")).get("id") for panels in (PANELS, other)]
    assert len(set(identifiers)) == 2


def test_a_large_picture_is_embedded_smaller():
    panels = AttentionPanels(np.zeros((3_000, 5_000), np.uint8), ["a"], np.ones((1, 1, 1)), (5_000, 5_000))
    assert len(panels_svg(panels)) < 30_000


def test_pages():
    text = panels_page(PANELS, "<title>")
    assert text.startswith("<!DOCTYPE html>") and "&lt;title&gt;" in text and text.count("<svg") >= 2
    assert attention_panels(PANELS).startswith('<div class="scroll"><svg')
