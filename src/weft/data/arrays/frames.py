"""Frames: sequences of feature vectors, time × features, from .npy and .npz files and from sound.

A .npy file holds float16, float32 or uint8; an .npz file holds one such array, or several that are named as members of
an archive (`weft.data.arrays.files`). Objects (pickle) are never loaded: the header is parsed as a literal, the values
are the bytes behind it. Values that are not finite are refused.

Sound (WAV, PCM of 8 to 32 bits, channels averaged) becomes log-mel frames:

    X_tk = |Σ_n h_n x_(t·hop + n) e^(−2πi k n / K)|²             power of a window of 25 ms, every 10 ms; h: Hann
    m_tb = log max(10⁻¹⁰, Σ_k F_bk X_tk)                         F: triangles that are equally wide on the mel scale
    mel(f) = 2595 log₁₀(1 + f / 700)                             O'Shaughnessy 1987; Davis & Mermelstein 1980

The bands cover 0 to 8,000 Hz whatever the sampling rate, so that recordings of several rates have comparable frames;
bands above half the rate are silent.
"""

from __future__ import annotations

import ast
import wave
from functools import lru_cache
from io import BytesIO

import numpy as np

from weft.data.arrays.limits import DEFAULT_LIMITS, ArrayLimits
from weft.errors import DataError, plural

SUFFIXES = (".npy", ".npz", ".wav")
"""Endings of names of frames and sound."""
DTYPES = ("float16", "float32", "uint8")
MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 4096
BANDS = 80
WINDOW_SECONDS, HOP_SECONDS = 0.025, 0.010
HIGHEST_HERTZ = 8000.0
FLOOR = 1e-10
"""The smallest power of a band: log 10⁻¹⁰ = −23."""
_BLOCK_FRAMES = 1024
"""Windows whose spectra are computed at a time: memory is that of the samples, not of all windows."""


def read_npy(data: bytes, name: str, limits: ArrayLimits = DEFAULT_LIMITS) -> np.ndarray:
    """The frames in the bytes of a .npy file: (time, features), float16, float32 or uint8."""
    dtype, is_fortran, shape, start = _header(data, name)
    if dtype.newbyteorder("=").name not in DTYPES:
        raise DataError(f"{name}: an array of {dtype.name}; expected {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")
    if len(shape) != 2 or 0 in shape:
        sizes = " × ".join(map(str, shape)) or "no axes"
        raise DataError(f"{name}: an array of {sizes}; expected time × features, both at least 1")
    limits.check_frames(name, *shape)
    if len(data) - start != shape[0] * shape[1] * dtype.itemsize:
        raise DataError(f"{name}: a damaged .npy file; its header says {shape[0]} × {shape[1]}, its size differs")
    frames = np.frombuffer(data, dtype, offset=start)
    frames = frames.reshape(shape[::-1]).T if is_fortran else frames.reshape(shape)
    return check_frames(np.ascontiguousarray(frames, dtype=dtype.newbyteorder("=")), name)


def check_frames(frames: np.ndarray, name: str, features: int | None = None) -> np.ndarray:
    """The frames, if all values are finite and, where it is given, if a frame has this many features."""
    if features is not None and frames.shape[1] != features:
        raise DataError(f"{name}: {plural(frames.shape[1], 'feature')} a frame, expected {features}")
    if frames.dtype.kind == "f" and not np.isfinite(frames).all():
        time, feature = (int(index) for index in np.argwhere(~np.isfinite(frames))[0])
        value = frames[time, feature]
        raise DataError(f"{name}: frame {time + 1}, feature {feature + 1} is {value}, expected a finite number")
    return frames


def normalized(frames: np.ndarray) -> np.ndarray:
    """Each feature with mean 0 and deviation 1 over the frames, in float16; bytes as they are: they have a range."""
    if frames.dtype == np.uint8:
        return frames
    values = frames.astype(np.float64)  # in which the sum of the largest finite values is finite
    centered = values - values.mean(0)
    return (centered / (values.std(0) + 1e-3)).astype(np.float16)


