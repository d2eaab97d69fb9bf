"""API keys. A key file holds a line for each: the SHA-256 of the key, and a name. The keys themselves are not stored.

    sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  the web site

Keys are random (`new_key`), so that a fast hash without salt suffices.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

from weft.errors import DataError
from weft.files import read_bounded, save_text

LINE = re.compile(r"sha256:([0-9a-f]{64})(?:\s+(\S.*))?")
MAX_BYTES = 1 << 20


def digest(key: str) -> str:
    """The hash of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """The hashes of the keys that are accepted, and their names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The keys of a file; at least one."""
        try:
            content = read_bounded(path, max_bytes=MAX_BYTES, error=DataError).decode("utf-8")
        except FileNotFoundError:
            raise DataError(
                f"{path}: no such file; make a key with `weft serve --new-key NAME --key-file {path}`"
            ) from None
        except UnicodeDecodeError:
            raise DataError(f"{path}: not UTF-8; expected a line 'sha256:HASH NAME' for each key") from None
        names: dict[str, str] = {}
        for number, line in enumerate(content.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = LINE.fullmatch(line.strip())
            if match is None:
                raise DataError(
                    f"{path}:{number}: not the hash of a key; make a key with `weft serve --new-key NAME "
                    f"--key-file {path}`"
                )
            names[match[1]] = match[2] or f"line {number}"
        if not names:
            raise DataError(f"{path}: no keys; make one with `weft serve --new-key NAME --key-file {path}`")
        return cls(names)

    def client(self, key: str) -> str | None:
        """The hash that identifies the owner of a key; None if the key is not accepted."""
        hashed = digest(key)
        return hashed if hashed in self.names else None


def new_key(path: Path, name: str) -> str:
    """A new key, whose hash is added to a file; the key is not stored anywhere."""
    name = " ".join(name.split())
    if not name:
        raise DataError("--new-key: the name is empty; name the key after who will use it")
    known = path.read_text("utf-8") if path.exists() else ""
    if known:
        Keys.read(path)
    key = secrets.token_urlsafe(24)
    separator = "\n" if known and not known.endswith("\n") else ""
    mode = path.stat().st_mode & 0o777 if known else 0o600  # what its owner has chosen stays
    save_text(path, f"{known}{separator}sha256:{digest(key)}  {name}\n")
    path.chmod(mode)
    return key
