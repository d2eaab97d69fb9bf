"""tokenizer.source_language and tokenizer.target_language: the frame of training pairs of an imported tokenizer."""

import json

import pytest

import weft
from fixtures import pretrained_tokenizers as folders
from weft.data.pairs import Pair
from weft.data.preparation import prepare
from weft.data.store.token_store import encode_pairs
from weft.errors import VocabularyError
from weft.interop.huggingface.tokenizers import read_tokenizers
from weft.recipe import make_recipe
from weft.text.specials import END
from weft.training.train import train
from weft.training.update import TrainingContext, training_loss

STACK = {"kind": "transformer", "layers": 1, "hidden": 8, "heads": 2, "feed_forward": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer of several languages as a file, and pairs."""
    path = tmp_path_factory.mktemp("languages")
    folders.m2m100(path / "m2m100")
    rows = len(json.loads((path / "m2m100/vocab.json").read_text("utf-8"))) + 108
    config = {"model_type": "m2m_100", **folders.FAIRSEQ}
    read_tokenizers(path / "m2m100", config, rows=(rows, rows)).save(path)
    lines = [
        f"the old king {word}\tle vieux roi {word}"
        for word in ["a", "book", "to", "his", "son", "reads", "in", "un", "livre"]
    ]
    (path / "pairs.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return path


def recipe(folder, **changes):
    return make_recipe(
        {
            "name": "languages",
            "data": {"train": "pairs.tsv", "valid": "pairs.tsv", "folder": str(folder)},
            "tokenizer": {"file": "tokenizer.json", "source_language": "en", **changes},
            "model": {"embedding": 8, "encoder": STACK, "decoder": STACK},
            "training": {"steps": 2, "batch_tokens": 64, "validate_every": 2, "warmup": 1, "device": "cpu"},
        }
    )


@pytest.mark.parametrize("streaming", [False, True])
def test_pairs_in_their_frame(folder, streaming) -> None:
    settings = recipe(folder, target_language="fr")
    settings = settings.model_copy(update={"data": settings.data.model_copy(update={"streaming": streaming})})
    prepared = prepare(settings)
    tokenizers = prepared.tokenizers
    english, french = (tokenizers.source.rules.languages[name] for name in ("en", "fr"))
    assert tokenizers.frame.start == (END, french)
    [lazy] = prepared.data.batches(4096, seed=1).take(1, 1)
    batch = lazy.make()
    for source, target in zip(batch.source.split(), batch.target.split(), strict=True):
        assert source.tolist()[0] == english and source.tolist()[-1] == END
        assert target.tolist()[0] == french and target.tolist()[-1] == END
        assert tokenizers.source.decode(source.tolist()).startswith("the old king")
    in_memory = encode_pairs([Pair("the old king a", "le vieux roi a")], tokenizers)
    sources = [row.tolist() for row in batch.source.split()]
    assert in_memory.source.values.tolist() in sources


def test_training_begins_with_the_first_token_of_the_frame(folder, tmp_path) -> None:
    settings = recipe(folder, target_language="fr")
    list(train(settings, tmp_path / "run"))
    run = weft.load(tmp_path / "run")
    assert run.tokenizers.frame.begin == END
    prepared = prepare(settings)
    [lazy] = prepared.data.batches(4096, seed=1).take(1, 1)
    batch = lazy.make()
    losses = {
        begin: training_loss(run.model, batch, TrainingContext(settings.training, begin=begin), 0.0).smoothed.item()
        for begin in (1, END)
    }
    sources = [run.tokenizers.source.decode(row.tolist()) for row in batch.source.split()]
    pairs = [(source, source.replace("the old king", "le vieux roi")) for source in sources]
    scored = sum(score.log_probability for score in run.score(pairs))
    assert losses[1] != losses[END]
    assert scored > -losses[END]  # the loss counts the language token too
    assert run.translate("the old king", target_language="de") is not None


def test_languages_that_are_missing_or_wrong(folder, tmp_path) -> None:
    with pytest.raises(VocabularyError, match="target_language: this model has several languages"):
        prepare(recipe(folder))
    with pytest.raises(VocabularyError, match="target_language='zz': not a language of this model"):
        prepare(recipe(folder, target_language="zz"))