def read_wav(data: bytes, name: str, limits: ArrayLimits = DEFAULT_LIMITS) -> np.ndarray:
    """The log-mel frames of the sound in the bytes of a WAV file: (time, `BANDS`), float32."""
    try:
        with wave.open(BytesIO(data)) as sound:
            rate, channels, width = sound.getframerate(), sound.getnchannels(), sound.getsampwidth()
            content = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or "it ends too early"
        raise DataError(f"{name}: a WAV file that cannot be read ({reason}); expected PCM of 8 to 32 bits") from None
    if width > 4:
        raise DataError(f"{name}: samples of {8 * width} bits; expected PCM of 8 to 32 bits")
    if not 1000 <= rate <= 1_000_000 or not channels:
        raise DataError(f"{name}: sound of {rate:,} samples a second; expected 1,000 to 1,000,000")
    content = content[: len(content) // (width * channels) * width * channels]
    limits.check_frames(name, int(len(content) / (width * channels) / rate / HOP_SECONDS), BANDS)
    samples = _samples(content, width).reshape(-1, channels).mean(1)
    if len(samples) < round(WINDOW_SECONDS * rate):
        raise DataError(f"{name}: {plural(len(samples), 'sample')} of sound, less than a window of 25 ms")
    return log_mel(samples, rate)


def log_mel(samples: np.ndarray, rate: int, *, bands: int = BANDS) -> np.ndarray:
    """m_tb = log max(10⁻¹⁰, Σ_k F_bk |X_tk|²): (time, bands), float32, of samples from −1 to 1."""
    window, hop = round(WINDOW_SECONDS * rate), round(HOP_SECONDS * rate)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    size = 1 << (window - 1).bit_length()
    filters_bk = mel_filters(rate, size, bands)
    windows = np.lib.stride_tricks.sliding_window_view(samples, window)[::hop]
    blocks = []
    for start in range(0, len(windows), _BLOCK_FRAMES):
        power = np.abs(np.fft.rfft(windows[start : start + _BLOCK_FRAMES] * hann, size)) ** 2
        blocks.append(np.log(np.maximum(power @ filters_bk.T, FLOOR)).astype(np.float32))
    return np.concatenate(blocks)


@lru_cache(maxsize=16)
def mel_filters(rate: int, size: int, bands: int) -> np.ndarray:
    """F_bk: the triangle of band b at frequency k · rate / size: it rises from the peak of b − 1 and falls to b + 1."""
    highest = 2595 * np.log10(1 + HIGHEST_HERTZ / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, bands + 2) / 2595) - 1)
    hertz = np.arange(size // 2 + 1) * rate / size
    low, peak, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters: np.ndarray = np.maximum(0, np.minimum((hertz - low) / (peak - low), (high - hertz) / (high - peak)))
    return filters


def _samples(content: bytes, width: int) -> np.ndarray:
    """Samples from −1 to 1, of PCM with this many bytes a sample; those of one byte are unsigned."""
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        padded = np.zeros((len(content) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        return padded.view("<i4")[:, 0].astype(np.float32) / (1 << 31)
    return np.frombuffer(content, f"<i{width}").astype(np.float32) / (1 << 8 * width - 1)


def _header(data: bytes, name: str) -> tuple[np.dtype, bool, tuple[int, ...], int]:
    """The type, order and shape in the header of a .npy file, and where its values begin."""
    damaged = DataError(f"{name}: a damaged .npy file; its header cannot be read")
    length_bytes = 2 if data[6:7] == b"\x01" else 4
    start = 8 + length_bytes
    length = int.from_bytes(data[8:start], "little")
    if not data.startswith(MAGIC) or data[6:7] not in (b"\x01", b"\x02", b"\x03") or length > MAX_HEADER_BYTES:
        raise damaged
    try:
        header = ast.literal_eval(data[start : start + length].decode("utf-8").strip())
        description, is_fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        if isinstance(description, str) and description.lstrip("|<>=").startswith("O"):
            raise DataError(f"{name}: an array of Python objects, which are never loaded; expected {', '.join(DTYPES)}")
        dtype = np.dtype(description) if isinstance(description, str) else None
    except DataError:
        raise
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise damaged from None
    sizes_are_valid = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if dtype is None or not sizes_are_valid or not isinstance(is_fortran, bool):
        raise damaged
    return dtype, is_fortran, shape, start + length
