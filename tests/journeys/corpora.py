"""Small corpora in the files that a recipe names, in the shape that its settings describe."""

from __future__ import annotations

import random
from pathlib import Path

from fixtures.kinds_of_pictures import KINDS, write_table
from weft.recipe import Recipe
from weft.recipe.data import DialogueFile, ParallelFiles, TableFile
from weft.tasks import TASKS

SIZES = {"train": 150, "valid": 20, "test": 12}
FEATURES = ("N;NOM(SG)", "N;ACC(PL)", "V;PST;3", "V;PRS")
WORDS = ("the", "a", "old", "king", "sees", "opens", "white", "door", "house", "cat", "dog", "runs", "with", "at")


def write_corpora(recipe: Recipe, folder: Path) -> None:
    """Write the files that [data] names; a built-in corpus has none."""
    for number, split in enumerate(SIZES):
        corpus = getattr(recipe.data, split)
        draw = random.Random(number)
        base = folder / recipe.data.folder
        rows = [_row(recipe, draw) for _ in range(SIZES[split])]
        if corpus is None or (isinstance(corpus, str) and corpus in TASKS):
            continue
        base.mkdir(parents=True, exist_ok=True)
        if recipe.tokenizer.reads_arrays:
            kind = KINDS["formulas" if recipe.model.stem.kind == "grid" else "lines"]
            table = [(f"{split}/{name}", array, text) for name, array, text in kind(SIZES[split])]
            write_table(base, table, str(corpus))
        elif isinstance(corpus, ParallelFiles):
            (base / corpus.source[0]).write_text("".join(f"{source}\n" for source, _ in rows), "utf-8")
            (base / corpus.target[0]).write_text("".join(f"{target}\n" for _, target in rows), "utf-8")
        elif isinstance(corpus, TableFile):
            table = [_columns(corpus, source, target, draw) for source, target in rows]
            _write_table(base / corpus.file[0], table)
        elif isinstance(corpus, DialogueFile):
            _write_table(base / corpus.dialogues[0], [[*pair, *pair[::-1]] for pair in rows])
        elif isinstance(corpus, str):
            _write_table(base / corpus, [list(pair) for pair in rows])
        else:
            raise NotImplementedError(f"data.{split} of {recipe.name}: make files of {type(corpus).__name__} here")


def _write_table(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


def _columns(corpus: TableFile, source: str, target: str, draw: random.Random) -> list[str]:
    """A row with the columns of a table, which are counted from 1."""
    columns = [*corpus.source, *corpus.target]
    assert all(isinstance(column, int) for column in columns)
    row = [""] * max(int(column) for column in columns)
    for texts, text in ((corpus.source, source), (corpus.target, target)):
        for column in texts:
            row[int(column) - 1] = draw.choice(FEATURES) if column in corpus.tags else text
    return row


def _row(recipe: Recipe, draw: random.Random) -> tuple[str, str]:
    """A pair in the units of the tokenizers: words of letters, letters between spaces, or sentences."""
    source_kind = recipe.tokenizer.kind
    target_kind = recipe.tokenizer.target_kind or source_kind
    if source_kind == "character":
        word = "".join(draw.choices("abdeiklmnorst", k=draw.randrange(2, 8)))
        return word, " ".join(word.upper()) if target_kind == "word" else f"{word}en"
    words = draw.choices(WORDS, k=draw.randrange(2, 7))
    name = f"{draw.choice('bdkm')}{draw.choice('aeiou')}{draw.choice('lnrs')}"  # a rare word, which may be copied
    return f"{' '.join(words)} {name}", f"{' '.join(word[::-1] for word in words)} {name}"
