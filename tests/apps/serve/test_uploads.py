"""Pictures by HTTP: as data URLs and as forms, with their attention; what is wrong is refused before it is decoded."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from apps.serve.servers import Running, running_server, settings
from fixtures.kinds_of_pictures import formulas, frames, write_table
from weft.apps.serve import create_app
from weft.apps.serve.errors import ServiceError
from weft.apps.serve.uploads import body_of_form, form_fields
from weft.data.arrays.png import png_bytes
from weft.recipe import make_recipe
from weft.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")

GRU = {
    f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in (("kind", "gru"), ("hidden", 8))
}
COMMON = {
    **{"tokenizer.joint": False, "model.embedding": 8, "model.stem.widths": [2, 3], "training.steps": 2},
    **{"training.batch_tokens": 20_000, "training.validate_every": 0, "training.device": "cpu"},
    **{"data.options": {}, "serve.examples": False},
}
RUNS: dict[str, dict[str, Any]] = {
    "formulas": {
        "tokenizer.kind": "picture",
        "tokenizer.target_kind": "word",
        "model.stem.kind": "grid",
        "tokenizer.split_punctuation": False,
        **GRU,
    },
    "lines": {"tokenizer.kind": "picture", "tokenizer.target_kind": "character", "model.stem.kind": "columns"},
    "frames": {"tokenizer.kind": "frames", "tokenizer.target_kind": "character", "model.stem.kind": "frames", **GRU},
}
RUNS["lines"] |= {"model.kind": "ctc", "model.encoder.kind": "lstm", "model.encoder.hidden": 8}
RUNS["frames"] |= {"tokenizer.channels": 24, "model.stem.inputs": 24}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that read formulas, lines and frames."""
    folder = tmp_path_factory.mktemp("pictures")
    for name, changes in RUNS.items():
        table = write_table(folder / "data" / name, (frames if name == "frames" else formulas)(12))
        values = {**COMMON, **changes, "data.train": str(table), "name": name}
        values.pop("data.options")
        assert list(
            train(make_recipe({}, [f"{key}={json.dumps(value)}" for key, value in values.items()]), folder / name)
        )
    return folder


@pytest.fixture(scope="module")
def reading(folder: Path) -> Iterator[Running]:
    with running_server(create_app([folder / name for name in RUNS], settings(max_body=200_000))) as server:
        yield server


