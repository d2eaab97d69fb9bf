"""Tokenizers of arrays: files, data URLs and drawings become bytes, and everything else one line."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weft.data.arrays.tokenizer import FramesTokenizer, PictureTokenizer
from weft.errors import DataError, VocabularyError
from weft.packed import unpack
from weft.text.tokenizer import load

PICTURE = np.random.default_rng(5).integers(0, 256, (7, 11, 3), dtype=np.uint8)


def png(picture: np.ndarray = PICTURE) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture.squeeze()).save(stream, "PNG")
    return stream.getvalue()


def data_url(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def arrays_of(tokenizer: PictureTokenizer | FramesTokenizer, *names: str) -> list[np.ndarray]:
    ids, lengths = tokenizer.encode_arrays(names)
    assert ids.dtype == np.uint8
    return [unpack(row) for row in np.split(ids, np.cumsum(lengths)[:-1])]


class TestPictures:
    def test_a_file_and_a_data_url_are_the_same_picture(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png())
        tokenizer = PictureTokenizer(channels=3)
        file, url = arrays_of(tokenizer, str(tmp_path / "a.png"), data_url(png()))
        np.testing.assert_array_equal(file, PICTURE)
        np.testing.assert_array_equal(url, PICTURE)
        assert tokenizer.encode(str(tmp_path / "a.png")) == tokenizer.encode_batch([data_url(png())])[0]

    def test_pictures_become_gray_and_of_one_height(self) -> None:
        [picture] = arrays_of(PictureTokenizer(channels=1, height=14), data_url(png()))
        assert picture.shape == (14, 22, 1)

    def test_what_is_shown_of_a_picture(self) -> None:
        tokenizer = PictureTokenizer(channels=1)
        ids = tokenizer.encode(data_url(png()))
        assert tokenizer.decode(ids) == "[picture 7 × 11]" and tokenizer.tokens(ids) == ["[picture 7 × 11]"]
        assert tokenizer.description() == ["gray", "in their own sizes"]
        assert (tokenizer.decode([]), tokenizer.tokens([])) == ("", [])

    def test_an_empty_text_has_no_array(self) -> None:
        assert PictureTokenizer(channels=1).encode_arrays(["", " "])[1].tolist() == [0, 0]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("data:image/png,abc", "data:image/png,abc: expected data:image/png;base64, and the bytes of a file"),
            ("data:image/png;base64,a", "damaged base64; encode the bytes of the file again"),
            (data_url(b"GIF89a"), "a GIF file; expected PNG, JPEG, WebP, TIFF or PGM"),
            ("no/such.png", "no/such.png: no such file"),
        ],
    )
    def test_what_is_no_picture(self, name: str, message: str) -> None:
        with pytest.raises(DataError) as error:
            PictureTokenizer(channels=1).encode(name)
        assert message in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 200

    def test_a_picture_above_the_limit_is_not_decoded(self) -> None:
        with pytest.raises(DataError, match=r"11 × 7 pixels, more than the limit of 76"):
            PictureTokenizer(channels=1, max_values=76).encode(data_url(png()))
        with pytest.raises(DataError, match=r"44 × 28 pixels, more than the limit of 100"):
            PictureTokenizer(channels=1, height=28, max_values=100).encode(data_url(png()))

    def test_files_can_be_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png())
        tokenizer = PictureTokenizer(channels=3)
        tokenizer.files = None
        tokenizer.encode(data_url(png()))
        with pytest.raises(DataError, match=r"a\.png: names of files are not read here; give a data URL"):
            tokenizer.encode(str(tmp_path / "a.png"))

    def test_saved_and_loaded(self, tmp_path: Path) -> None:
        PictureTokenizer(channels=3, height=14, max_values=1000).save(tmp_path / "t.json")
        loaded = load(tmp_path / "t.json")
        assert isinstance(loaded, PictureTokenizer)
        assert (loaded.channels, loaded.height, loaded.max_values) == (3, 14, 1000)
        (tmp_path / "t.json").write_text((tmp_path / "t.json").read_text().replace("14", '"x"'))
        with pytest.raises(VocabularyError, match=r"damaged: height is 'x', expected a whole number"):
            load(tmp_path / "t.json")


class TestFrames:
    def test_features_are_normalized_in_each_file(self, tmp_path: Path) -> None:
        frames = np.random.default_rng(2).normal(3, 5, (101, 3)).astype(np.float32)
        np.save(tmp_path / "a.npy", frames)
        [array] = arrays_of(FramesTokenizer(channels=3), str(tmp_path / "a.npy"))
        assert array.dtype == np.float16 and array.shape == (101, 3)
        np.testing.assert_allclose(array.astype(float).mean(0), 0, atol=0.01)
        np.testing.assert_allclose(array.astype(float).std(0), 1, atol=0.01)

    def test_bytes_stay_as_they_are(self, tmp_path: Path) -> None:
        frames = np.arange(33, dtype=np.uint8).reshape(11, 3)
        np.save(tmp_path / "a.npy", frames)
        tokenizer = FramesTokenizer(channels=3)
        [array] = arrays_of(tokenizer, str(tmp_path / "a.npy"))
        np.testing.assert_array_equal(array, frames)
        assert tokenizer.decode(tokenizer.encode(str(tmp_path / "a.npy"))) == "[11 frames of 3]"
        assert tokenizer.description() == ["3 values a frame", "normalized in each file"]

    def test_frames_of_another_width_and_pictures(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((11, 5), np.float16))
        with pytest.raises(DataError, match=r"a\.npy: 5 features a frame, expected 3"):
            FramesTokenizer(channels=3).encode(str(tmp_path / "a.npy"))
        with pytest.raises(DataError, match=r"a picture, expected frames or sound; set tokenizer\.kind = 'picture'"):
            FramesTokenizer(channels=3).encode(data_url(png()))
        with pytest.raises(DataError, match=r"frames or sound, expected a picture; set tokenizer\.kind = 'frames'"):
            PictureTokenizer(channels=3).encode(str(tmp_path / "a.npy"))
