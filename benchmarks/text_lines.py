"""Lines of text rendered from the fonts of this machine, with noise, as a folder to train on: picture<TAB>text.

    sudo apt-get install fonts-dejavu fonts-liberation            any fonts will do; weft itself needs none
    python benchmarks/text_lines.py lines --texts sentences.txt   lines/{train,valid,test}.tsv and lines/pictures/
    python benchmarks/text_lines.py lines                         texts of random words, numbers and punctuation

If there are four fonts or more, no font of the test lines is among those of the training lines: they show what a
recipe does with a new set of lines. With `--same-fonts` all splits use all fonts. A text is in one split only. Every
line is a function of the seed, its split and its number: a larger corpus begins with the smaller one. Size, margins,
slant, blur, contrast, unevenness of the paper, grain and specks are drawn anew for each line.

It was written to choose the settings of the recipe `text-lines`, whose results must not be chosen on real lines.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZES = {"train": 20_000, "valid": 1_000, "test": 1_000}
SYLLABLES = (
    "ba be bi bo da de di du fa fe ga go ha he ka ki la le li lo ma me mi mo na ne no pa pe ra re ri ro sa se si"
)
SYLLABLES += " so ta te ti to tu va ve wa we zo an en in on un ar er ir or al el il ol ing tion ment st nd"
MARKS = (",", ",", ".", ".", ";", ":", "!", "?", " –", ")", '"', "'")
UNFIT = ("math", "symbol", "emoji", "dingbats", "stix", "icons", "awesome", "mono-oblique")
"""Parts of file names of fonts that cannot write a line of text."""


def find_fonts(folders: Sequence[str]) -> list[Path]:
    """Font files, sorted by name: those of the folders, or those that fontconfig knows."""
    if folders:
        paths = [path for folder in folders for path in Path(folder).rglob("*.[ot]tf")]
    else:
        listed = subprocess.run(["fc-list", ":", "file"], capture_output=True, text=True, check=True).stdout
        paths = [Path(line.split(":")[0].strip()) for line in listed.splitlines()]
    fit = {path.name: path for path in paths if path.suffix.lower() in (".ttf", ".otf")}
    return [path for name, path in sorted(fit.items()) if not any(part in name.lower() for part in UNFIT)]


def random_text(draw: random.Random, longest: int) -> str:
    """Words of syllables, numbers and punctuation; no language in particular."""
    words: list[str] = []
    for _ in range(draw.randint(1, 9)):
        word = "".join(draw.choices(SYLLABLES.split(), k=draw.randint(1, 4)))
        kind = draw.random()
        if kind < 0.12:
            word = draw.choice((f"{draw.randint(0, 9999)}", f"{draw.randint(0, 999)},{draw.randint(0, 99):02d}"))
        elif kind < 0.3 or not words:
            word = word.capitalize()
        elif kind < 0.34:
            word = word.upper()
        words.append(word + (draw.choice(MARKS) if draw.random() < 0.15 else ""))
    return " ".join(words)[:longest].strip()


def texts_of(split: str, given: Sequence[str], seed: int, longest: int) -> Iterator[str]:
    """Different texts of a split, by a hash of the text: the splits share none."""
    draw = random.Random(f"text lines {split} {seed}")
    candidates = (given[draw.randrange(len(given))] if given else random_text(draw, longest) for _ in iter(int, 1))
    seen: set[str] = set()
    misses = 0
    for text in candidates:
        share = random.Random(f"split {text}").random()
        owner = "test" if share < 0.1 else "valid" if share < 0.2 else "train"
        if text and owner == split and text not in seen:
            seen.add(text)
            misses = 0
            yield text
        else:
            misses += 1
            if misses > 100 * (len(given) or 1_000):
                return


def render(text: str, font_path: Path, draw: random.Random, height: int) -> Image.Image:
    """A gray picture of a line of text: ink on uneven paper, as a scanner might see it."""
    size = draw.randint(26, 44)
    font = ImageFont.truetype(str(font_path), size)
    left, top, right, bottom = font.getbbox(text)
    margins = [draw.randint(2, 14) for _ in range(4)]
    sides = (right - left + margins[0] + margins[1], bottom - top + margins[2] + margins[3])
    line = Image.new("L", sides, 0)
    ImageDraw.Draw(line).text((margins[0] - left, margins[2] - top), text, font=font, fill=255)
    angle, shear = draw.uniform(-0.8, 0.8), draw.uniform(-0.12, 0.18)
    line = line.rotate(angle, resample=Image.Resampling.BICUBIC, expand=True)
    start = -shear * line.height if shear > 0 else 0.0  # x in the line = x in the picture + shear · y + start
    sides = line.width + int(abs(shear) * line.height) + 1, line.height
    affine = (1.0, shear, start, 0.0, 1.0, 0.0)
    line = line.transform(sides, Image.Transform.AFFINE, affine, resample=Image.Resampling.BICUBIC)
    if draw.random() < 0.3:
        line = line.filter(ImageFilter.MaxFilter(3))
    line = line.filter(ImageFilter.GaussianBlur(draw.uniform(0.2, 1.5)))
    line = line.resize((max(round(line.width * height / line.height), 1), height), Image.Resampling.BILINEAR)
    return Image.fromarray(on_paper(np.asarray(line, float) / 255, draw))


def on_paper(ink: np.ndarray, draw: random.Random) -> np.ndarray:
    """Ink from 0 to 1 on paper: brightness that changes over the line, grain, and specks."""
    noise = np.random.default_rng(draw.getrandbits(64))
    height, width = ink.shape
    paper, black = draw.uniform(170, 255), draw.uniform(0, 90)
    across = np.linspace(-1, 1, width)[None] * draw.uniform(-25, 25)
    down = np.linspace(-1, 1, height)[:, None] * draw.uniform(-12, 12)
    picture = (paper + across + down) * (1 - ink) + black * ink + noise.normal(0, draw.uniform(0, 14), ink.shape)
    for _ in range(draw.randint(0, 4)):
        row, column = draw.randrange(height), draw.randrange(width)
        picture[row : row + draw.randint(1, 2), column : column + draw.randint(1, 3)] = draw.uniform(black, paper)
    if draw.random() < 0.1:
        picture[min(int(height * draw.uniform(0.85, 0.97)), height - 1)] -= draw.uniform(20, 90)  # a rule below
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_line(text: str, name: str, seed: str, fonts: Sequence[Path], options: argparse.Namespace) -> str:
    """Write a picture; returns its row of the table."""
    draw = random.Random(seed)
    render(text, draw.choice(fonts), draw, options.height).save(options.folder / name)
    return f"{name}\t{text}\n"


def write_split(split: str, texts: Iterator[str], fonts: Sequence[Path], options: argparse.Namespace) -> int:
    """Write pictures and their table; the table comes last."""
    chosen = list(islice(texts, getattr(options, split)))
    names = [f"pictures/{split}-{number:06d}.png" for number in range(len(chosen))]
    seeds = [f"line {split} {number} {options.seed}" for number in range(len(chosen))]
    with ProcessPoolExecutor(options.jobs) as pool:
        write = partial(write_line, fonts=fonts, options=options)
        rows = [*pool.map(write, chosen, names, seeds, chunksize=50)]
    (options.folder / f"{split}.tsv").write_text("".join(rows), "utf-8")
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=Path, help="a file of texts, one a line; by default they are made up")
    parser.add_argument(
        "--fonts", action="append", default=[], help="a folder of fonts; by default those of fontconfig"
    )
    parser.add_argument("--same-fonts", action="store_true", help="test lines in the fonts of the training lines")
    parser.add_argument("--height", type=int, default=48, help="pixels")
    parser.add_argument("--longest", type=int, default=60, help="characters of a line")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes that draw")
    for split, count in SIZES.items():
        parser.add_argument(f"--{split}", type=int, default=count, help=f"number of {split} lines")
    options = parser.parse_args()
    fonts = find_fonts(options.fonts)
    if not fonts:
        sys.exit("no fonts; install some (apt-get install fonts-dejavu), or name a folder with --fonts")
    given = []
    if options.texts:
        lines = options.texts.read_text("utf-8").splitlines()
        given = sorted({line.strip()[: options.longest].strip().replace("\t", " ") for line in lines} - {""})
    has_own = len(fonts) >= 4 and not options.same_fonts
    test_fonts = fonts[::4] if has_own else fonts
    train_fonts = [font for font in fonts if font not in test_fonts] if has_own else fonts
    (options.folder / "pictures").mkdir(parents=True, exist_ok=True)
    for split in SIZES:
        chosen = test_fonts if split == "test" else train_fonts
        texts = texts_of(split, given, options.seed, options.longest)
        count = write_split(split, texts, chosen, options)
        print(f"{options.folder / split}.tsv: {count:,} lines in {len(chosen)} fonts")


if __name__ == "__main__":
    main()
