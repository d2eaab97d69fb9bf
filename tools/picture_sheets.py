"""Sheets of pictures for docs/pictures-as-sources.md: drawn digits, and what each setting of augmentation does.

    python tools/picture_sheets.py        writes docs/images/pictures/*.svg

Nothing is trained. The sheets are SVG with the pictures in them; their text follows the reader's choice of a light or a
dark page.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from random import Random

import numpy as np

from weft.data.arrays.augmentation import augment_picture, mask_frames
from weft.data.arrays.frames import log_mel
from weft.data.arrays.png import data_address
from weft.pictures.pixels import frames_picture
from weft.recipe.augmentation import AugmentationSettings
from weft.tasks import generate
from weft.tasks.drawn_digits import draw, write

FOLDER = Path(__file__).resolve().parents[1] / "docs/images/pictures"
STYLE = """
  text { font: 14px system-ui, "DejaVu Sans", sans-serif; fill: #1f2933 } .page { fill: #ffffff }
  image { image-rendering: pixelated }
  @media (prefers-color-scheme: dark) { text { fill: #e6eaf0 } .page { fill: #1e2129 } }
"""
VARIANTS = 4
LINE = "40+75-2"
Row = tuple[str, list[np.ndarray]]


def sheet(title: str, rows: list[Row], *, label_width: int, zoom: int = 2) -> str:
    """Rows of pictures of one size each, with a label on their left."""
    widths = [max(pictures[column].shape[1] for _, pictures in rows) * zoom for column in range(len(rows[0][1]))]
    parts, top = [], 12
    for label, pictures in rows:
        height = max(picture.shape[0] for picture in pictures) * zoom
        if label:
            parts.append(f'<text x="12" y="{top + height / 2 + 5:g}">{escape(label)}</text>')
        left = 12 + label_width
        for picture, width in zip(pictures, widths, strict=True):
            sides = f'width="{picture.shape[1] * zoom}" height="{picture.shape[0] * zoom}"'
            parts.append(f'<image x="{left}" y="{top}" {sides} href="{data_address(picture)}"/>')
            left += width + 12
        top += height + 12
    width = 12 + label_width + sum(widths) + 12 * len(widths)
    size = f'viewBox="0 0 {width} {top}" width="{width}" height="{top}"'
    background = f'<rect class="page" width="{width}" height="{top}"/>'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title, quote=True)}">'
    return f"{opening}<title>{escape(title)}</title><style>{STYLE}</style>{background}{''.join(parts)}</svg>\n"


def digits() -> str:
    """Twenty drawn lines."""
    pictures = [draw(pair.source) for pair in generate("drawn-digits", "train", 20, seed=1)]
    return sheet("Drawn digits", [("", pictures[row : row + 5]) for row in range(0, 20, 5)], label_width=0)


def augmentation() -> str:
    """A line, changed by each setting with four seeds, and by all of them."""
    line = write(LINE, Random(3))
    changes: dict[str, dict[str, float]] = {
        "none": {},
        **{
            f"{name} = {value}": {name: value}
            for name, value in {
                **{"resize": 0.3, "scale": 0.3, "shift": 0.3, "shear": 0.4},
                **{"stroke": 1.0, "contrast": 0.6, "noise": 0.1},
            }.items()
        },
        "all, each half": {"scale": 0.15, "shift": 0.15, "shear": 0.2, "stroke": 0.5, "contrast": 0.3, "noise": 0.05},
    }
    rows: list[Row] = [
        (label, [augment_picture(line, AugmentationSettings(**change), [2, seed]) for seed in range(VARIANTS)])
        for label, change in changes.items()
    ]
    return sheet("Augmentation of a drawn line", rows, label_width=125)


def masks() -> str:
    """Frames of a rising and a falling tone, masked."""
    time = np.arange(8_000) / 16_000
    sound = 0.5 * np.sin(2 * np.pi * (200 + 3_000 * time) * time) + 0.3 * np.sin(
        2 * np.pi * (3_500 - 2_500 * time) * time
    )
    frames = log_mel(sound.astype(np.float32), 16_000)
    frames = (frames - frames.mean()) / frames.std()
    settings = AugmentationSettings(time_masks=2, time_mask=6, feature_masks=2, feature_mask=12)
    pictures = [frames_picture(frames), *(frames_picture(mask_frames(frames, settings, seed)) for seed in range(3))]
    return sheet("Frames with masks", [("none, and 3 seeds", pictures)], label_width=140)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in {"drawn-digits": digits(), "augmentation": augmentation(), "masks": masks()}.items():
        (FOLDER / f"{name}.svg").write_text(content, "utf-8")
        print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
