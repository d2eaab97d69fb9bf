"""Tiny runs, and a service that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.serve.servers import Running, running_server, settings
from weft.apps.serve import create_app
from weft.training.train import train

LEARNING = {
    "data.options.length": 4,
    "data.options.symbols": 5,
    "data.train_size": 300,
    "model.dropout": 0.0,
    "training.steps": 20,
    "training.batch_tokens": 256,
    "training.learning_rate": 0.03,
    "training.validate_every": 10,
    "training.warmup": 10,
    "serve.source": "aa",
}
STACK = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "feed_forward": 16}


@pytest.fixture(scope="session")
def recurrent_run(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recurrent model with attention."""
    path = tmp_path_factory.mktemp("served") / "recurrent"
    assert list(train(tiny({**LEARNING, "serve.target": "bb"}), path))
    return path


@pytest.fixture(scope="session")
def transformer_run(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "transformer"
    stacks = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
    assert list(train(tiny({**LEARNING, **stacks, "model.embedding": 16}), path))
    return path


@pytest.fixture(scope="session")
def running(recurrent_run: Path, transformer_run: Path) -> Iterator[Running]:
    """A service with both, under the names "recurrent" and "transformer"."""
    with running_server(create_app([recurrent_run, transformer_run], settings())) as server:
        yield server


@pytest.fixture(scope="session")
def url(running: Running) -> str:
    return running.url
