"""Built-in corpora: small worlds with unlimited data and known answers.

`generate` is a pure function of its arguments. A source belongs to one split, by a hash of its text (18 in 20 to
``train``, 1 each to ``valid`` and ``test``), so the splits share no source whatever the seeds, counts and options.
``train`` is drawn with replacement: a small world repeats itself. In ``valid`` and ``test`` no source occurs twice.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError, nearest
from weft.tasks import addition, copying, dates, grammar


class Task(NamedTuple):
    """A built-in corpus: ``sample(random, **options)`` draws one pair."""

    name: str
    summary: str
    sample: Callable[..., Pair]

    @property
    def options(self) -> dict[str, object]:
        """The names of the options with their defaults."""
        parameters = inspect.signature(self.sample).parameters.values()
        return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("addition", "add two numbers, digit by digit: 535+61 → 596", addition.sample),
        Task("copy", "copy a sequence of letters: d a c → d a c", copying.copy),
        Task("reverse", "turn a sequence of letters around: d a c → c a d", copying.reverse),
        Task("sort", "sort a sequence of letters: d a c → a c d", copying.sort),
        Task("dates", "dates as people write them → ISO 8601: 7 March 2024 → 2024-03-07", dates.sample),
        Task("grammar", "English → French sentences of a small grammar, with gold word links", grammar.sample),
    )
}

SPLITS = ("train", "valid", "test")


def split_of(source: str) -> str:
    """The split that a source belongs to."""
    place = int.from_bytes(blake2b(source.encode("utf-8"), digest_size=8).digest(), "big") % 20
    return {0: "valid", 1: "test"}.get(place, "train")


def generate(
    name: str, split: str, count: int, *, seed: int = 0, options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Pair]:
    """`count` pairs of a split of a task. A larger count begins with the pairs of a smaller one."""
    if name not in TASKS:
        raise DataError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    if split not in SPLITS:
        raise DataError(f"task {name}: unknown split {split!r}; {nearest(split, SPLITS)}")
    if count < 0:
        raise DataError(f"task {name}: {count} pairs asked for, expected 0 or more")
    task = TASKS[name]
    for option in options:
        if option not in task.options:
            hint = nearest(option, task.options) if task.options else "it has none"
            raise RecipeError(f"task {name}: unknown option {option!r}; {hint}")
    _draw(task, random.Random(0), options)  # a bad value is reported here rather than at the first pair
    return _generate(task, split, count, seed, dict(options))


def _generate(task: Task, split: str, count: int, seed: int, options: dict[str, object]) -> Iterator[Pair]:
    dice = random.Random(f"{task.name} {split} {seed}")  # seeded by a text's SHA-512: the same on every machine
    distinct = split != "train"
    seen: set[str] = set()
    found = misses = 0
    while found < count:
        pair = _draw(task, dice, options)
        if split_of(pair.source) != split or pair.source in seen:
            misses += 1
            # Were one source as likely as those found still to come, it would have come with near certainty.
            if misses > 2_000 + 200 * len(seen):
                raise DataError(
                    f"task {task.name}: {count} {'different ' if distinct else ''}pairs asked for, but its {split} "
                    f"split has only {found}; ask for fewer, or for a larger world in its options"
                )
            continue
        if distinct:
            seen.add(pair.source)
        found, misses = found + 1, 0
        yield pair


def _draw(task: Task, dice: random.Random, options: Mapping[str, object]) -> Pair:
    try:
        return task.sample(dice, **options)
    except RecipeError as error:
        raise RecipeError(f"task {task.name}: {error}") from None
    except (TypeError, ValueError) as error:
        raise RecipeError(f"task {task.name}: bad option value: {error}") from None
