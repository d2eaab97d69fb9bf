"""Sources that are arrays, as a kind of tokenizer: the name of a file goes in, the bytes of its array come out.

Nothing is learned and nothing is unknown. Where a text is expected, a picture or frames can be given as

    the name of a file              pictures/a.png, pictures.zip/a.png; relative to the working directory
    a data URL                      data:image/png;base64,iVBORw0…
    a drawing of a built-in corpus  drawn-digits:pictures/12-6-0a1b2c3d4e5f.png

`weft.packed` is the format of the bytes. The names in a table are relative to its folder; `weft.data.arrays.corpus`
makes of them names that can be read from anywhere.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.data.arrays.files import ArrayFiles, read_array
from weft.data.arrays.frames import check_frames, normalized
from weft.data.arrays.limits import DEFAULT_LIMITS, ArrayLimits
from weft.data.arrays.pictures import scaled_width, with_channels, with_height
from weft.errors import DataError, VocabularyError
from weft.packed import pack, shape_of
from weft.recipe.choices import DRAWINGS, resolve
from weft.text.frames import Frame
from weft.text.id_rows import TokenArrays
from weft.text.vocabulary import LearningOptions, check_lengths, save_tokenizer

DATA_URL = "data:"
SHOWN_NAME = 60
"""Characters of a name that messages show; a data URL is longer."""


class ArrayTokenizer:
    """Names of arrays to bytes."""

    kind: ClassVar[str]
    supports_dropout = False
    size = 0
    """No vocabulary: the ids are bytes, whatever they mean."""
    frame = Frame(source_after=())
    """Nothing is around an array: its header says where it ends."""

    def __init__(self, *, channels: int, height: int = 0, max_values: int = DEFAULT_LIMITS.pixels) -> None:
        """``channels``: values of a pixel or of a frame; ``height``: to which pictures are scaled, 0: not at all."""
        self.channels = channels
        self.height = height
        self.max_values = max_values
        limits = ArrayLimits(pixels=max_values, frames=max(max_values // max(channels, 1), 1))
        self.files: ArrayFiles | None = ArrayFiles(Path(), limits=limits, outside=True)
        """Reads files; None: names of files are refused, as in a service."""
        self.limits = limits

    @classmethod
    def learn(cls, texts: Iterable[str], options: LearningOptions) -> Self:
        return cls(channels=options.channels, height=options.height, max_values=options.max_values)

    def extended(self, texts: Iterable[str], *, minimum_count: int = 1) -> Self:
        return self

    def read(self, name: str) -> np.ndarray:
        """The array of a name, as the model reads it."""
        return self._prepared(self.original(name), _shown(name))

    def original(self, name: str) -> np.ndarray:
        """The array of a name, as it was given."""
        if name.startswith(DATA_URL):
            return read_array(_bytes_of_url(name), _shown(name), self.limits)
        corpus, colon, drawing = name.partition(":")
        if colon and corpus in DRAWINGS:
            picture: np.ndarray = resolve(DRAWINGS, corpus)(drawing)
            return picture if picture.ndim == 3 else picture[:, :, None]
        if self.files is None:
            raise DataError(
                f"{_shown(name)}: names of files are not read here; give a data URL: data:image/png;base64,…"
            )
        return self.files.read(name)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = pack(self.read(text)).tolist()
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_arrays(self, texts: Sequence[str]) -> TokenArrays:
        """The bytes of all arrays end to end, and the number of bytes of each; an empty text has none."""
        check_lengths(texts)
        rows = [pack(self.read(text)) if text.strip() else np.zeros(0, np.uint8) for text in texts]
        return np.concatenate([np.zeros(0, np.uint8), *rows]), np.array([len(row) for row in rows], np.int64)

    def decode(self, ids: Sequence[int]) -> str:
        """A description of the array: ``[picture 24 × 80]``."""
        return f"[{self.describe(ids)}]" if len(ids) else ""

    def describe(self, ids: Sequence[int]) -> str:
        """Kind and size of the array in these bytes."""
        raise NotImplementedError

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One name for the whole array: bytes are not for display."""
        return [self.decode(ids)] if len(ids) else []

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return [(0, 0)] * len(ids)

    def description(self) -> list[str]:
        raise NotImplementedError

    def save(self, path: Path) -> None:
        settings = {"channels": self.channels, "height": self.height, "max_values": self.max_values}
        save_tokenizer(path, self.kind, **settings)

    @classmethod
    def from_json(cls, content: dict[str, Any], *, name: str) -> Self:
        settings = {key: content.get(key) for key in ("channels", "height", "max_values")}
        for key, value in settings.items():
            if type(value) is not int or not 0 <= value <= 1 << 40:
                raise VocabularyError(f"{name}: damaged: {key} is {value!r}, expected a whole number")
        return cls(**settings)  # type: ignore[arg-type]

    def _prepared(self, array: np.ndarray, name: str) -> np.ndarray:
        raise NotImplementedError


class PictureTokenizer(ArrayTokenizer):
    """Names of pictures to bytes: gray or red, green and blue, scaled to one height if there is one."""

    kind = "picture"

    def describe(self, ids: Sequence[int]) -> str:
        shape = shape_of(np.asarray(ids[:8]))
        return f"picture {shape.height} × {shape.width}"

    def description(self) -> list[str]:
        scaled = f"scaled to a height of {self.height} pixels" if self.height else "in their own sizes"
        return ["gray" if self.channels == 1 else "red, green and blue", scaled]

    def _prepared(self, array: np.ndarray, name: str) -> np.ndarray:
        if array.ndim != 3:
            raise DataError(f"{name}: frames or sound, expected a picture; set tokenizer.kind = 'frames'")
        if self.height:
            self.limits.check_pixels(name, scaled_width(array, self.height), self.height)
            array = with_height(array, self.height)
        return with_channels(array, self.channels)


class FramesTokenizer(ArrayTokenizer):
    """Names of frames or sound to bytes: each feature with mean 0 and deviation 1 over the file, in half precision."""

    kind = "frames"

    def describe(self, ids: Sequence[int]) -> str:
        shape = shape_of(np.asarray(ids[:8]))
        return f"{shape.height} frames of {shape.width}"

    def description(self) -> list[str]:
        return [f"{self.channels} values a frame", "normalized in each file"]

    def _prepared(self, array: np.ndarray, name: str) -> np.ndarray:
        if array.ndim != 2:
            raise DataError(f"{name}: a picture, expected frames or sound; set tokenizer.kind = 'picture'")
        return normalized(check_frames(array, name, self.channels))


def _shown(name: str) -> str:
    return name if len(name) <= SHOWN_NAME or not name.startswith(DATA_URL) else f"{name[:SHOWN_NAME]}…"


def _bytes_of_url(url: str) -> bytes:
    """The bytes in a data URL."""
    head, comma, content = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise DataError(f"{_shown(url)}: expected data:image/png;base64, and the bytes of a file in base64")
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise DataError(f"{_shown(url)}: damaged base64; encode the bytes of the file again") from None
