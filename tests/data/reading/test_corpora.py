"""Corpora: their files, what is done about bad rows, and those that are more than tables."""

from __future__ import annotations

import json
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fixtures.corpus_rows import dataset, dialogues, failure, instructions, rows, table, the_problem, write
from weft.data.pairs import Pair, RowError
from weft.data.reading import corpora
from weft.data.reading.corpora import (
    Corpus,
    ParallelText,
    PlainLines,
    Table,
    TextPairs,
    check_standard_input,
    expand,
    read,
)
from weft.recipe.data import TableFile


class TestFiles:
    def test_patterns_are_expanded_in_order(self, tmp_path: Path) -> None:
        for name in ("b2.tsv", "b1.tsv", "a.tsv", "[x].tsv"):
            write(tmp_path / name, f"{name}\tx\n")
        paths = (str(tmp_path / "b*.tsv"), str(tmp_path / "a.tsv"), str(tmp_path / "[x].tsv"))
        corpus = TextPairs(paths)
        assert [pair.source for pair in read(corpus)] == ["b1.tsv", "b2.tsv", "a.tsv", "[x].tsv"]
        assert [path.name for path in corpus.files()] == ["b1.tsv", "b2.tsv", "a.tsv", "[x].tsv"]
        assert [number for number, _ in rows(corpus)] == [1] * 4, "each file counts its own lines"
        assert expand(("-", "x")) == ["-", "x"]

    def test_a_pattern_without_files(self, tmp_path: Path) -> None:
        path = str(tmp_path / "*.tsv")
        assert failure(TextPairs((path,))) == f"{path}: no file has a name like that"

    def test_files_belong_together_one_by_one(self, tmp_path: Path) -> None:
        for name in ("1.en", "2.en", "1.fr", "2.fr"):
            write(tmp_path / name, f"{name}\n")
        corpus = ParallelText((str(tmp_path / "*.en"),), (str(tmp_path / "*.fr"),))
        assert list(read(corpus)) == [Pair("1.en", "1.fr"), Pair("2.en", "2.fr")]
        assert len(corpus.files()) == 4
        given = str(tmp_path / "*.en"), str(tmp_path / "2.fr")
        assert failure(ParallelText(given[:1], given[1:])) == (
            f"{given[0]} and {given[1]}: 2 files of sources, 1 of targets; they must correspond file by file"
        )

    def test_surplus_lines_are_counted(self, tmp_path: Path) -> None:
        long, short = write(tmp_path / "a", "1\n2\n3\n"), write(tmp_path / "b", "1\n")
        problems: Counter[str] = Counter()
        assert list(read(ParallelText((long,), (short,)), "skip", problems)) == [Pair("1", "1")]
        assert problems == {"unpaired": 2}

    def test_standard_input_is_one_corpus(self) -> None:
        message = "<standard input>: is named twice (-); it can be read once only"
        twice: list[list[Corpus]] = [
            [TextPairs(("-", "-"))],
            [ParallelText(("-",), ("-",))],
            [TextPairs(("-",)), PlainLines(("-",))],
        ]
        for both in twice:
            assert failure(lambda: check_standard_input(both)) == message  # noqa: B023 (called at once)
        check_standard_input([TextPairs(("-",)), ParallelText(("a",), ("b",)), dataset("x", "x", "y")])


