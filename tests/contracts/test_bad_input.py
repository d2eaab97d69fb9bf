"""Bad input of every kind: a command ends with code 2, one line on stderr and no traceback.

A row of the table has a name, files to write, what a user types, and the line that appears. Files of a run are
replaced in a copy of a trained one, `RUN`; `HERE` in a line is the folder that the command runs in.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.cli import main
from weft.errors import RecipeError
from weft.recipe import load_recipe, make_recipe
from weft.recipe.toml import settings_of

Content = str | bytes | None


class Case(NamedTuple):
    """What a user has and types, and the line that appears, without ``weft: ``; ``…`` stands for anything."""

    name: str
    files: dict[str, Content]
    command: list[str]
    line: str


def show(name: str, content: Content, line: str, *more: str) -> Case:
    """`weft data show` of a file."""
    return Case(name, {name: content}, ["data", "show", name, *more], line)


def recipe(name: str, content: Content, line: str, *more: str) -> Case:
    """`weft recipes show` of a recipe file."""
    return Case(name, {"r.toml": content}, ["recipes", "show", "r.toml", *more], line)


def change(name: str, value: str, line: str) -> Case:
    """`--set` for a shipped recipe."""
    return Case(name, {}, ["recipes", "show", "grammar", "--set", value], line)


def train(name: str, files: dict[str, Content], line: str, *more: str) -> Case:
    """`weft train` of r.toml, which must end before anything is trained."""
    return Case(name, files, ["train", "r.toml", "--out", "out", *more], line)


def run(name: str, files: dict[str, Content], line: str, *command: str) -> Case:
    """`weft translate` (or another command) with a run some of whose files are replaced; None removes one."""
    return Case(name, files, list(command or ("translate", "RUN", "in.txt")), line)


def imported(name: str, files: dict[str, Content], line: str, source: str = "m") -> Case:
    """`weft import` of a folder or a file."""
    return Case(name, files, ["import", source, "--out", "out"], line)


def tokenizer(**parts: object) -> str:
    """A tokenizer.json of another library with some parts replaced."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model, **parts})


PAIRS = "a b\tb a\nb c\tc b\nc a\ta c\n"
TINY = (
    "[data]\ntrain = 'p.tsv'\n[tokenizer]\nkind = 'word'\n[training]\nsteps = 1\nvalidate_every = 0\ndevice = 'cpu'\n"
)
GOOD = {"r.toml": TINY, "p.tsv": PAIRS}
JSON = ("--set", "data.train={file='p.jsonl', source='a', target='b'}")
FILE = ("--set", "tokenizer.file=t.json")
SKIP = "; fix it, or set data.bad_rows = 'skip'"
CHOOSE = '; keep two (cut -f 1,2), or name them in a recipe: train = {file = "HERE/p.tsv", source = 1, target = 2}'
PEFT = "peft/adapter_config.json"
LORA = '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}'
ADD = ("adapter", "add", "RUN", "peft")
DEEP = "[" * 100_000
DIGITS = "9" * 5000
BOMB = '{kind = "pattern", expression = "(a+)+$"}'

