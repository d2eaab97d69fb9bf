import io
import math
import pickle
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import sound as oracle
from weft.data.arrays.frames import BANDS, check_frames, log_mel, normalized, read_npy, read_wav
from weft.data.arrays.limits import ArrayLimits
from weft.errors import DataError

FRAMES = np.random.default_rng(3).normal(size=(7, 5))


def npy(array, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def wav(samples: bytes, *, width: int = 2, channels: int = 1, rate: int = 8000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(width)
        sound.setframerate(rate)
        sound.writeframes(samples)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", ">f4", ">f2"])
def test_types(dtype):
    array = (FRAMES * 10).astype(dtype)
    frames = read_npy(npy(array), "a.npy")
    assert frames.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(frames, array)


def test_fortran_order():
    assert np.array_equal(read_npy(npy(np.asfortranarray(FRAMES, "f4")), "a"), FRAMES.astype("f4"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(version):
    file = io.BytesIO()
    np.lib.format.write_array(file, FRAMES.astype("f4"), version)
    assert np.array_equal(read_npy(file.getvalue(), "a"), FRAMES.astype("f4"))


class TestBadFrames:
    def test_pickle_is_never_loaded(self):
        class Bomb:
            def __reduce__(self):
                return pytest.fail, ("code ran",)

        data = npy(np.array([[Bomb()]], object), allow_pickle=True)
        with pytest.raises(DataError, match=r"^a: an array of Python objects, which are never loaded"):
            read_npy(data, "a")
        with pytest.raises(DataError, match="damaged"):
            read_npy(pickle.dumps(1), "a")

    @pytest.mark.parametrize("dtype", ["float64", "int64", "complex64", "bool", "U3"])
    def test_other_types(self, dtype):
        with pytest.raises(DataError, match=r"^a: an array of \w+; expected float16, float32 or uint8$"):
            read_npy(npy(np.zeros((2, 2), dtype)), "a")

    @pytest.mark.parametrize("shape", [(), (3,), (0, 3), (3, 0), (2, 2, 2)])
    def test_other_shapes(self, shape):
        with pytest.raises(DataError, match=r"^a: an array of .*; expected time × features, both at least 1$"):
            read_npy(npy(np.zeros(shape, "f4")), "a")

    def test_limits_apply_before_the_values_are_read(self):
        data = npy(np.zeros((2, 2), "f4")).replace(b"(2, 2)", b"(9999999999, 2)").replace(b"'shape'", b"'shape'")
        with pytest.raises(DataError, match=r"^a: (9,999,999,999 frames, more than the limit|a damaged)"):
            read_npy(data, "a")
        with pytest.raises(DataError, match="3 features a frame, more than the limit of 2"):
            read_npy(npy(np.zeros((2, 3), "f4")), "a", ArrayLimits(features=2))

    def test_truncated(self):
        data = npy(FRAMES.astype("f4"))
        for end in (3, 9, 40, len(data) - 1):
            with pytest.raises(DataError, match=r"^a: a damaged \.npy file"):
                read_npy(data[:end], "a")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_values_that_are_not_finite(self, value):
        array = FRAMES.astype("f4")
        array[4, 2] = value
        with pytest.raises(DataError, match=rf"^a: frame 5, feature 3 is {value}, expected a finite number$"):
            read_npy(npy(array), "a")

    def test_another_width(self):
        with pytest.raises(DataError, match=r"^a: 5 features a frame, expected 6$"):
            check_frames(FRAMES, "a", 6)
        assert check_frames(FRAMES, "a", 5) is FRAMES

    @given(st.data())
    def test_any_damage_gives_frames_or_one_line(self, draw):
        data = bytearray(npy(FRAMES.astype("f2")))
        for _ in range(draw.draw(st.integers(1, 6))):
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
        try:
            read_npy(bytes(data), "a")
        except DataError as error:
            assert "\n" not in str(error)


class TestSound:
    def test_log_mel_frames_equal_the_literal_sum(self):
        samples = np.random.default_rng(5).normal(size=211)
        frames = log_mel(samples, 2000, bands=7)
        expected = oracle.log_mel(samples.tolist(), 2000, bands=7)
        assert frames.shape == (9, 7)
        assert np.allclose(frames, expected, atol=1e-5)

    def test_blocks_of_windows_equal_all_at_once(self, monkeypatch):
        samples = np.random.default_rng(5).normal(size=900)
        whole = log_mel(samples, 2000)
        monkeypatch.setattr("weft.data.arrays.frames._BLOCK_FRAMES", 3)
        assert np.array_equal(log_mel(samples, 2000), whole)

    def test_a_tone_is_loudest_in_its_band(self):
        samples = np.sin(2 * np.pi * 1000 * np.arange(1600) / 16_000)
        bands = log_mel(samples, 16_000).argmax(1)
        mel = 2595 * math.log10(1 + 1000 / 700)
        highest = 2595 * math.log10(1 + 8000 / 700)
        assert set(bands.tolist()) <= {round(mel / highest * (BANDS + 1)) - 1 + step for step in (-1, 0, 1)}

    @pytest.mark.parametrize("width", [1, 2, 3, 4])
    def test_widths_of_samples(self, width):
        samples = 0.5 * np.sin(np.arange(800) / 7)
        if width == 1:
            content = (samples * 128 + 128).round().astype(np.uint8).tobytes()
        else:
            whole = (samples * (1 << 31)).astype("<i4")
            content = np.ascontiguousarray(whole.view(np.uint8).reshape(-1, 4)[:, 4 - width :]).tobytes()
        frames = read_wav(wav(content, width=width), "a.wav")
        assert frames.shape == (8, BANDS) and frames.dtype == np.float32
        loudest = log_mel(samples, 8000).max(1)
        assert np.allclose(frames.max(1), loudest, atol=0.05)

    def test_channels_are_averaged(self):
        left, right = np.random.default_rng(2).integers(-9000, 9000, (2, 800)).astype("<i2")
        stereo = read_wav(wav(np.stack([left, right], 1).tobytes(), channels=2), "a")
        assert np.allclose(stereo, log_mel((left / 32768 + right / 32768) / 2, 8000), atol=1e-3)

    def test_too_short_too_long_damaged(self):
        with pytest.raises(DataError, match=r"^a: 3 samples of sound, less than a window of 25 ms$"):
            read_wav(wav(bytes(6)), "a")
        with pytest.raises(DataError, match=r"^a: 100 frames, more than the limit of 9; cut it into parts$"):
            read_wav(wav(bytes(16_000)), "a", ArrayLimits(frames=9))
        for data in (b"RIFF\0\0\0\0WAVE", b"RIFF", wav(bytes(1600))[:30], wav(b"").replace(b"\1\0\1\0", b"\x55\0\1\0")):
            with pytest.raises(DataError, match=r"^a: (a WAV file that cannot be read|0 samples)"):
                read_wav(data, "a")


@pytest.mark.parametrize("bits", [40, 64, 128])
def test_samples_of_more_than_32_bits(bits):
    data = bytearray(wav(bytes(1600), width=4))
    data[34:36] = bits.to_bytes(2, "little")
    with pytest.raises(DataError, match=rf"^a\.wav: samples of {bits} bits; expected PCM of 8 to 32 bits$"):
        read_wav(bytes(data), "a.wav")


def test_normalized_frames_are_finite_whatever_their_size():
    frames = normalized(np.array([[3e38, 1], [3e38, 1], [-3e38, 1]], np.float32))
    assert np.allclose(frames, [[0.5**0.5, 0], [0.5**0.5, 0], [-(2**0.5), 0]], atol=1e-3)