class TestPolicy:
    def test_a_problem_is_raised_or_counted(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.tsv", b"a\tb\nc\n\xff\t\nd\te\tx\n\tf\n")
        corpus = TextPairs((path,))
        found = read(corpus)
        assert next(found) == Pair("a", "b")
        assert failure(lambda: found) == f"{path}:2: 1 column, expected 2 (source, tab, target)"
        problems: Counter[str] = Counter()
        assert list(read(corpus, "skip", problems)) == [Pair("a", "b"), Pair("", "f")]
        assert problems == {"columns": 1, "encoding": 1, "links": 1}
        assert list(read(corpus, "skip")) == [Pair("a", "b"), Pair("", "f")]


def test_plain_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one line\nsource\ttarget\n\n\xff\n")
    *found, (number, problem) = rows(PlainLines((path,)))
    assert [pair for _, pair in found] == [Pair("", "one line"), Pair("", "target"), Pair("", "")]
    assert number == 4 and isinstance(problem, RowError) and problem.kind == "encoding"


class TestInstructions:
    def test_a_template_is_filled_in(self, tmp_path: Path) -> None:
        lines = [
            {"instruction": "Add {x}", "input": "1 2", "output": "3", "context": "c"},
            {"instruction": "Hello", "input": " ", "output": "Hi", "context": "d"},
            {"instruction": "Hello", "output": "Hi", "context": ""},
            {"instruction": "Hello", "input": None, "output": "", "context": ""},
        ]
        path = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        assert list(read(instructions(path))) == [
            Pair("Add {x}\n1 2", "3"),
            Pair("Hello", "Hi"),
            Pair("Hello", "Hi"),
            Pair("Hello", ""),
        ]
        corpus = instructions(
            path, template="{{{context}}} {instruction}: {input}", template_without_input="{context}|{instruction}"
        )
        assert list(read(corpus))[:2] == [Pair("{c} Add {x}: 1 2", "3"), Pair("d|Hello", "Hi")]

    def test_other_columns_and_formats(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.tsv", "ask\tanswer\tmore\nq\ta\tm\n")
        assert list(read(instructions(path, instruction="ask", input="more", output="answer"))) == [Pair("q\nm", "a")]
        assert list(read(instructions(path, instruction=1, input=None, output=2, header=True))) == [Pair("q", "a")]
        corpus = instructions(path, instruction="ask", input="none", output="answer")
        assert list(read(corpus)) == [Pair("q", "a")], "the input is optional"
        pq.write_table(pa.table({"instruction": ["q"], "output": ["a"]}), tmp_path / "a.parquet")
        assert list(read(instructions(tmp_path / "a.parquet"))) == [Pair("q", "a")]

    def test_rows_without_an_output(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", '{"instruction": "x"}\n')
        assert the_problem(instructions(path)) == ("columns", "no column 'output'; choose one of instruction")
        path = write(tmp_path / "b.jsonl", '{"instruction": "x", "input": [], "output": "y"}\n')
        assert the_problem(instructions(path)) == ("type", "column 'input' is a list, expected text")

    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ("{", "template: a single '{' at character 1; write '{{'"),
            ("a}b", "template: a single '}' at character 2; write '}}'"),
            ("{}", "template: '{}' names no column; write {name}, or {{ for a brace"),
            ("{0}", "template: '{0}' names no column; write {name}, or {{ for a brace"),
            ("{input!r}", "template: '{input!r}' names no column; write {name}, or {{ for a brace"),
            ("{input:>9}", "template: '{input:>9}' names no column; write {name}, or {{ for a brace"),
            ("{x[0]}", "template: '{x[0]}' names no column; write {name}, or {{ for a brace"),
            ("{output}", "template: {output} is the target; a template for the source cannot contain it"),
        ],
    )
    def test_templates_that_cannot_be(self, template: str, message: str) -> None:
        assert failure(lambda: instructions("x", template=template)) == message
        assert failure(lambda: instructions("x", template_without_input=template)) == message


class TestDialogues:
    def expected(self, turns: list[str], context: int, separator: str) -> list[Pair]:
        """Literally: each turn but the first, after at most so many before it."""
        found = []
        for place in range(1, len(turns)):
            before = []
            for other in range(len(turns)):
                if place - context <= other < place:
                    before.append(turns[other])
            found.append(Pair(separator.join(before), turns[place]))
        return found

    @pytest.mark.parametrize("context", [1, 2, 3, 9])
    def test_every_format(self, tmp_path: Path, context: int) -> None:
        turns = ["hello", "hi", "how are you", "fine", "good"]
        expected = self.expected(turns, context, "|")
        objects = [{"role": "x", "content": turn} for turn in turns]
        pq.write_table(pa.table({"turns": [turns], "messages": [objects]}), tmp_path / "d.parquet")
        parquet = str(tmp_path / "d.parquet")
        paths: list[tuple[str, int | str | None]] = [
            (write(tmp_path / "d", "\t".join(turns)), None),
            (write(tmp_path / "e", "\t".join(["id", *turns])), 2),
            (write(tmp_path / "d.csv", ",".join(f'"{turn}"' for turn in turns)), None),
            (write(tmp_path / "d.jsonl", json.dumps(turns)), None),
            (write(tmp_path / "e.jsonl", json.dumps({"turns": [{"text": turn} for turn in turns]})), None),
            (write(tmp_path / "f.jsonl", json.dumps({"a": {"b": objects}})), "a.b"),
            (parquet, None),
            (parquet, "messages"),
        ]
        for path, column in paths:
            corpus = dialogues(path, turns=column, context=context, separator="|")
            assert rows(corpus) == [(1, pair) for pair in expected], path

    @pytest.mark.parametrize(
        ("line", "kind", "message"),
        [
            ('["a"]', "turns", "a dialogue of 1 turn, expected at least 2"),
            ("[]", "turns", "a dialogue of 0 turns, expected at least 2"),
            ('{"turns": "a"}', "type", "column 'turns' is not a list of turns"),
            ('{"turns": null}', "columns", "column 'turns' is not a list of turns"),
            ('{"x": 1}', "columns", "no column 'turns'; choose one of x"),
            ('["a", {"x": 1}]', "columns", "turn 2 has neither 'text' nor 'content' nor 'value'"),
            ('["a", null]', "columns", "turn 2 is null, expected text"),
            ('["a", ["b"]]', "type", "turn 2 is a list, expected text"),
        ],
    )
    def test_rows_that_are_none(self, tmp_path: Path, line: str, kind: str, message: str) -> None:
        assert the_problem(dialogues(write(tmp_path / "a.jsonl", line))) == (kind, message)

    def test_dialogues_that_cannot_be(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.tsv", "a\tb\n")
        message = "turns: 'x': in tsv they are columns; give the number of the first"
        assert failure(dialogues(path, turns="x")) == f"{path}: {message}"
        pq.write_table(pa.table({"turns": ["x"]}), tmp_path / "a.parquet")
        message = "column 'turns' is string, expected lists of turns"
        assert failure(dialogues(tmp_path / "a.parquet")) == f"{tmp_path / 'a.parquet'}: {message}"
        path = write(tmp_path / "b.tsv", "only\n")
        assert the_problem(dialogues(path, turns=2)) == ("turns", "a dialogue of 0 turns, expected at least 2")
        path = write(tmp_path / "c.jsonl", '["a", "b"]')
        assert the_problem(dialogues(path, turns="turns"))[0] == "json", "with a name, rows are objects"


class TestDatasets:
    def test_a_saved_data_set(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        made: dict[str, list[dict[str, str | None]]] = {
            "translation": [{"en": f"e{number}", "fr": f"f{number}"} for number in range(2500)]
        }
        made["translation"][3]["fr"] = None
        found = datasets.Dataset.from_dict(made)
        found.save_to_disk(str(tmp_path / "one"))
        datasets.DatasetDict({"valid": found}).save_to_disk(str(tmp_path / "many"))
        columns = "translation.en", "translation.fr"
        for name, split in (("one", "train"), ("many", "valid")):
            corpus = dataset(str(tmp_path / name), *columns, split=split)
            got = rows(corpus)
            assert got[1] == (2, Pair("e1", "f1")) and [number for number, _ in got] == list(range(1, 2501))
            assert isinstance(got[3][1], RowError) and got[3][1].kind == "columns"
            assert len(list(corpus.blocks())) > 1 and corpus.files()
        name = str(tmp_path / "many")
        assert failure(dataset(name, *columns)) == f"{name}: no split 'train'; it has valid"
        name = str(tmp_path / "one")
        assert failure(dataset(name, "translation", "translation.fr")).startswith(
            f"{name}: column 'translation' is struct<"
        )
        assert failure(dataset(name, "x", "translation.fr")).startswith(f"{name}: no column 'x'")

    def test_a_data_set_of_files(self, tmp_path: Path) -> None:
        pytest.importorskip("datasets")
        (tmp_path / "set").mkdir()
        write(tmp_path / "set" / "train.jsonl", '{"a": "x", "b": 1}\n{"a": "y", "b": 2}\n')
        assert list(read(dataset(str(tmp_path / "set"), "a", "b"))) == [Pair("x", "1"), Pair("y", "2")]

    def test_what_is_none(self, tmp_path: Path) -> None:
        pytest.importorskip("datasets")
        name = str(tmp_path / "none")
        assert failure(dataset(name, "a", "b")).startswith(f"{name}: cannot open the data set: ")

    def test_the_library_is_asked_for_in_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "datasets", None)
        message = "x: reading data sets needs the library datasets; pip install datasets"
        assert failure(dataset("x", "a", "b")) == message


class TestSourceColumns:
    """Columns that stay apart: separated by tabs, empty ones included, in every format."""

    RECORDS = (("gehen", "V;PST", "sg", "ging"), ("", "N", "a\tb", "x"), ("y", "", "", "z"))
    PAIRS = (Pair("gehen\t<V><PST>\tsg", "ging"), Pair("\t<N>\ta b", "x"), Pair("y\t\t", "z"))

    def kept(self, path: Path, source: list[Any], target: Any, **settings: Any) -> list[Pair]:
        file = TableFile(file=str(path), source=source, target=target, tags=source[1:2], **settings)
        return list(read(Table((str(path),), file, keeps_columns=True)))

    def test_by_number(self, tmp_path: Path) -> None:
        expected = [pair._replace(source=pair.source.replace("a b", "a")) for pair in self.PAIRS]
        lines = ["\t".join([*row[:2], row[2].split("\t")[0], row[3]]) + "\n" for row in self.RECORDS]
        write(tmp_path / "a.tsv", "".join(lines))
        assert self.kept(tmp_path / "a.tsv", [1, 2, 3], 4) == expected
        write(tmp_path / "a.csv", "".join(lines).replace("\t", ","))
        assert self.kept(tmp_path / "a.csv", [1, 2, 3], 4) == expected

    def test_by_name(self, tmp_path: Path) -> None:
        names = ["lemma", "features", "note", "form"]
        quoted = [",".join(f'"{cell}"' for cell in row) for row in (names, *self.RECORDS)]
        write(tmp_path / "a.csv", "\n".join(quoted) + "\n")
        records = [dict(zip(names, row, strict=True)) for row in self.RECORDS]
        write(tmp_path / "a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
        pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
        for suffix in ("csv", "jsonl", "parquet"):
            assert self.kept(tmp_path / f"a.{suffix}", names[:3], "form") == list(self.PAIRS)

    def test_a_file_of_pairs_has_the_target_last(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.tsv", "a\tb\tc\nd\te\n")
        corpus = corpora.pair_file(path, sources=2)
        assert rows(corpus)[0] == (1, Pair("a\tb", "c"))
        assert the_problem(corpus, 2) == ("columns", "2 columns, but column 3 was requested")
        assert isinstance(corpora.pair_file(path), TextPairs)


def test_every_corpus_is_a_value() -> None:
    made: list[Corpus] = [
        TextPairs(("x",)),
        ParallelText(("x",), ("y",)),
        PlainLines(("x",)),
        table("x", 1, 2),
    ]
    made += [instructions("x"), dialogues("x"), dataset("x", "a", "b")]
    for corpus in made:
        assert pickle.loads(pickle.dumps(corpus)) == corpus
    assert {type(corpus).__name__ for corpus in made} <= set(dir(corpora))