CASES = [
    # recipes
    recipe("not TOML", "seed = ", "r.toml: not valid TOML: Invalid value (at end of document)"),
    recipe("TOML twice", "seed = 1\nseed = 2", "r.toml: not valid TOML: Cannot overwrite a value (at end of document)"),
    recipe("TOML nested too deeply", f"x = {DEEP}", "r.toml: not valid TOML: it is nested too deeply"),
    recipe("TOML tables nested too deeply", "x = " + "{a=" * 5000, "r.toml: not valid TOML: it is nested too deeply"),
    recipe("TOML with huge integer", f"seed = {DIGITS}", "r.toml: not valid TOML: a number has too many digits"),
    recipe(
        "TOML with NUL",
        b"name = 'a\0b'",
        "r.toml: not valid TOML: Found invalid character '\\x00' (at line 1, column 10)",
    ),
    recipe(
        "TOML not UTF-8",
        b"name = '\xff'",
        "r.toml: not valid TOML: 'utf-8' codec can't decode byte 0xff in position 8: invalid start byte",
    ),
    recipe(
        "TOML of two megabytes",
        b"#" * (2 << 20),
        "r.toml: larger than 1,048,576 bytes, the limit for this kind of file",
    ),
    recipe(
        "TOML with NaN",
        "[training]\nlearning_rate = nan",
        "r.toml: training.learning_rate: nan was given; input should be a finite number",
    ),
    recipe(
        "TOML with a date",
        "seed = 1979-05-27",
        "r.toml: seed: datetime.date(1979, 5, 27) was given; input should be a valid integer",
    ),
    recipe("a recipe that extends itself", "extends = 'r.toml'", "r.toml: extends: the recipe extends itself"),
    recipe(
        "a recipe that extends nothing",
        "extends = 'gramar'",
        "r.toml: extends: gramar: no such recipe; did you mean 'grammar'?, or give a .toml file",
    ),
    recipe(
        "a recipe that extends a number",
        "extends = 3",
        "r.toml: extends: 3 was given; expected the name of a recipe, or a file",
    ),
    recipe("unknown setting", "[training]\nstep = 4", "r.toml: training.step: unknown setting; did you mean 'steps'?"),
    recipe(
        "section that is a number",
        "training = 4",
        "r.toml: training: 4 was given; it is a group of settings: training.steps, training.batch_tokens, "
        "training.accumulate, training.optimizer, …",
    ),
    recipe(
        "name of a folder above",
        "name = '../x'",
        "r.toml: name: '../x' was given; it names a folder: letters, digits, space and . + - _ only",
    ),
    recipe(
        "valid without train",
        "[data]\nvalid = 'v.tsv'",
        "r.toml: data.train: is not set, but data.valid is; name the training pairs too",
    ),
    recipe(
        "pattern that is no expression",
        "[data]\npipeline = [{kind = 'pattern', expression = '('}]",
        "r.toml: data.pipeline: '(' is not a regular expression: missing ), unterminated subpattern at position 0",
    ),
    recipe(
        "pattern with huge repetition",
        "[data]\npipeline = [{kind = 'pattern', expression = 'a{99999999999}'}]",
        "r.toml: data.pipeline: 'a{99999999999}' is not a regular expression: the repetition number is too large",
    ),
    recipe(
        "file name with NUL",
        '[data]\ntrain = {source = "a\\u0000", target = "b"}',
        "r.toml: data.train.source: 'a\\x00' was given; expected a file's name, or a list of them",
    ),
    Case(
        "no such recipe",
        {},
        ["recipes", "show", "gramar"],
        "gramar: no such recipe; did you mean 'grammar'?, or give a .toml file",
    ),
    Case(
        "no such recipe file",
        {},
        ["recipes", "show", "none.toml"],
        "none.toml: cannot be read (No such file or directory)",
    ),
    Case(
        "a recipe that is a folder",
        {"r.toml/x": ""},
        ["recipes", "show", "r.toml"],
        "r.toml: cannot be read (is a folder, expected a file)",
    ),
    Case(
        "a name too long for a file",
        {},
        ["recipes", "show", "x" * 5000],
        "x" * 80 + "…, or give a .toml file",
    ),
    change("set without a value", "seed", "--set seed: expected NAME=VALUE, for example training.steps=500"),
    change(
        "set huge integer",
        f"seed={DIGITS}",
        "seed: '999999999999999999999999999999… was given; input should be a valid integer",
    ),
    change("set Arabic digits", "seed=٣", "seed: '٣' was given; input should be a valid integer"),
    change(
        "set superscript digit", "training.steps=²", "training.steps: '²' was given; input should be a valid integer"
    ),
    change(
        "set fullwidth digits",
        "training.steps=１２",
        "training.steps: '１２' was given; input should be a valid integer",
    ),
    change(
        "set NaN",
        "training.learning_rate=nan",
        "training.learning_rate: nan was given; input should be a finite number",
    ),
    change(
        "set infinity",
        "training.learning_rate=inf",
        "training.learning_rate: inf was given; input should be a finite number",
    ),
    change(
        "set negative", "training.steps=-1", "training.steps: -1 was given; input should be greater than or equal to 1"
    ),
    change("set nested value", f"seed={DEEP}", "--set seed: the value is nested too deeply"),
    change(
        "set a name of a thousand parts",
        "a." * 1000 + "b=1",
        "--set a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.…: unknown setting; no name has more than 8 parts",
    ),
    change("set a lone surrogate", "data.train=\udcff", "'\\udcff' has a lone surrogate, which is not valid text"),
    change("set into a number", "seed.x=1", "seed: {'x': 1} was given; input should be a valid integer"),
    change(
        "set too large a share",
        "data.holdout.valid=0.9",
        "data.holdout.valid: 0.9 was given; input should be less than 0.5",
    ),
    Case(
        "pairs of one column",
        {"p.tsv": "a\nb\n"},
        ["train", "p.tsv"],
        "p.tsv: 1 column; expected a source, a tab and a target in each line; …",
    ),
    Case("pairs not UTF-8", {"p.tsv": b"a\t\xff\n"}, ["train", "p.tsv"], "p.tsv:1: not valid UTF-8 (byte 0xff …"),
    Case("a folder without pairs", {"p/x.tsv": "a\tb\n"}, ["train", "p"], "p: no file whose name begins with train; …"),
    change("set an unknown group", "modle.tie=all", "modle: unknown setting; did you mean 'model'?"),
    change(
        "set huge layers",
        "model.encoder.layers=1000000000",
        "model.encoder.layers: 1000000000 was given; input should be less than or equal to 1000",
    ),
    change(
        "set huge width",
        "model.embedding=1000000000000",
        "model.embedding: 1000000000000 was given; input should be less than or equal to 1000000",
    ),
    change(
        "set huge seed",
        "seed=" + "9" * 40,
        "seed: 9999999999999999999999999999999999999999 was given; input should be less than 9223372036854775808",
    ),
    # data files
    show("none.tsv", None, "none.tsv: no such file, recipe or built-in corpus; choose one of …"),
    show("empty.gz", b"", "empty.gz: not a gzip file, though its name ends in .gz"),
    show("text.gz", b"a\tb\n", "text.gz: not a gzip file, though its name ends in .gz"),
    show("cut.gz", gzip.compress(b"a\tb\n" * 10_000)[:-20], "cut.gz: damaged gzip file (after line 7354)"),
    show("torn.bz2", b"BZh9torn", "torn.bz2: damaged bzip2 file (after line 0)"),
    show("torn.xz", b"\xfd7zXZ\0torn", "torn.xz: damaged xz file (after line 0)"),
    show("torn.zst", b"\x28\xb5\x2f\xfdtorn", "torn.zst: damaged zstd file (after line 0)"),
    show(
        "torn.parquet",
        b"PAR1torn",
        "torn.parquet: cannot be read: Parquet magic bytes not found in footer. …",
        "--source",
        "a",
        "--target",
        "b",
    ),
    show(
        "column.csv", "x,y\n1,2\n", "column.csv:1: no column 'a'; choose one of x, y", "--source", "a", "--target", "y"
    ),
    show(
        "twice.csv",
        "x,x\n1,2\n",
        "twice.csv:1: column 'x' occurs 2 times in the header; give its number",
        "--source",
        "x",
        "--target",
        "x",
    ),
    show(
        "superscript.tsv",
        PAIRS,
        "superscript.tsv:1: no column '²'; choose one of a b, b a",
        "--source",
        "²",
        "--target",
        "1",
    ),
    show(
        "zero.tsv",
        PAIRS,
        "data.train.source: 0 was given; expected a column's name, or its number from 1 on",
        "--source",
        "0",
        "--target",
        "1",
    ),
    Case(
        "a folder as data",
        {"folder/x": ""},
        ["data", "show", "folder"],
        "folder: no file whose name begins with train; …",
    ),
    Case(
        "a device as data",
        {},
        ["data", "show", "/dev/zero"],
        "/dev/zero: a line of more than 1048576 bytes; is this a text file?",
    ),
    train(
        "three columns",
        {"r.toml": TINY, "p.tsv": "a\tb\tCC-BY 2.0\n"},
        f"HERE/p.tsv:1: 3 columns, but the third, 'CC-BY 2.0', is not a list of links such as '0-0 1-2'{CHOOSE}{SKIP}",
    ),
    train(
        "four columns",
        {"r.toml": TINY, "p.tsv": "a\tb\tc\td\n"},
        f"HERE/p.tsv:1: 4 columns, expected 2 (source, tab, target){CHOOSE}{SKIP}",
    ),
    train(
        "one column",
        {"r.toml": TINY, "p.tsv": "a\n"},
        f"HERE/p.tsv:1: 1 column, expected 2 (source, tab, target){SKIP}",
    ),
    train(
        "links outside",
        {"r.toml": TINY, "p.tsv": "a\tb\t0-7\n"},
        f"HERE/p.tsv:1: link 0-7 points outside the pair, which has 1 source and 1 target words{SKIP}",
    ),
    train(
        "links of many digits",
        {"r.toml": TINY, "p.tsv": f"a\tb\t0-{DIGITS}\n"},
        f"HERE/p.tsv:1: 3 columns, but the third, '0-99…', is not a list of links such as '0-0 1-2'{CHOOSE}{SKIP}",
    ),
    train(
        "links of Arabic digits",
        {"r.toml": TINY, "p.tsv": "a\tb\t٠-٠\n"},
        f"HERE/p.tsv:1: 3 columns, but the third, '٠-٠', is not a list of links such as '0-0 1-2'{CHOOSE}{SKIP}",
    ),
    train(
        "data not UTF-8",
        {"r.toml": TINY, "p.tsv": b"a\t\xff\n"},
        f"HERE/p.tsv:1: not valid UTF-8 (byte 0xff at column 3); convert the file, e.g. with iconv{SKIP}",
    ),
    train(
        "data all blank",
        {"r.toml": TINY, "p.tsv": " \t \n"},
        "data.train: no pair is left to train on; `weft data check` says why they were dropped",
    ),
    train(
        "data empty",
        {"r.toml": TINY, "p.tsv": ""},
        "data.train: no pair is left to train on; `weft data check` says why they were dropped",
    ),
    train(
        "no training data",
        {"r.toml": TINY},
        "data.train: HERE/p.tsv: no such file, and no built-in corpus of that name; choose one of …",
    ),
    train(
        "no test data",
        GOOD,
        "data.test: HERE/none.tsv: no such file, and no built-in corpus of that name; choose one of …",
        "--set",
        "data.test=none.tsv",
    ),
    train("no test files", GOOD, "data.test: HERE/a: no such file", "--set", "data.test={source='a', target='p.tsv'}"),
    train(
        "no test pattern",
        GOOD,
        "data.test: HERE/*.csv: no such file",
        "--set",
        "data.test={file='*.csv', source=1, target=2}",
    ),
    train(
        "prepared is a file",
        GOOD,
        "HERE/p.tsv: not a prepared corpus (it has no about.json); see `weft data prepare`",
        "--set",
        "data.prepared=p.tsv",
    ),
    train(
        "JSON lines nested",
        {"r.toml": TINY, "p.jsonl": DEEP},
        f"HERE/p.jsonl:1: JSON that is nested too deeply{SKIP}",
        *JSON,
    ),
    train(
        "JSON lines not objects",
        {"r.toml": TINY, "p.jsonl": "3\n"},
        f"HERE/p.jsonl:1: is text or a number, expected a JSON object ({{…}}) in each line{SKIP}",
        *JSON,
    ),
    train(
        "JSON lines with NaN",
        {"r.toml": TINY, "p.jsonl": '{"a": NaN, "b": "x"}\n'},
        f"HERE/p.jsonl:1: column 'a' is null, expected text{SKIP}",
        *JSON,
    ),
    train(
        "JSON lines with a surrogate",
        {"r.toml": TINY, "p.jsonl": '{"a": "\\ud800", "b": "x"}\n'},
        f"HERE/p.jsonl:1: column 'a' has a lone surrogate, which is not valid text{SKIP}",
        *JSON,
    ),
    train(
        "slow pattern",
        {"r.toml": TINY, "p.tsv": "x\ty\n" + "a" * 60 + "!\ty\n"},
        "HERE/p.tsv:2: data.pipeline: pattern '(a+)+$' took more than 0.3 seconds on 'aa…'; write it without …",
        "--set",
        f"data.pipeline=[{BOMB}]",
    ),
    train(
        "slow replacement",
        {"r.toml": TINY, "p.tsv": "x\ty\nx\t" + "a" * 60 + "!\n"},
        "HERE/p.tsv:2: data.pipeline: replace '(a|aa)+$' took more than 0.3 seconds on 'aa…'; write it without …",
        "--set",
        "data.pipeline=[{kind='replace', expression='(a|aa)+$'}]",
    ),
    train(
        "slow protected pattern",
        GOOD,
        "protect '(a+)+$': takes too long on a long word; …",
        "--set",
        "tokenizer.protect=['(a+)+$']",
    ),
    train(
        "empty protected pattern",
        GOOD,
        "protect 'a*': matches the empty text; write it so that it cannot",
        "--set",
        "tokenizer.protect=['a*']",
    ),
    train(
        "unknown metric",
        GOOD,
        "evaluation.metrics: unknown metric 'blue'; did you mean 'bleu'?",
        "--set",
        "evaluation.metrics=['blue']",
    ),
    train(
        "unknown device",
        GOOD,
        "training.device: 'gpu' is not a device; use auto, cpu, cuda or cuda:0",
        "--set",
        "training.device=gpu",
    ),
    train(
        "start from nothing",
        GOOD,
        "none: no such run folder; train one with `weft train RECIPE --out none`",
        "--from",
        "none",
    ),
    train("resume nothing", GOOD, "out: no such run folder; train one with `weft train RECIPE --out out`", "--resume"),
    # tokenizer files
    train("no tokenizer", GOOD, "HERE/t.json: cannot read the tokenizer: no such file", *FILE),
    train(
        "tokenizer is a folder",
        {**GOOD, "t.json/x": ""},
        "HERE/t.json: cannot read the tokenizer: is a folder, expected a file",
        *FILE,
    ),
    train("tokenizer is a device", GOOD, "/dev/zero: not a regular file", "--set", "tokenizer.file=/dev/zero"),
    train(
        "tokenizer is empty",
        {**GOOD, "t.json": ""},
        "HERE/t.json: damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model",
        *FILE,
    ),
    train(
        "tokenizer nested",
        {**GOOD, "t.json": DEEP},
        "HERE/t.json: damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model",
        *FILE,
    ),
    train(
        "tokenizer is a list",
        {**GOOD, "t.json": "[]"},
        "HERE/t.json: not a tokenizer written by weft, nor a tokenizer.json",
        *FILE,
    ),
    train(
        "tokenizer of a newer version",
        {**GOOD, "t.json": '{"weft_tokenizer": 99, "kind": "word"}'},
        "HERE/t.json: written by a newer weft (format 99; this one reads format 2)",
        *FILE,
    ),
    train(
        "tokenizer with a slow expression",
        {**GOOD, "t.json": tokenizer(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "x"})},
        "HERE/t.json: one of its regular expressions takes too long on a long word: …",
        *FILE,
    ),
    train(
        "tokenizer that aborts",
        {
            **GOOD,
            "t.json": tokenizer(
                normalizer={
                    "type": "Precompiled",
                    "precompiled_charsmap": base64.b64encode(b"\xff" * 4 + b"x" * 9).decode(),
                }
            ),
        },
        "HERE/t.json: damaged, or not a tokenizer.json: needs too much memory, or has made its library abort",
        *FILE,
    ),
    train(
        "tokenizer that panics",
        {**GOOD, "t.json": tokenizer(decoder={"type": "Strip", "content": "a", "start": 5, "stop": 5})},
        "HERE/t.json: damaged, or not a tokenizer.json: index out of bounds: …",
        *FILE,
    ),
    train(
        "SentencePiece model cut off",
        {**GOOD, "t.model": b"\n\x10\n\x05<unk>"},
        "HERE/t.model: damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model",
        "--set",
        "tokenizer.file=t.model",
    ),
    # runs
    Case(
        "no such run",
        {},
        ["translate", "none", "in.txt"],
        "none: no such run folder; train one with `weft train RECIPE --out none`",
    ),
    Case(
        "a run that is a file",
        {"file": "x"},
        ["translate", "file"],
        "file: no such run folder; train one with `weft train RECIPE --out file`",
    ),
    Case(
        "a folder that is no run",
        {"folder/x": "x"},
        ["translate", "folder"],
        "folder: not a run folder (it has no recipe.toml)",
    ),
    run("run without recipe", {"RUN/recipe.toml": None}, "RUN: not a run folder (it has no recipe.toml)"),
    run(
        "recipe of a run damaged",
        {"RUN/recipe.toml": "seed = "},
        "RUN/recipe.toml: not valid TOML: Invalid value (at end of document)",
    ),
    run(
        "recipe of a run nested",
        {"RUN/recipe.toml": f"x = {DEEP}"},
        "RUN/recipe.toml: not valid TOML: it is nested too deeply",
    ),
    run(
        "recipe of a run with a key of 20,000 parts",
        {"RUN/recipe.toml": f"{'.'.join('a' * 20_000)} = 1"},
        "RUN/recipe.toml: settings are nested more than 32 deep",
    ),
    run(
        "a run with a key of 20,000 parts that is resumed",
        {"RUN/recipe.toml": f"{'.'.join('a' * 20_000)} = 1"},
        "RUN/recipe.toml: settings are nested more than 32 deep",
        *("train", "RUN", "--resume"),
    ),
    run(
        "a record of data files that is damaged",
        {
            "RUN/data_files.json": "[",
            "RUN/recipe.toml": "[data]\ntrain = 'in.txt'",
            "RUN/in.txt": "a\tb",
            "RUN/model.safetensors": "",
        },
        "RUN/data_files.json: damaged; it is not valid JSON (line 1, column 2)",
        *("data", "show", "RUN/recipe.toml"),
    ),
    run(
        "import of a run",
        {},
        "RUN: is a run of weft already; use it as it is: weft translate RUN",
        *("import", "RUN", "--out", "out"),
    ),
    run(
        "a service of a run with a damaged recipe",
        {"RUN/recipe.toml": None},
        "RUN: not a run folder (it has no recipe.toml)",
        *("serve", "RUN"),
    ),
    Case(
        "new data of a new run",
        GOOD,
        ["train", "r.toml", "--out", "out", "--accept-new-data"],
        "--accept-new-data: is for a run that is resumed; add --resume, or leave it out",
    ),
    *(
        Case(
            f"a folder in /proc for {command[0]}",
            {**GOOD, "m/model.npz": "x"},
            [*command, "--out", "/proc/x"],
            f"/proc/x: {reason}no folder can be created there…",
        )
        for command, reason in ((["train", "r.toml"], "cannot write: "), (["import", "m"], ""))
        if Path("/proc/self").exists()
    ),
    run(
        "recipe of a run with a huge model",
        {"RUN/recipe.toml": "[model]\nembedding = 100000000"},
        "RUN/recipe.toml: model.embedding: 100000000 was given; input should be less than or equal to 1000000",
    ),
    run(
        "run without tokenizer",
        {"RUN/tokenizer.json": None},
        "RUN/tokenizer.json: missing; the run folder is incomplete",
    ),
    run(
        "tokenizer of a run damaged",
        {"RUN/tokenizer.json": "{"},
        "RUN/tokenizer.json: damaged, or not a tokenizer: it is neither a JSON file nor a SentencePiece model",
    ),
    run(
        "tokenizer of a run of another model",
        {"RUN/tokenizer.json": tokenizer()},
        "RUN/model.safetensors: does not fit its recipe: tensor … is (10, 11), expected (6, 11)",
    ),
    run(
        "run without weights",
        {"RUN/model.safetensors": None},
        "RUN/model.safetensors: missing; the run folder is incomplete",
    ),
    run(
        "weights of a run cut off",
        {"RUN/model.safetensors": b"\xff" * 8 + b"{}"},
        "RUN/model.safetensors: damaged (its header has …, the limit is 16,777,216); …",
    ),
    run(
        "weights of a run empty",
        {"RUN/model.safetensors": b""},
        "RUN/model.safetensors: damaged (… header too small); restore it from a copy, or train again",
    ),
    run("no input file", {}, "none.txt: no such file", "translate", "RUN", "none.txt"),
    run("input is a folder", {"folder/x": ""}, "folder: is a folder, expected a file", "translate", "RUN", "folder"),
    run(
        "input not UTF-8",
        {"in.txt": b"\xff\n"},
        "in.txt:1: not valid UTF-8 (byte 0xff at column 1); …; or skip such lines with --bad-lines skip",
    ),
    run(
        "input is not gzip",
        {"in.gz": b"a\n"},
        "in.gz: not a gzip file, though its name ends in .gz",
        "translate",
        "RUN",
        "in.gz",
    ),
    run(
        "unknown search",
        {},
        "search.kind: 'beem' was given; input should be 'greedy', 'beam', 'sample', 'mbr', 'exact' or 'exhaustive'",
        "translate",
        "RUN",
        "in.txt",
        "--search",
        "beem",
    ),
    run(
        "beam of Arabic digits",
        {},
        "search.size: '٣' was given; input should be a valid integer",
        "translate",
        "RUN",
        "in.txt",
        "--set",
        "search.size=٣",
    ),
    run(
        "a batch of no tokens",
        {},
        "search.batch_tokens: 0 was given; expected a whole number from 1 to 1000000000000, or auto",
        "translate",
        "RUN",
        "in.txt",
        "--set",
        "search.batch_tokens=0",
    ),
    run(
        "a setting that is none of search",
        {},
        "--set seed=3: only search settings of a trained run can be changed (search.size=8)",
        "translate",
        "RUN",
        "in.txt",
        "--set",
        "seed=3",
    ),
    run("evaluate without a file", {}, "none.tsv: no such file", "evaluate", "RUN", "none.tsv"),
    run(
        "evaluate with three columns",
        {"p.tsv": "a\tb\tc\n"},
        "p.tsv:1: 3 columns, but the third, 'c', is not a list of links such as '0-0 1-2'; keep two (cut -f 1,2), …",
        "evaluate",
        "RUN",
        "p.tsv",
    ),
    run(
        "score with one column",
        {"p.tsv": "a\n"},
        "p.tsv:1: 1 column, expected 2 (source, tab, target); or skip such lines with --bad-lines skip",
        "score",
        "RUN",
        "p.tsv",
    ),
    imported("import nothing", {}, "none: no such folder, and not the name of a model on the Hub (OWNER/NAME)", "none"),
    imported("import an empty folder", {"m/a": ""}, "m/config.json: missing; a model folder of Hugging Face has one"),
    imported("import JSON that is none", {"m/config.json": "{"}, "m/config.json: …"),
    imported("import a model without type", {"m/config.json": "{}"}, "m/config.json: model_type: is missing; weft …"),
    imported(
        "import a decoder",
        {"m/config.json": '{"model_type": "llama"}'},
        "m/config.json: model_type: 'llama' is not imported; weft imports bart, m2m_100, marian, …",
    ),
    imported(
        "import a pickle",
        {"m/config.json": '{"model_type": "t5"}', "m/pytorch_model.bin": ""},
        "m/pytorch_model.bin: not read: a pickle can run code, …",
    ),
    imported(
        "import a truncated model",
        {"m/config.json": '{"model_type": "t5"}', "m/model.safetensors": "x"},
        "m/model.safetensors: damaged or incomplete (…); download it again",
    ),
    imported(
        "import a truncated model of Marian",
        {"m/model.npz": "x", "m/vocab.spm": ""},
        "m/model.npz: damaged, incomplete, or not a model of Marian (…)",
    ),
    imported("import a model of Marian without vocabulary", {"m/model.npz": "x"}, "m: no vocabulary found; name …"),
    imported("import a packed model of Marian", {"m/model.bin": "x"}, "m/model.bin: not imported: a .bin of Marian …"),
    imported("import a damaged checkpoint", {"m.pt": "x"}, "m.pt: damaged, incomplete, or not a checkpoint …", "m.pt"),
    imported("import one of several checkpoints", {"m/a.pt": "", "m/b.pt": ""}, "m: has 2 checkpoints; name one …"),
    imported(
        "import a command",
        {"m/checkpoint_best.pt": b"cposix\nsystem\n(S'touch executed'\ntR."},
        "m/checkpoint_best.pt: …",
    ),
    # adapters
    run("adapter list without a run", {}, "nowhere: no such run folder; …", "adapter", "list", "nowhere"),
    run(
        "an unknown adapter",
        {},
        "--adapter x: RUN has no adapter of this name; it has none",
        *("translate", "RUN", "in.txt", "--adapter", "x"),
    ),
    run(
        "an adapter outside of the run",
        {"other/adapter_model.safetensors": b""},
        "--adapter ../../other: RUN has no adapter of this name; it has none",
        *("translate", "RUN", "in.txt", "--adapter", "../../other"),
    ),
    run(
        "export of an unknown adapter",
        {},
        "--adapter x: RUN has no adapter of this name; it has none",
        *("adapter", "export", "RUN", "x", "--out", "out"),
    ),
    run(
        "a folder that is no adapter",
        {"peft/x": ""},
        "peft/adapter_config.json: missing; an adapter is a folder with adapter_config.json and …",
        *ADD,
    ),
    run("an adapter of another kind", {PEFT: "{}"}, f"{PEFT}: peft_type: None is not known; weft reads 'LORA'", *ADD),
    run("configuration of an adapter damaged", {PEFT: "{"}, f"{PEFT}: damaged…", *ADD),
    run("configuration of an adapter nested", {PEFT: DEEP}, f"{PEFT}: damaged; its JSON is nested too deeply", *ADD),
    run("configuration of an adapter a list", {PEFT: "[]"}, f"{PEFT}: damaged; expected an object", *ADD),
    run(
        "an adapter without weights",
        {PEFT: LORA},
        "peft/adapter_model.safetensors: not read: an adapter has one",
        *ADD,
    ),
    run(
        "an adapter that is a pickle",
        {PEFT: LORA, "peft/adapter_model.bin": b"x"},
        "peft/adapter_model.bin: not read: a pickle can run code; save it as safetensors",
        *ADD,
    ),
    run(
        "weights of an adapter cut off",
        {PEFT: LORA, "peft/adapter_model.safetensors": b"\xff" * 8 + b"{}"},
        "peft/adapter_model.safetensors: …its header has …, the limit is 16,777,216…",
        *ADD,
    ),
    run(
        "weights of an adapter empty",
        {PEFT: LORA, "peft/adapter_model.safetensors": b"\x02" + b"\0" * 7 + b"{}"},
        "peft/adapter_model.safetensors: has no tensors",
        *ADD,
    ),
    train("adapters without a rank", GOOD, "--lora 16: expected NAME=VALUE separated by …", "--lora", "16"),
    train("adapters of rank 0", GOOD, "--lora rank=0: needs a rank, for example rank=16", "--lora", "rank=0"),
    train(
        "adapters of rank x",
        GOOD,
        "r.toml: training.lora.rank: 'x' was given; input should be a valid integer",
        "--lora",
        "rank=x",
    ),
    train(
        "adapters of unknown projections",
        GOOD,
        "training.lora.targets: no projection matches 'qury'; this model has …",
        *("--lora", "rank=2,targets=qury", "--from", "RUN"),
    ),
]


