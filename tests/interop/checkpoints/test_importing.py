"""From a checkpoint to a run that translates."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from fixtures import marian_models, toolkit_checkpoints, toolkit_models, toolkit_recurrent_models
from fixtures.toolkit_models import Shape, Transformer, interleaved
from fixtures.toolkit_recurrent_models import Recurrent
from weft.errors import WeftError
from weft.interop.imported_run import ImportOptions
from weft.interop.importing import import_model, run_name
from weft.runs.load import load_run
from weft.text.specials import BEGIN, END
from weft.translation.word_alignment import attention_view

OPENNMT = Shape(sizes=(23, 19), epsilon=1e-6, pre_norm=True, positions=interleaved, output_bias=True)


def test_fairseq(tmp_path: Path) -> None:
    original = Transformer(toolkit_models.FAIRSEQ)
    toolkit_checkpoints.save_fairseq(tmp_path / "original", toolkit_checkpoints.fairseq(original))
    run = load_run(import_model(tmp_path / "original", tmp_path / "run"))
    source, target = run.tokenizers
    assert [source.external_ids[id] for id in source.encode("w3 w0  w18")] == [7, 4, 22]
    assert target.decode(target.encode("v2 v1")) == "v2 v1"
    assert source.frame.source([5]) == [5, END] and source.frame.start == (END,)
    banned = [target.external_ids[id] for [id] in run.recipe.search.banned_ids]
    assert banned == [0, 1]
    assert "- texts: tokens separated by spaces" in (tmp_path / "run" / "README.md").read_text("utf-8")


def test_the_most_probable_translation_is_that_of_the_original(tmp_path: Path) -> None:
    """Greedy search over the literal model, and over the run."""
    original = Recurrent(toolkit_recurrent_models.FAIRSEQ)
    options = {"arch": "lstm", "encoder_embed_dim": 10, "decoder_embed_dim": 10, "encoder_hidden_size": 8}
    content = toolkit_checkpoints.fairseq(original, **options, decoder_layers=2)
    toolkit_checkpoints.save_fairseq(tmp_path / "original", content)
    run = weft.load(import_model(tmp_path / "original", tmp_path / "run"))
    text, ids = "w3 w0 w18 w7", [2]
    for _ in range(6):
        scores = original.log_probabilities([7, 4, 22, 11, 2], ids)[-1]
        scores[[0, 1]] = -1e9  # as the search of fairseq
        ids.append(int(scores.argmax()))
        if ids[-1] == 2:
            break
    words = [["<s>", "<pad>", "</s>", "⁇", *toolkit_checkpoints.TARGET][id] for id in ids[1:]]
    expected = " ".join(word for word in words if word != "</s>")
    assert run.translate(text, kind="greedy", max_length=6, no_loops=False).text == expected


def test_ctranslate2(tmp_path: Path) -> None:
    """A decoder that reads </s> first: the same outputs and alignment, by the heads that were trained to align."""
    pytest.importorskip("ctranslate2")
    changes = {"arch": "transformer_align", "alignment_layer": 1, "alignment_heads": 2}
    content = toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ), **changes)
    path = toolkit_checkpoints.save_fairseq(tmp_path, content)
    run = import_model(path, tmp_path / "run", ImportOptions(default_search=True))
    ours, theirs = (weft.load(run, engine=engine) for engine in ("torch", "ctranslate2"))
    options = {"stop": "finished", "no_loops": False, "max_length": 6, "size": 3}
    for text in ("w3 w0 w18", "w7", "w5 w5 w2 w11 w1"):
        one, other = ours.translate(text, **options), theirs.translate(text, **options)
        assert one.text == other.text and other.score == pytest.approx(one.score, abs=1e-4)
        assert one.attention is not None and other.attention == pytest.approx(one.attention, abs=1e-4)


def test_opennmt_without_special_tokens_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Transformer(toolkit_models.OPENNMT, OPENNMT._replace(sizes=(21, 19)))
    content = toolkit_checkpoints.with_fields(toolkit_checkpoints.opennmt(original), monkeypatch)
    torch.save(content, tmp_path / "model_step_10.pt")
    run = load_run(import_model(tmp_path / "model_step_10.pt", tmp_path / "run"))
    source, target = run.tokenizers
    assert source.size == 23 and source.encode("w3") == [source.external_ids.index(5)]
    assert source.frame.source([5]) == [5] and source.frame.start == (BEGIN,)
    assert [target.external_ids[id] for [id] in run.recipe.search.banned_ids] == [2, 1]
    embedding = run.model.state_dict()["source_embedding.weight_VE"]
    assert embedding[[BEGIN, END]].abs().sum() == 0


def test_sources_without_an_end_token(tmp_path: Path) -> None:
    """OpenNMT-py puts nothing behind a source: the last word is a word, and an empty text has nothing to read."""
    torch.save(toolkit_checkpoints.opennmt(Transformer(toolkit_models.OPENNMT, OPENNMT)), tmp_path / "m.pt")
    run = weft.load(import_model(tmp_path / "m.pt", tmp_path / "run"))
    empty, text = run.translate(["", "w3 w4"], kind="greedy", max_length=3)
    assert empty.text == "" and text.score == pytest.approx(run.translate("w3 w4", kind="greedy", max_length=3).score)
    forced, words = run.attend("w3 w4", "v1 v2")
    assert forced.source_tokens == ["w3", "w4"] and words.source == ["w3", "w4", "</s>"]
    assert (words.weights_TS[:, :2] > 0).all() and (words.weights_TS[:, 2] == 0).all()
    view = attention_view(forced, tokens=True)
    assert view is not None and view.links == forced.links and any(source == 1 for source, _ in view.links)


def test_the_last_word_of_a_source_may_replace_an_unknown_one(tmp_path: Path) -> None:
    original = Transformer(toolkit_models.OPENNMT, OPENNMT)
    original.parameters["generator.bias"][0] = 99  # it writes nothing but unknown tokens
    torch.save(toolkit_checkpoints.opennmt(original), tmp_path / "m.pt")
    run = weft.load(import_model(tmp_path / "m.pt", tmp_path / "run"))
    assert run.translate("Xanadu", kind="greedy", max_length=1, replace_unknown=True, no_loops=False).text == "Xanadu"


def test_joey_by_its_folder(tmp_path: Path) -> None:
    shape = Shape(layers=(2, 2), epsilon=1e-6, pre_norm=True, positions=interleaved)
    stack = toolkit_checkpoints.JOEY_STACK
    toolkit_checkpoints.save_joey(
        tmp_path / "m", Transformer(toolkit_models.JOEY, shape), {"encoder": stack, "decoder": stack}
    )
    run = load_run(import_model(tmp_path / "m", tmp_path / "run"))
    assert run.tokenizers.source.frame.source([5]) == [5, END] and run.tokenizers.source.frame.start == (BEGIN,)


def test_pieces_beside_the_checkpoint(tmp_path: Path) -> None:
    """Plain texts are split by the SentencePiece model."""
    import sentencepiece

    model = marian_models.sentencepiece_model()
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [library.id_to_piece(id) for id in range(3, 60)]
    sizes = (4 + len(pieces), 4 + len(pieces))
    original = Transformer(toolkit_models.FAIRSEQ, Shape(sizes=sizes))
    path = toolkit_checkpoints.save_fairseq(tmp_path, toolkit_checkpoints.fairseq(original))
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    for language in ("en", "de"):
        (tmp_path / f"dict.{language}.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), "utf-8")
    run = load_run(import_model(path, tmp_path / "run"))
    ids = {piece: 4 + number for number, piece in enumerate(pieces)}
    expected = [ids.get(piece, 3) for piece in library.encode("the old king", out_type=str)]
    tokenizer = run.tokenizers.source
    assert [tokenizer.external_ids[id] for id in tokenizer.encode("the old king")] == expected
    assert run.tokenizers.joint


def test_names_of_runs(tmp_path: Path) -> None:
    for name in ("model_step_10.pt", "best.ckpt", "a.npz"):
        (tmp_path / name).touch()
        assert run_name(str(tmp_path / name)) == name.rsplit(".", 1)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ImportOptions(target_language="de"), "this model has one language pair; leave it out"),
        (
            ImportOptions(vocabularies=(Path("no.txt"),)),
            "no.txt: no such file; name the vocabularies of source and targ",
        ),
        (ImportOptions(vocabularies=(Path("a"),) * 3), "--vocab: 3 files were given, expected one or two"),
    ],
)
def test_wrong_options(tmp_path: Path, options: ImportOptions, message: str) -> None:
    path = toolkit_checkpoints.save_fairseq(tmp_path, toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ)))
    with pytest.raises(WeftError, match=message):
        import_model(path, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_of_another_model(tmp_path: Path) -> None:
    shape = Shape(sizes=(12, 19))
    path = toolkit_checkpoints.save_fairseq(
        tmp_path, toolkit_checkpoints.fairseq(Transformer(toolkit_models.FAIRSEQ, shape))
    )
    with pytest.raises(WeftError, match=r"dict.en.txt: has 23 tokens, but the embedding has only 12 rows"):
        import_model(path, tmp_path / "run")


def test_a_checkpoint_of_something_else(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "epoch": 1}, tmp_path / "m.ckpt")
    with pytest.raises(
        WeftError, match="not a checkpoint of fairseq, OpenNMT-py or Joey NMT; it holds epoch, state_di"
    ):
        import_model(tmp_path / "m.ckpt", tmp_path / "run")


def test_loading_a_run_reads_no_pickle(tmp_path: Path) -> None:
    """`weft.load` of a checkpoint is an error that names no format of another toolkit."""
    torch.save({"args": None}, tmp_path / "m.pt")
    with pytest.raises(WeftError):
        weft.load(tmp_path / "m.pt")
