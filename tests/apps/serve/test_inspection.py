"""Tokens, embeddings and positions of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from apps.serve.servers import Running
from weft.models.positions import sinusoids


def test_tokens(running: Running) -> None:
    found = running.client.get("/api/models/recurrent/tokens", params={"text": "a b"}).json()
    assert found["tokens"] == ["a", "b"] and len(found["ids"]) == 2


def test_neighbors(running: Running, recurrent_run: Path) -> None:
    translator = weft.load(recurrent_run, device="cpu")
    weight_VE = translator.model.target_embedding.weight_VE
    found = running.client.get("/api/models/recurrent/neighbors?token=a&side=target&count=3").json()
    cosines = torch.cosine_similarity(weight_VE, weight_VE[found["id"]][None], dim=-1)
    cosines[found["id"]] = -2.0
    assert [one["id"] for one in found["neighbors"]] == cosines.topk(3).indices.tolist()
    assert [one["cosine"] for one in found["neighbors"]] == pytest.approx(cosines.topk(3).values.tolist(), abs=1e-5)
    by_id = running.client.get(f"/api/models/recurrent/neighbors?id={found['id']}&side=target&count=3").json()
    assert by_id == found
    assert "is not in the vocabulary" in running.error(404, "/api/models/recurrent/neighbors?token=zz")
    assert "the ids 0 to 7" in running.error(422, "/api/models/recurrent/neighbors?id=99")
    assert "name a token" in running.error(422, "/api/models/recurrent/neighbors")


def test_positions(running: Running) -> None:
    found = running.client.get("/api/models/transformer/positions?length=5").json()
    assert found["kind"] == "sinusoidal" and found["side"] == "encoder"
    assert torch.tensor(found["matrix"]).double() == pytest.approx(sinusoids(5, 16).numpy(), abs=1e-5)
    assert "it has no positions" in running.error(404, "/api/models/recurrent/positions")
    assert running.error(422, "/api/models/transformer/positions?length=0")
