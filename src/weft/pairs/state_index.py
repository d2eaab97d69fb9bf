"""State index: the decoder states of some training pairs, in the run folder, and those nearest to a given state.

    states.safetensors   states_ND, of length 1, one for each target token; pair_N and position_N say of which; the
                         pairs themselves are JSON in its metadata

A state is the vector that the output layer reads; the nearest states are those with the largest cosine. A run keeps an
index if `serve.states` says of how many training pairs; the walk of `weft serve` shows the nearest ones, as
Seq2Seq-Vis does (Strobelt et al. 2019). An index belongs to the weights that it was made with, and is ignored if the
run has others now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import CheckpointError, WeftError, warn
from weft.files import CHECKSUM
from weft.runs.layout import RunFolder
from weft.runs.weights import TensorFile, read_metadata, read_tensors, write_tensors
from weft.runtime.activity import activity
from weft.runtime.replaceable import plain_only
from weft.translation.inspection import tokens_of_pair

if TYPE_CHECKING:
    from torch import Tensor

    from weft.data.pairs import Pair
    from weft.translation.translator import Translator

FILE_NAME = "states.safetensors"
MAX_BYTES = 1 << 30
"""The largest index that is read."""
MAX_TEXT_BYTES = 15_000_000
"""Bytes of all pairs: they are part of the header of a file."""
BATCH = 32
KINDS = ("seq2seq", "language_model", "prefix_lm")
"""Kinds of models that have one state for each target token."""


class IndexedPair(NamedTuple):
    """A training pair."""

    source: str
    target: list[str]
    """Its tokens, the end token included."""


class Neighbor(NamedTuple):
    """A state near another one, and where in the training pairs it was."""

    pair: IndexedPair
    position: int
    """The target token that was made from it, from 0."""
    similarity: float
    """The cosine of the two states."""


class StateIndex(NamedTuple):
    """Decoder states of training pairs."""

    states_ND: Tensor
    """Vectors of length 1, in float16."""
    pair_N: Tensor
    position_N: Tensor
    pairs: list[IndexedPair]

    def nearest(self, state_D: Tensor, count: int) -> list[Neighbor]:
        """The nearest states, of every pair the nearest one only."""
        import torch

        unit_D = torch.nn.functional.normalize(state_D.detach().cpu().float(), dim=0)
        similarity_N = self.states_ND.float() @ unit_D
        neighbors: dict[int, Neighbor] = {}
        for index in similarity_N.argsort(descending=True).tolist():
            number = int(self.pair_N[index])
            if number not in neighbors:
                position, similarity = int(self.position_N[index]), float(similarity_N[index])
                neighbors[number] = Neighbor(self.pairs[number], position, similarity)
            if len(neighbors) == count:
                break
        return list(neighbors.values())


def keep_states(folder: Path, *, device: str = "auto") -> bool:
    """Write the index of a run that this process has just trained, if its recipe asks for one.

    The run is complete without it: if it fails, there is a warning.
    """
    from weft.data.preparation import read_corpus
    from weft.recipe import load_recipe
    from weft.translation.load import load

    try:
        recipe = load_recipe(RunFolder(folder).recipe).accepting_new_data()
        if not recipe.serve.states:
            return False
        with activity("keeping decoder states"):
            run = load(folder, device=device, engine="torch")
            write_index(folder, index_of(run, list(islice(read_corpus(recipe, "train"), recipe.serve.states))))
    except (WeftError, OSError) as error:
        warn(f"no decoder states were kept: {error}")
        return False
    return True


def index_of(run: Translator, pairs: Sequence[Pair]) -> StateIndex:
    """The states with which a model makes the targets of pairs (teacher forcing)."""
    import torch

    from weft.models.architecture import architecture_of

    described = architecture_of(run.model)
    if described.kind not in KINDS:
        kind = described.kind.replace("_", " ")
        raise CheckpointError(f"serve.states: a model of this kind ({kind}) has no state for each target token")
    kept: list[IndexedPair] = []
    parts: list[Tensor] = []
    numbers: list[int] = []
    positions: list[int] = []
    for states_ND, batch in _states_of(run, pairs):
        parts.append(torch.nn.functional.normalize(states_ND.float(), dim=-1).half().cpu())
        for pair in batch:
            numbers += [len(kept)] * len(pair.target)
            positions += range(len(pair.target))
            kept.append(pair)
    if not kept:
        raise CheckpointError("serve.states: there are no training pairs")
    return StateIndex(torch.cat(parts), torch.tensor(numbers), torch.tensor(positions), kept)


def _states_of(run: Translator, pairs: Sequence[Pair]) -> Iterator[tuple[Tensor, list[IndexedPair]]]:
    """The inputs of the output layer (N, D) for batches of pairs."""
    import torch

    from weft.ragged import Ragged

    model: Any = run.model
    inputs_of_output: list[Tensor] = []
    hook = model.output.register_forward_pre_hook(lambda _, inputs: inputs_of_output.append(inputs[0]))
    try:
        with torch.no_grad(), plain_only():
            for start in range(0, len(pairs), BATCH):
                batch = pairs[start : start + BATCH]
                tokens = [tokens_of_pair(run, pair.source, pair.target, {}) for pair in batch]
                sources = Ragged.of([source.ids for source, _, _ in tokens], run.device)
                targets = Ragged.of([target.ids for _, target, _ in tokens], run.device)
                inputs_of_output.clear()
                model(sources, targets.shifted(tokens[0][2].ids[0]))
                named = zip(batch, tokens, strict=True)
                yield inputs_of_output[0], [IndexedPair(pair.source, target.names) for pair, (_, target, _) in named]
    finally:
        hook.remove()


def write_index(folder: Path, index: StateIndex) -> None:
    """Write an index into a run folder, for its present weights."""
    metadata = {
        "weights": read_metadata(RunFolder(folder).model).get(CHECKSUM, ""),
        "pairs": json.dumps(index.pairs, ensure_ascii=False),
    }
    if len(metadata["pairs"].encode()) > MAX_TEXT_BYTES:
        raise CheckpointError(f"serve.states: the pairs have more than {MAX_TEXT_BYTES:,} bytes; keep fewer")
    tensors = {"states": index.states_ND, "pair": index.pair_N.int(), "position": index.position_N.int()}
    write_tensors(folder / FILE_NAME, tensors, metadata)


def read_index(folder: Path) -> StateIndex | None:
    """The index of a run folder; None if it has none for its weights. A link is not followed: it may lead out of it."""
    path = folder / FILE_NAME
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
        return None
    weights = RunFolder(folder).model.stat()
    return _read(path, path.stat().st_mtime_ns, weights.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: Path, changed: int, weights_changed: int) -> StateIndex | None:
    """The index in a file; read again if it or the weights have changed."""
    try:
        if read_metadata(path).get("weights") != read_metadata(RunFolder(path.parent).model).get(CHECKSUM, ""):
            return None
        return _checked(read_tensors(path))
    except (CheckpointError, KeyError, ValueError, TypeError, RecursionError):
        return None  # damaged, or not written by weft


def _checked(file: TensorFile) -> StateIndex:
    """An index whose parts fit together; a ValueError if they do not."""
    pairs = [
        IndexedPair(str(source), [str(token) for token in target])
        for source, target in json.loads(file.metadata["pairs"])
    ]
    index = StateIndex(file.tensors["states"], file.tensors["pair"], file.tensors["position"], pairs)
    lengths = [len(pair.target) for pair in pairs]
    numbers, positions = index.pair_N.tolist(), index.position_N.tolist()
    if index.states_ND.ndim != 2 or not len(index.states_ND) == len(numbers) == len(positions) > 0:
        raise ValueError("tensors of unequal length")
    if any(
        not 0 <= number < len(pairs) or not 0 <= at < lengths[number]
        for number, at in zip(numbers, positions, strict=True)
    ):
        raise ValueError("a position that no pair has")
    return index
