"""Files: written so that a reader finds the old or the new version, read within limits, with checksums; JSON.

`read_bounded` and `read_json` are for files that may come from a stranger: a file larger than a limit, a device or a
pipe is refused before it is read, and JSON of any content gives a value or an error of one line.
Checksums (CRC-32) show damage when a file is opened; they do not protect against tampering.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EISDIR, ELOOP, ENXIO
from pathlib import Path
from typing import Any, BinaryIO

from weft.errors import CheckpointError, WeftError

MAX_JSON_BYTES = 16 << 20
"""The largest JSON file that `read_json` reads by default; those of a run folder have a few kilobytes."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file to write to, which is flushed to the disk and renamed to `path` when the block ends well.

    A temporary file that a killed process has left is overwritten by the next one. An error in writing names `path`.
    """
    path = Path(path)
    if not path.name:
        raise IsADirectoryError(EISDIR, "is a folder, expected a file", str(path))
    temporary = path
    try:
        temporary, handle = _open_temporary(path)
        with os.fdopen(handle, "wb") as file:
            try:
                yield file
                file.flush()
                os.fsync(handle)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)  # while it is locked
                raise
    except OSError as error:
        if error.errno is None or str(error.filename) not in (str(None), str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def _open_temporary(path: Path) -> tuple[Path, int]:
    """A new or abandoned file beside `path`, and its handle, locked: no other process writes to it."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno not in (ELOOP, EISDIR, ENXIO):  # a link, a folder or a pipe
            raise
    else:
        with suppress(OSError):  # another process writes to it, or the file system has no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), temporary.stat()):
                os.ftruncate(handle, 0)
                return temporary, handle
        os.close(handle)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{time.monotonic_ns()}.part")
    return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as file:
        file.write(content)


def save_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically."""
    save_bytes(path, content.encode("utf-8"))


def cache_folder() -> Path | None:
    """The folder for files that can be recreated: WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft, if any."""
    if given := os.environ.get("WEFT_CACHE"):
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "weft"
    try:
        return Path.home() / ".cache" / "weft"
    except RuntimeError:  # a user without a home
        return None


def read_bounded(path: Path | str, *, max_bytes: int, error: type[WeftError] = CheckpointError) -> bytes:
    """The bytes of a regular file of at most ``max_bytes``; OSError if it cannot be opened, ``error`` otherwise."""
    path = Path(path)
    if stat.S_ISDIR(mode := path.stat().st_mode):
        raise IsADirectoryError(EISDIR, "is a folder, expected a file", str(path))
    if not stat.S_ISREG(mode):  # opening a pipe waits for its writer, and a device may have no end
        raise error(f"{path}: not a regular file")
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise error(f"{path}: larger than {max_bytes:,} bytes, the limit for this kind of file")
    return content


def read_json(path: Path | str, *, max_bytes: int = MAX_JSON_BYTES, error: type[WeftError] = CheckpointError) -> Any:
    """The value of a JSON file; OSError if it cannot be opened, ``error`` if it is too large or damaged."""
    return parse_json(read_bounded(path, max_bytes=max_bytes, error=error), where=str(path), error=error)


def parse_json(content: bytes | str, *, where: str, error: type[WeftError] = CheckpointError) -> Any:
    """The value of JSON text; ``error`` if it is not JSON, is nested too deeply or has a huge number."""
    try:
        return json.loads(content.decode("utf-8") if isinstance(content, bytes) else content)
    except RecursionError:
        raise error(f"{where}: damaged; its JSON is nested too deeply") from None
    except json.JSONDecodeError as reason:
        raise error(f"{where}: damaged; it is not valid JSON (line {reason.lineno}, column {reason.colno})") from None
    except UnicodeDecodeError:
        raise error(f"{where}: damaged; it is not valid JSON (it is not UTF-8)") from None
    except ValueError:  # more digits than Python converts
        raise error(f"{where}: damaged; its JSON has a number with too many digits") from None


def file_version(path: Path | str) -> tuple[int, ...]:
    """A value that changes when a file does; empty if there is none."""
    try:
        state = Path(path).stat()
    except (OSError, ValueError):
        return ()
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
    finally:
        os.close(handle)


CHECKSUM = "crc32"
"""The key of a checksum in a JSON object, and in the metadata of a tensor file."""


def with_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with a checksum added, which `check_checksum` compares."""
    return {**content, CHECKSUM: _checksum(content)}


def check_checksum(content: dict[str, Any], *, where: str, error: type[WeftError] = CheckpointError) -> None:
    """Remove the checksum from a JSON object; ``error`` if it is not that of the rest. Older files have none."""
    if (checksum := content.pop(CHECKSUM, None)) is not None and checksum != _checksum(content):
        raise error(f"{where}: damaged (its content does not match its checksum); restore it from a copy")


def _checksum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def file_checksum(path: Path) -> str:
    """The CRC-32 of a file; about 3 GB a second."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{value:08x}"


def json_text(record: Any) -> str:
    """A record in one line; numbers that are not finite, such as log 0, are null."""
    return json.dumps(json_value(record), ensure_ascii=False)


def json_value(value: Any) -> Any:
    """The value as JSON has it: None for numbers that are not finite, lists for tuples, texts for names and paths."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    return [json_value(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def encoded_header(header: dict[str, Any]) -> bytes:
    """The header of a safetensors file, sorted: the library writes metadata in a random order."""
    encoded = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return encoded + b" " * (-len(encoded) % 8)