def url_of(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@pytest.fixture(scope="module")
def picture(folder: Path) -> bytes:
    return (folder / "data/formulas/pictures/0.png").read_bytes()


def form(running: Running, files: Any, path: str = "/api/translate", **fields: Any) -> Any:
    return running.client.post(path, files=files, data=fields)


def test_a_data_url_and_a_form_are_read_like_the_file(reading: Running, folder: Path, picture: bytes) -> None:
    expected = weft.load(folder / "formulas", device="cpu").translate(str(folder / "data/formulas/pictures/0.png"))
    [as_url] = reading.translate(url_of(picture), model="formulas")
    response = form(reading, {"file": ("a.png", picture)}, model="formulas", n_best="2", search='{"size": 2}')
    assert response.status_code == 200, response.text
    [uploaded] = response.json()["translations"]
    assert as_url["text"] == expected.text and as_url["score"] == pytest.approx(expected.score, abs=1e-4)
    assert len(uploaded["alternatives"]) == 1
    assert len(as_url["source"]) < 80 and as_url["source"].endswith("…")
    two = form(reading, [("file", ("a.png", picture)), ("file", ("b.png", picture))], model="formulas")
    assert [record["text"] for record in two.json()["translations"]] == [expected.text] * 2


@pytest.mark.parametrize("model", ["formulas", "lines"])
def test_attention_comes_with_the_picture_and_its_cells(reading: Running, picture: bytes, model: str) -> None:
    search = {"kind": "greedy", "max_length": 3, "min_length": 2} if model == "formulas" else {}
    [record] = reading.translate(url_of(picture), model=model, attention=True, search=search)
    assert set(record) >= {"picture", "attention"}
    if not record["tokens"]:
        assert record["picture"] is None
        return
    shown = record["picture"]
    assert shown["address"].startswith("data:image/png;base64,")
    assert {len(row) for row in record["attention"]} == {shown["rows"] * shown["columns"]}
    assert shown["rows"] == -(-shown["height"] // shown["cell"][0])
    assert shown["columns"] == -(-shown["width"] // shown["cell"][1])


def test_formulas_are_sent_as_mathml(reading: Running, folder: Path, picture: bytes) -> None:
    target = (folder / "data/formulas/pairs.tsv").read_text().splitlines()[0].split("\t")[1]
    search = {"kind": "greedy", "max_length": len(target.split())}
    [record] = reading.translate(url_of(picture), model="formulas", prefix=target, search=search)
    assert record["text"].startswith(target) and record["mathml"].startswith("<math")


def test_frames_are_read_and_streamed(reading: Running, folder: Path) -> None:
    path = next((folder / "data/frames/frames").glob("*.npy"))
    assert form(reading, {"file": ("a.npy", path.read_bytes())}, model="frames").status_code == 200
    response = form(reading, {"file": ("a.npy", path.read_bytes())}, "/api/translate/stream", model="frames")
    assert response.status_code == 200 and "event: done" in response.text
    refused = form(reading, {"file": ("a.png", png_bytes(np.zeros((4, 4), np.uint8)))}, model="frames")
    assert refused.status_code == 422 and "a picture, expected frames or sound" in refused.json()["error"]


def bomb(width: int, height: int) -> bytes:
    """A PNG that claims to be large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (bomb(100_000, 100_000), "100,000 × 100,000 pixels"),
        (b"", "empty"),
        (b"not a picture at all", "not a picture"),
        (b"PK\x03\x04" + bytes(50), "archive"),
    ],
)
def test_hostile_files_are_refused_before_they_are_decoded(reading: Running, content: bytes, problem: str) -> None:
    response = form(reading, {"file": ("a.png", content)}, model="formulas")
    assert response.status_code in (413, 422), response.text
    assert problem in response.json()["error"] and "\n" not in response.json()["error"]


def test_names_of_files_and_large_bodies_are_refused(reading: Running, folder: Path, picture: bytes) -> None:
    path = str(folder / "data/formulas/pictures/0.png")
    assert "names of files are not read here" in reading.error(422, "/api/translate", text=path, model="formulas")
    large = form(reading, {"file": ("a.png", picture + bytes(200_000))}, model="formulas")
    assert large.status_code == 413 and "200,000 bytes" in large.json()["error"]
    beside = form(reading, {"file": ("a.png", picture)}, text="a", model="formulas")
    assert beside.json() == {"error": "text: given beside files; send either"}
    wrong = form(reading, {"file": ("a.png", picture)}, model="formulas", search="{")
    assert wrong.status_code == 422 and "search" in wrong.json()["error"]


def test_the_models_say_what_they_read(reading: Running) -> None:
    models = reading.client.get("/api/models").json()["models"]
    assert {model["name"]: model["reads"] for model in models} == {
        "formulas": "picture",
        "lines": "picture",
        "frames": "frames",
    }


def test_forms() -> None:
    content = (
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
        b'--x\r\ncontent-disposition: form-data; name="f"; filename="a"\r\n'
        b"Content-Type: image/png\r\n\r\n\x00\r\n\xff\r\n--x--\r\n"
    )
    kind = 'multipart/form-data; boundary="x"'
    assert form_fields(kind, content) == [("model", False, b"m"), ("f", True, b"\x00\r\n\xff")]
    assert body_of_form(kind, content) == {"model": "m", "text": "data:application/octet-stream;base64,AA0K/w=="}


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("multipart/form-data", b"", "without a boundary"),
        ("multipart/form-data; boundary=x", b"", "it has no end"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nabc", "it has no end"),
        ("multipart/form-data; boundary=x", b"--x\r\na: b\r\n--x--", "a part without a head"),
        ("multipart/form-data; boundary=x", b"--x\r\na: b\r\n\r\nc\r\n--x--", "a part without a name"),
        ("multipart/form-data; boundary=x", b"--x\r\n" * 1_100 + b"\r\n--x--", "at most 1,000 are accepted"),
    ],
)
def test_damaged_forms(kind: str, content: bytes, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem) as error:
        form_fields(kind, content)
    assert error.value.status in (400, 413)
