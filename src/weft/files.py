"""Files: written so that a reader finds the old one or the new one, and read within limits.

`read_bounded` and `read_json` are for files that may come from a stranger: a file larger than a limit, a device or a
pipe is refused before it is read, and JSON of any content gives a value or an error of one line.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path
from typing import Any, BinaryIO

from weft.errors import CheckpointError, WeftError

MAX_JSON_BYTES = 16 << 20
"""The largest JSON file that `read_json` reads by default; those of a run folder have a few kilobytes."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when the block ends well: aside, to the disk, renamed."""
    path = Path(path)
    if not path.name:
        raise IsADirectoryError(EISDIR, "is a folder, expected a file", str(path))
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        aside.unlink(missing_ok=True)
        with aside.open("xb") as file:  # never through a link
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        if error.filename is None or str(error.filename) != str(aside):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # of the file that was asked for
    finally:
        aside.unlink(missing_ok=True)


def save_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing(path) as file:
        file.write(content.encode("utf-8"))


def cache_folder() -> Path | None:
    """Where weft may keep files that can be made again: WEFT_CACHE, $XDG_CACHE_HOME/weft or ~/.cache/weft, if any."""
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
    """The value of JSON text; ``error`` for everything that is no JSON, is nested too deeply or has a huge number."""
    try:
        return json.loads(content.decode("utf-8") if isinstance(content, bytes) else content)
    except RecursionError:
        raise error(f"{where}: damaged; its JSON is nested too deeply") from None
    except json.JSONDecodeError as reason:
        at = f"line {reason.lineno}, column {reason.colno}"
        raise error(f"{where}: damaged; it is not valid JSON ({at})") from None
    except UnicodeDecodeError:
        raise error(f"{where}: damaged; it is not valid JSON (it is not UTF-8)") from None
    except ValueError:  # more digits than Python converts
        raise error(f"{where}: damaged; its JSON has a number with too many digits") from None
