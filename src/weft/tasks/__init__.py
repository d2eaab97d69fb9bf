"""Built-in tasks: synthetic corpora of unlimited size with known answers.

`generate` is a pure function of its arguments. A source belongs to one split, by a hash of its text (18 in 20 to
``train``, 1 each to ``valid`` and ``test``), so the splits share no source whatever the seeds, counts and options.
``train`` is drawn with replacement: a small task repeats itself. In ``valid`` and ``test`` no source occurs twice.

A source of a task that has a ``draw`` is the name of a picture, which ``draw`` gives; `write_pictures` writes a folder.

To add one, write its ``sample`` function in its own file and add its line to `TASKS`; of drawings, a second one to
`DRAWINGS` in `weft.recipe.choices`, which reading a source asks.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from weft.data.arrays.png import png_bytes
from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError, nearest
from weft.tasks import addition, copying, coreference, dates, drawn_digits, grammar


class Task(NamedTuple):
    """A task: ``sample(random, **options)`` draws one pair."""

    name: str
    summary: str
    sample: Callable[..., Pair]
    draw: Callable[[str], np.ndarray] | None = None
    """The picture of a source, uint8 (height, width); None: a source is a text."""

    @property
    def options(self) -> dict[str, object]:
        """The names of the options with their defaults."""
        parameters = inspect.signature(self.sample).parameters.values()
        return {option.name: option.default for option in parameters if option.kind is option.KEYWORD_ONLY}


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("addition", "add two numbers, digit by digit: 535+61 → 596", addition.sample),
        Task("copy", "copy a sequence of letters: d a c → d a c", copying.copy),
        Task("reverse", "reverse a sequence of letters: d a c → c a d", copying.reverse),
        Task("sort", "sort a sequence of letters: d a c → a c d", copying.sort),
        Task("dates", "dates as people write them → ISO 8601: 7 March 2024 → 2024-03-07", dates.sample),
        Task("grammar", "English → French sentences of a small grammar, with gold word links", grammar.sample),
        Task("coreference", "English → French sentences in which it is il or elle by its noun", coreference.sample),
        Task("trees", "English sentences of that grammar → their trees: he left → (TOP (S (NP he ) …", grammar.parsed),
        Task("drawn-digits", "pictures of handwritten digits → the digits", drawn_digits.sample, drawn_digits.draw),
    )
}

SPLITS = ("train", "valid", "test")


def split_of(source: str) -> str:
    """The split that a source belongs to."""
    bucket = int.from_bytes(blake2b(source.encode("utf-8"), digest_size=8).digest(), "big") % 20
    return {0: "valid", 1: "test"}.get(bucket, "train")


def generate(
    name: str, split: str, count: int, *, seed: int = 0, options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Pair]:
    """`count` pairs of a split of a task. A larger count starts with the pairs of a smaller one."""
    task = _task(name)
    if split not in SPLITS:
        raise DataError(f"task {name}: unknown split {split!r}; {nearest(split, SPLITS)}")
    if count < 0:
        raise DataError(f"task {name}: {count} pairs requested, expected 0 or more")
    for option in options:
        if option not in task.options:
            hint = nearest(option, task.options) if task.options else "it has none"
            raise RecipeError(f"task {name}: unknown option {option!r}; {hint}")
    _draw(task, random.Random(0), options)  # a bad value is reported here rather than at the first pair
    return _generate(task, split, count, seed, dict(options))


def write_pictures(name: str, pairs: Iterable[Pair], folder: Path) -> Iterator[Pair]:
    """The pairs, each after its picture has been written into a folder under the name that is its source."""
    draw = _task(name).draw
    if draw is None:
        raise DataError(f"task {name}: its sources are texts, of which there are no pictures")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be created: {error.strerror or error}") from None
    return _written(draw, pairs, folder)


def _written(draw: Callable[[str], np.ndarray], pairs: Iterable[Pair], folder: Path) -> Iterator[Pair]:
    for pair in pairs:
        path = folder / pair.source
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(png_bytes(draw(pair.source)))
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
        yield pair


def _generate(task: Task, split: str, count: int, seed: int, options: dict[str, object]) -> Iterator[Pair]:
    rng = random.Random(f"{task.name} {split} {seed}")  # seeded by the SHA-512 of a text: the same on every machine
    distinct = split != "train"
    seen: set[str] = set()
    drawn = misses = 0
    while drawn < count:
        pair = _draw(task, rng, options)
        if split_of(pair.source) != split or pair.source in seen:
            misses += 1
            # A further source as likely as those drawn so far would almost certainly have occurred by now.
            if misses > 2_000 + 200 * len(seen):
                raise DataError(
                    f"task {task.name}: {count} {'different ' if distinct else ''}pairs requested, but its {split} "
                    f"split has only {drawn}; request fewer, or a larger task by its options"
                )
            continue
        if distinct:
            seen.add(pair.source)
        drawn, misses = drawn + 1, 0
        yield pair


def _task(name: str) -> Task:
    if name not in TASKS:
        raise DataError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    return TASKS[name]


def _draw(task: Task, rng: random.Random, options: Mapping[str, object]) -> Pair:
    try:
        return task.sample(rng, **options)
    except RecipeError as error:
        raise RecipeError(f"task {task.name}: {error}") from None
    except (TypeError, ValueError) as error:
        raise RecipeError(f"task {task.name}: bad option value: {error}") from None
