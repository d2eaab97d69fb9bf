"""Imported models against the originals: tiny random models of the real classes, saved by transformers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from fixtures import pretrained_models, pretrained_tokenizers
from fixtures.pretrained_models import KINDS
from weft.interop.huggingface.configuration import Configuration
from weft.interop.huggingface.importing import _class_name
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model
from weft.ragged import Ragged
from weft.recipe import load_recipe, make_recipe
from weft.runs.load import LoadedRun, load_run
from weft.translation.engines.interface import TranslationRequest
from weft.translation.engines.torch import TorchEngine

pytest.importorskip("transformers")
LENGTHS = (3, 11, 1, 7, 40)
LONGEST = 24


class Imported(NamedTuple):
    """An original and the run that was made of it."""

    original: Any
    run: LoadedRun
    rows: int
    early_stopping: bool
    """Of the beams that are compared: different for neighbors in the table of kinds."""

    def theirs(self, ids: list[int]) -> list[int]:
        """Ids of the original; both sides of these models have one vocabulary."""
        order = self.run.tokenizers.source.external_ids
        return [order[id] for id in ids]

    def own(self, id: int) -> int:
        """Weft's id of an id of the original."""
        return self.run.tokenizers.source.external_ids.index(id)

    def padded(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows as transformers reads them, and their mask."""
        longest = max(map(len, rows))
        padding = self.original.config.pad_token_id
        ids = [[*self.theirs(row), *[padding] * (longest - len(row))] for row in rows]
        mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
        return torch.tensor(ids), torch.tensor(mask)

    def draw(self, lengths: list[int], seed: int) -> list[list[int]]:
        """Random ids, without the padding token: where it stands in a text, M2M100 counts no position."""
        rng, padding = random.Random(seed), self.own(self.original.config.pad_token_id)
        ids = [id for id in range(3, self.rows) if id != padding]
        return [rng.choices(ids, k=length) for length in lengths]


@pytest.fixture(scope="module", params=KINDS)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    folder = tmp_path_factory.mktemp("imported")
    kind = KINDS[request.param]
    original = pretrained_models.make(request.param, folder / "original", end=3.0)
    run = import_model(folder / "original", folder / "run", ImportOptions(*kind.languages))
    return Imported(original, load_run(run), kind.rows, early_stopping=[*KINDS].index(request.param) % 2 == 1)


@torch.no_grad()
def test_log_probabilities(imported: Imported) -> None:
    """Of every token, in a batch of sources and targets of different lengths."""
    frame = imported.run.tokenizers.frame
    sources = [frame.source(ids) for ids in imported.draw([*LENGTHS], seed=3)]
    targets = [[*frame.start, *ids] for ids in imported.draw([*reversed(LENGTHS)], seed=4)]
    ours_NV = imported.run.model.eval()(Ragged.of(sources), Ragged.of(targets)).logits_NV.log_softmax(-1)
    ids, mask = imported.padded(sources)
    inputs, _ = imported.padded(targets)
    logits = imported.original(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs).logits
    rows = [row[: len(target)] for row, target in zip(logits.log_softmax(-1), targets, strict=True)]
    theirs_NV = torch.cat(rows)[:, torch.tensor(imported.run.tokenizers.target.external_ids)]
    torch.testing.assert_close(ours_NV, theirs_NV, rtol=0, atol=1e-5)


def test_beams_of_five(imported: Imported) -> None:
    """What `generate` finds for 50 sources, with one of its rules of stopping for each kind of model.

    There, an output that is cut off competes with the finished ones; here it comes after them: where that makes a
    difference, nothing is compared. There, the length counts a language token before the target; here it does not.
    """
    frame, original = imported.run.tokenizers.frame, imported.original
    early_stopping = imported.early_stopping
    stop = "finished" if early_stopping else "outranked_by_all"
    rng = random.Random(5)
    sources = [frame.source(ids) for ids in imported.draw([rng.randint(1, 15) for _ in range(50)], seed=6)]
    ids, mask = imported.padded(sources)
    start, end = imported.theirs([*frame.start]), original.config.eos_token_id
    padding = original.config.pad_token_id
    penalty = 0.0 if frame.target_before else 1.0
    with torch.no_grad():
        rows = original.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=5,
            do_sample=False,
            early_stopping=early_stopping,
            length_penalty=penalty,
            max_new_tokens=LONGEST + len(frame.target_before),
            decoder_start_token_id=start[0],
            forced_bos_token_id=start[1] if len(start) > 1 else None,
            forced_eos_token_id=None,
            bad_words_ids=[[padding]],
        ).tolist()
    search = {"kind": "beam", "size": 5, "stop": stop, "length_penalty": penalty, "no_loops": False}
    search |= {"max_length": LONGEST, "banned_ids": [[imported.own(padding)]]}
    engine = TorchEngine(imported.run.model, imported.run.tokenizers.target)
    settings = make_recipe({"search": search}).search
    found = engine.search(TranslationRequest(sources=sources, settings=settings, frame=frame))
    compared = 0
    for row, (best, *_) in zip(rows, found, strict=True):
        theirs = row[len(start) :]
        if (end in theirs) == (best.ended == "end"):
            compared += 1
            assert imported.theirs(best.tokens) == (theirs[: theirs.index(end)] if end in theirs else theirs[:LONGEST])
    assert compared >= 25


OPTIONAL = ("dropout", "dropout_rate", "attention_dropout", "activation_dropout", "scale_embedding")
OPTIONAL += ("layer_norm_epsilon", "relative_attention_num_buckets", "relative_attention_max_distance")
DEFAULTS: dict[str, dict[str, Any]] = {
    "marian": {"attention_dropout": 0.0, "activation_dropout": 0.0, "scale_embedding": False},
    "t5": {"norm_epsilon": 1e-6, "relative_buckets": 32, "relative_max_distance": 128, "activation_dropout": 0.1},
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_entries_that_are_left_out(kind: str, tmp_path: Path) -> None:
    """An older config.json has only what differs from the defaults of its class."""
    pretrained_models.make(kind, tmp_path / "original")
    path = tmp_path / "original" / "config.json"
    values = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({name: value for name, value in values.items() if name not in OPTIONAL}), "utf-8")
    model = load_recipe(import_model(tmp_path / "original", tmp_path / "run") / "recipe.toml").model
    assert model.dropout == 0.1
    for stack in (model.encoder, model.decoder):
        assert {name: getattr(stack, name) for name in DEFAULTS[kind]} == DEFAULTS[kind]


@pytest.mark.parametrize("padding", [0, 1])
def test_positions_begin_after_the_padding_token(padding: int, tmp_path: Path) -> None:
    """In M2M100, as in fairseq."""
    pretrained_models.make("m2m100", tmp_path / "original")
    path = tmp_path / "original" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "pad_token_id": padding}), "utf-8")
    run = import_model(tmp_path / "original", tmp_path / "run", ImportOptions("en", "fr"))
    model = load_recipe(run / "recipe.toml").model
    assert [stack.first_position for stack in (model.encoder, model.decoder)] == [padding + 1] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "started"), [("marian", 1), ("nllb", 2)])
def test_lengths_of_generation(kind: str, started: int, tmp_path: Path) -> None:
    """Less the tokens that a decoder starts with: the start token, and a language."""
    pretrained_models.make(kind, tmp_path / "original")
    path = tmp_path / "original" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_length": 20, "min_length": 5}))
    run = import_model(tmp_path / "original", tmp_path / "run", ImportOptions(*KINDS[kind].languages))
    search = load_recipe(run / "recipe.toml").search
    assert (search.max_length, search.min_length) == (20 - started, 5 - started)


@torch.no_grad()
def test_two_vocabularies(tmp_path: Path) -> None:
    """Marian with a vocabulary for each side: different sizes, and different ids of the padding token."""
    import transformers

    folder = pretrained_tokenizers.opus_mt(tmp_path / "original", separate=True)
    vocabularies = [json.loads((folder / name).read_text("utf-8")) for name in ("vocab.json", "target_vocab.json")]
    sizes = [len(vocabulary) for vocabulary in vocabularies]
    padding = vocabularies[1]["<pad>"]
    assert sizes[0] > sizes[1] == padding + 1
    config = {**pretrained_models.SMALL_BART, "vocab_size": sizes[0], "decoder_vocab_size": sizes[1], "eos_token_id": 0}
    config |= {"pad_token_id": padding, "decoder_start_token_id": padding, "share_encoder_decoder_embeddings": False}
    torch.manual_seed(3)
    original = transformers.MarianMTModel(transformers.MarianConfig(**config)).eval()
    original.save_pretrained(folder)
    run = load_run(import_model(folder, tmp_path / "run"))
    assert [tokenizer.size for tokenizer in run.tokenizers] == sizes
    source = run.tokenizers.frame.source(run.tokenizers.source.encode("the old king reads"))
    target = [*run.tokenizers.frame.start, *run.tokenizers.target.encode("le vieux roi")]
    theirs = [
        [tokenizer.external_ids[id] for id in ids]
        for tokenizer, ids in zip(run.tokenizers, (source, target), strict=True)
    ]
    assert theirs[0][-1] == 0 and theirs[1][0] == padding
    ours_NV = run.model.eval()(Ragged.of([source]), Ragged.of([target])).logits_NV.log_softmax(-1)
    ids, inputs = (torch.tensor([ids]) for ids in theirs)
    logits = original(input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=inputs).logits[0]
    theirs_NV = logits.log_softmax(-1)[:, torch.tensor(run.tokenizers.target.external_ids)]
    torch.testing.assert_close(ours_NV, theirs_NV, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("architectures", "name"), [(["T5Model", "Other"], "T5Model"), ([], "t5"), (None, "t5"), ("T5Model", "t5")]
)
def test_the_name_of_a_class(architectures: Any, name: str) -> None:
    config = Configuration({"model_type": "t5", "architectures": architectures}, "config.json")
    assert _class_name(SimpleNamespace(config=config)) == name  # type: ignore[arg-type]
