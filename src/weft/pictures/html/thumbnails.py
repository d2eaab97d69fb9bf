"""Pictures in a page, as data addresses, and sheets of thumbnails with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.data.arrays.png import data_address
from weft.pictures.html.elements import Html, data_text, element
from weft.pictures.html.page import page
from weft.pictures.pixels import as_rgb, fit

if TYPE_CHECKING:
    from weft.pictures.thumbnails import Thumbnail

MAX_HEIGHT, MAX_WIDTH = 160, 900
"""Pixels of an embedded picture; a larger one is made smaller."""
SMALL = 48
"""A lower picture is shown twice as large."""
GRID = (
    "display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 220px), 1fr)); gap: 14px 20px; "
    "align-items: end"
)


def picture_element(picture: np.ndarray, description: str = "") -> Html:
    """A picture in its proportions, never wider than the page; ``description``: for those who cannot see it."""
    small = fit(as_rgb(picture), MAX_HEIGHT, MAX_WIDTH)
    if (small == small[:, :, :1]).all():
        small = small[:, :, 0]
    height, width = small.shape[:2]
    factor = 2 if height < SMALL and 2 * width <= MAX_WIDTH else 1
    return element(
        "img",
        src=data_address(small),
        alt=description,
        width=factor * width,
        height=factor * height,
        style="max-width: 100%; height: auto; border: 1px solid var(--rule)",
    )


def thumbnail_sheet(thumbnails: Sequence[Thumbnail]) -> Html:
    """Pictures side by side, each above its text."""
    figures = []
    for thumbnail in thumbnails:
        note = "  ".join(filter(None, (thumbnail.name, thumbnail.size)))
        lines = (element("div", data_text(thumbnail.text)), element("div", note, class_="faint small"))
        figures.append(element("figure", picture_element(thumbnail.picture, thumbnail.text), *lines))
    return element("div", *figures, style=GRID)


def thumbnails_page(title: str, thumbnails: Sequence[Thumbnail]) -> str:
    """A page of thumbnails."""
    return str(page(title, element("h1", title), thumbnail_sheet(thumbnails)))
