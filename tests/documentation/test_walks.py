"""The two walks of ARCHITECTURE.md by count: how many source files a pair and a sentence enter on their way.

A ceiling is a little above the number that is reached. A change that passes it makes weft harder to read: let what is
new stand in a file that the walk enters anyway, or ask before entering a file whether it has anything to do.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import weft
from fixtures.entered_files import entered_files
from weft.fast.cpu import compiled
from weft.runtime.replaceable import plain_only
from weft.training.events import Step

TO_THE_FIRST_UPDATE = 63  # of a recurrent model, two of them to know whether its products are faster by oneDNN
ONE_SENTENCE = 29  # of a Transformer, native_beam says whether it applies; the others enter 28 or fewer
COMPILED = 3  # with the kernels in C, those that describe a Transformer to them
RECIPE = """
[data]
train = "pairs.tsv"
valid = "pairs.tsv"
folder = "{folder}"
[tokenizer]
kind = "word"
joint = false
[training]
steps = 2
validate_every = 2
device = "cpu"
[model]
embedding = 16
[model.encoder]
{stack}
[model.decoder]
{stack}
"""
PLAIN_STEPS = {
    "recurrent": {
        "models/recurrent.py": {"LSTM.step", "RecurrentStack._run", "RecurrentStack.step"},
        "models/recurrent_decoder.py": {"RecurrentDecoder.step"},
        "attention/attention.py": {"Attention.forward", "attend"},
    },
    "transformer": {
        "models/transformer.py": {"TransformerLayer.forward", "TransformerLayer.step", "TransformerStack.step"},
        "models/transformer_decoder.py": {"TransformerDecoder.step"},
        "attention/multihead.py": {"SelfAttention.step", "CrossAttention.step", "step_attention"},
        "attention/ragged_attention.py": {"RaggedAttention.attend"},
    },
}
"""The equations that a lecture shows: they run where no faster version does."""
STACKS = {
    "recurrent": 'kind = "lstm"\nlayers = 1\nhidden = 16',
    "transformer": 'kind = "transformer"\nlayers = 1\nhidden = 16\nheads = 2\nfeed_forward = 32',
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads would share an update (`weft.fast.updating.threaded_update`), which is one more file.

    Nor does garbage of other tests end its runs meanwhile.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", STACKS)
def test_files_that_a_pair_and_a_sentence_enter(kind: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a b {letter}\tx y {letter}\n" for letter in "cdefghij") * 5)
    (tmp_path / "recipe.toml").write_text(RECIPE.format(folder=tmp_path, stack=STACKS[kind]))
    recipe = weft.load_recipe(tmp_path / "recipe.toml")
    with entered_files() as to_the_first_update:
        events = weft.train(recipe, tmp_path / "run")
        next(event for event in events if isinstance(event, Step))
    for _ in events:
        pass
    run = weft.load(tmp_path / "run", device="cpu")
    run.translate("a b d")  # imports, and asks once what a model is made of
    with entered_files() as one_sentence:
        run.translate("a b e")
    with plain_only(), entered_files() as plain:
        run.translate("a b e")
    assert {name for name in plain if name.startswith("fast/")} <= {"fast/__init__.py"}  # the table is read
    for name, functions in PLAIN_STEPS[kind].items():
        assert functions <= plain[name], name
    assert {"BeamStep.update", "backtrace"} <= plain["search/beam.py"]
    assert {"training/update.py", "models/seq2seq.py", "ragged.py"} <= to_the_first_update.keys()
    assert {"search/beam.py", "text/words.py"} <= one_sentence.keys()
    assert len(to_the_first_update) <= TO_THE_FIRST_UPDATE, "\n".join(to_the_first_update)
    assert len(one_sentence) <= ONE_SENTENCE + (COMPILED if compiled.loaded else 0), "\n".join(one_sentence)