@pytest.fixture(scope="session")
def trained(tiny, tmp_path_factory):
    """A run that was trained for a moment."""
    from weft.training.train import train as train_model

    folder = tmp_path_factory.mktemp("trained") / "run"
    list(train_model(tiny({"training.steps": 60, "training.validate_every": 30}), folder))
    return folder


@pytest.fixture
def typed(monkeypatch, capfd, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Exit code, stdout and stderr of a command."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.text.isolation.CPU_SECONDS", 0.3)
    monkeypatch.setattr("weft.data.reading.text_files.MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("weft.apps.cli.raise_on_signals", lambda: None)  # the signals of this process are for pytest

    def typed(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capfd.readouterr())

    return typed


def write(files: dict[str, Content], folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_one_line(case, typed, request, tmp_path):
    if "RUN" in case.command:
        shutil.copytree(request.getfixturevalue("trained"), tmp_path / "RUN")
    write({"in.txt": "a\n", **case.files}, tmp_path)
    code, stdout, stderr = typed(*case.command)
    assert (code, stdout) == (2, ""), stderr
    assert stderr.startswith("weft: ") and stderr.count("\n") == 1 and len(stderr) < 1000
    line = stderr.removeprefix("weft: ").rstrip("\n").replace(str(tmp_path), "HERE")
    assert re.fullmatch(".*".join(map(re.escape, case.line.split("…"))), line), line


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
@pytest.mark.parametrize(
    "command", [("translate", "RUN", "in.txt"), ("bench", "train", "addition"), ("tune", "addition"), ("sample", "RUN")]
)
def test_a_device_that_is_not_here(command, typed, trained, tmp_path):
    """The message names the option, not a setting that the user has not seen."""
    shutil.copytree(trained, tmp_path / "RUN")
    (tmp_path / "in.txt").write_text("a\n", "utf-8")
    code, _, stderr = typed(*command, "--device", "cuda")
    assert (code, stderr) == (2, "weft: --device cuda: this machine has no CUDA; use cpu or auto\n")


NAMES = [setting.name for setting in settings_of(load_recipe("grammar"))]
VALUES = st.one_of(
    st.text(max_size=8),
    st.integers().map(str),
    st.sampled_from(
        ["nan", "inf", "-inf", "[]", "{}", "[[]]", "none", "true", "''", "'\\u0000'", "²", "٣", "1e999", "=", "-0"]
    ),
    st.sampled_from(
        ["{kind='length'}", "[{kind='pattern', expression='('}]", "{file='x', source=0}", "9" * 5000, "[" * 500]
    ),
)


@given(st.lists(st.tuples(st.sampled_from(NAMES) | st.text(max_size=6), VALUES), max_size=4))
def test_any_changes_make_a_recipe_or_errors_of_a_line(changes):
    try:
        load_recipe("grammar", [f"{name}={value}" for name, value in changes])
    except RecipeError as error:
        assert all(line and line.isprintable() and len(line) < 500 for line in str(error).split("\n"))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just("9" * 5000),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([name.split(".")[-1] for name in NAMES]) | st.text(max_size=4), inner, max_size=3
        )
    ),
    max_leaves=12,
)
SECTIONS = st.dictionaries(st.sampled_from(["data", "tokenizer", "model", "training", "search", "seed", "x"]), TREES)


@given(SECTIONS)
def test_any_settings_make_a_recipe_or_errors_of_a_line(tree):
    try:
        make_recipe(tree)
    except RecipeError as error:
        assert all(line and line.isprintable() for line in str(error).split("\n"))


@given(st.binary(max_size=60) | st.text("[]{}='\"\n.a1e_-+:#\\\ufeff\0", max_size=60).map(str.encode))
def test_any_file_is_a_recipe_or_an_error_of_a_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    try:
        load_recipe(path)
    except RecipeError as error:
        assert all(line.startswith(f"{path}: ") and line.isprintable() for line in str(error).split("\n"))
