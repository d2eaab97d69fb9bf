"""Finds the packed data sets, which are not part of the repository."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A data set's folder by name: unpacked or packed (NAME.tar.xz) in $WEFT_DATA, or in ../shared/data."""

    def find(name: str) -> Path:
        here = os.environ.get("WEFT_DATA")
        places = [Path(here)] if here else [Path(__file__).parents[3] / "shared" / "data"]
        for place in places:
            if (place / name).is_dir():
                return place / name
            if (place / f"{name}.tar.xz").is_file():
                out = tmp_path_factory.mktemp("data")
                with tarfile.open(place / f"{name}.tar.xz") as packed:
                    packed.extractall(out, filter="data")
                return out / name
        pytest.skip(f"no data set {name!r} in {places[0]}; set WEFT_DATA to the folder that holds it")

    return find
