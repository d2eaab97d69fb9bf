"""StepModel of a search recorded on a GPU (CUDA graphs) and played back.

A step of a small model is some hundred short kernels; asking for each of them from Python takes longer than running
it. So a step is recorded once for its shapes and then played back whole. What a search knows lies in buffers that stay
where they are; each playing writes the next `SearchState` into them, and the step's record into a history. Shapes
come in a
few sizes only: sentences are filled up with ones that are done, the past has room for 32, 64, 128, … tokens.

Nothing waits for the device step by step: how many sentences are still going is read a few steps late. When half of
them are done, or the room is used up, the rest moves into buffers of another size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from weft.search.state import Advance, SearchState, StepLoop, StepRecords
from weft.tree import Tree, leaves, map_tree, with_capacity

ROOM = 32
"""The tokens there is room for at first."""
LATE = 3
"""How many steps late it is noticed that sentences are done."""
SHARE = 0.25
"""Of the device's memory: what buffers of steps that are kept may take together."""


class UnfitError(Exception):
    """A step whose shapes change."""


class Recording:
    """One recorded step with the buffers it reads and writes."""

    def __init__(self, advance: Advance, live: SearchState, room: int, pool: Any) -> None:
        self.advance = advance  # what it was recorded of must stay
        self.live: SearchState = map_tree(torch.clone, live)
        self.room = room
        self._warm_up()
        self.going_T = torch.zeros(room, dtype=torch.int64, device=self.live.tokens_R.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.step()
        self.seen = torch.zeros(room, dtype=torch.int64, pin_memory=True).unbind(0)
        self.events = [torch.cuda.Event() for _ in range(room)]
        self.news = self.going_T.unbind(0)

    @property
    def bytes(self) -> int:
        return sum(leaf.nbytes for leaf in (*leaves(self.live), *leaves(self.history)))

    def _warm_up(self) -> None:
        """One step outside the recording: what is made on first use is made now, and shapes are looked at."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.make_room(*self.advance(self.live))
        torch.cuda.current_stream().wait_stream(stream)

    def make_room(self, after: SearchState, record: Tree) -> None:
        """The history for steps like this one."""
        for old, new in zip(leaves(self.live), leaves(after), strict=True):
            if old.shape != new.shape:
                raise UnfitError
        self.history = map_tree(lambda leaf: leaf.new_zeros(self.room, *leaf.shape), record)

    def step(self) -> None:
        """What is recorded: one step from the buffers into the buffers."""
        time_1 = self.live.time_1.clone()
        after, record = self.advance(self.live)
        for kept, leaf in zip(leaves(self.history), leaves(record), strict=True):
            kept.index_copy_(0, time_1, leaf[None])
        self.going_T.index_copy_(0, time_1, (~after.done_B).sum()[None])
        _write(self.live, after)

    def replay(self, time: int) -> None:
        """Ask for one step, and for the news of it."""
        self.graph.replay()
        self.seen[time].copy_(self.news[time], non_blocking=True)
        self.events[time].record(self.stream)

    def going(self, time: int) -> int:
        """How many sentences were going after a step."""
        self.events[time].synchronize()
        return int(self.seen[time])

    def play(self, live: SearchState, count: int, time: int) -> tuple[StepRecords, int, Tensor]:
        """Step after step from ``time`` on, until a change of size is due: what was done, the time, who is still going.

        ``count``: of the sentences, those that were not just filled up.
        """
        _write(self.live, live)
        self.stream = torch.cuda.current_stream() if live.done_B.is_cuda else None
        begun, least = time, len(live.done_B) // 2
        while time < self.room:
            self.replay(time)
            time += 1
            if time - begun > LATE and self.going(time - 1 - LATE) <= least:
                break
        sentences = live.sentences_B[:count].cpu()
        found = map_tree(lambda leaf: leaf[begun:time, :count].cpu(), self.history)
        return StepRecords(sentences, found), time, (~self.live.done_B[:count]).nonzero()[:, 0]


def _write(buffers: Tree, values: Tree) -> None:
    pairs = [(old, new) for old, new in zip(leaves(buffers), leaves(values), strict=True) if old is not new]
    changed = [(old, new) for old, new in pairs if old.data_ptr() != new.data_ptr()]
    if changed:
        torch._foreach_copy_([old for old, _ in changed], [new for _, new in changed])


class CudaGraphLoop(StepLoop):
    """A loop that keeps the steps it has recorded; one for each model on a GPU."""

    recording: type[Recording] = Recording

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.recordings: OrderedDict[Hashable, Recording] = OrderedDict()
        self.pool: Any = None
        self.bytes = 0.0
        if device.type == "cuda":
            self.pool = torch.cuda.graph_pool_handle()
            self.bytes = torch.cuda.get_device_properties(device).total_memory * SHARE

    def run(
        self, advance: Advance, live: SearchState, *, key: Hashable = None, looks: bool = False
    ) -> list[StepRecords]:
        steps: list[StepRecords] = []
        room, time = ROOM, 0
        count = len(live.sentences_B)
        live = live._replace(state=with_capacity(live.state, room, return_attention=looks))
        while count:
            live = filled_up(live, size_for(count))
            recording = self._recording(advance, live, room, key)
            if recording is None:  # a step that changes its shapes cannot be recorded
                return steps + super().run(advance, live.keep(torch.arange(count, device=self.device)))
            found, time, going = recording.play(live, count, time)
            steps.append(found)
            count = going.numel()
            if count:
                live = recording.live.keep(going)
                if time == room:
                    room *= 2
                    live = live._replace(state=with_capacity(live.state, room, return_attention=looks))
        return steps

    def _recording(self, advance: Advance, live: SearchState, room: int, key: Hashable) -> Recording | None:
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves(live))
        whole = (key, room, shapes)
        if whole in self.recordings:
            self.recordings.move_to_end(whole)
            return self.recordings[whole]
        try:
            made = self.recording(advance, live, room, self.pool)
        except UnfitError:
            return None
        self.recordings[whole] = made
        while len(self.recordings) > 1 and sum(one.bytes for one in self.recordings.values()) > self.bytes:
            self.recordings.popitem(last=False)
        return made


def size_for(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, … sentences."""
    power = 1
    while power < count:
        power *= 2
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def filled_up(live: SearchState, size: int) -> SearchState:
    """With as many sentences as a recording has, those added being done already."""
    count = len(live.sentences_B)
    if count == size:
        return live
    rows = torch.arange(size, device=live.done_B.device)
    added = live.keep(rows.clamp(max=count - 1))
    return added._replace(done_B=added.done_B | (rows >= count))
