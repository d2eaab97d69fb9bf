import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.corpus_rows import table
from weft.data.pairs import Pair
from weft.data.reading.corpora import ParallelText, check_standard_input, read
from weft.data.reading.pair_files import read_pairs, write_pairs
from weft.errors import DataError


def read_table(path, *, source, target, tags=()):
    return read(table(path, list(source), list(target), tags=list(tags), format="tsv"))


def read_parallel(source, target):
    return read(ParallelText((str(source),), (str(target),)))


def write(path, text):
    path.write_bytes(text.encode())
    return path


def failure(pairs) -> str:
    with pytest.raises(DataError) as caught:
        list(pairs)
    return str(caught.value)


def test_tab_separated(tmp_path):
    path = write(tmp_path / "a.tsv", "a b\tc d\r\n\tx\n \t\nthe cat\tle chat\t0-0 1-1\nno\tlinks\t\n")
    assert list(read_pairs(path)) == [
        Pair("a b", "c d"),
        Pair("", "x"),
        Pair(" ", ""),
        Pair("the cat", "le chat", ((0, 0), (1, 1))),
        Pair("no", "links", ()),
    ]


CHOOSE = '; keep two (cut -f 1,2), or name them in a recipe: train = {file = "PATH", source = 1, target = 2}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("only one", "1 column, expected 2 (source, tab, target)"),
        ("", "1 column, expected 2 (source, tab, target)"),
        ("a\tb\t0-0\td", f"4 columns, expected 2 (source, tab, target){CHOOSE}"),
        ("a\tb\tc", f"3 columns, but the third, 'c', is not a list of links such as '0-0 1-2'{CHOOSE}"),
        ("a\tb\t0-0  0-0", f"3 columns, but the third, '0-0  0-0', is not a list of links such as '0-0 1-2'{CHOOSE}"),
        (
            "a\tb\t" + "x" * 50,
            f"3 columns, but the third, '{'x' * 40}…', is not a list of links such as '0-0 1-2'{CHOOSE}",
        ),
        ("a b.\tc\t2-0 3-0", "link 3-0 points outside the pair, which has 3 source and 1 target words"),
        ("a\tc\t0-1", "link 0-1 points outside the pair, which has 1 source and 1 target words"),
    ],
)
def test_lines_that_are_no_pairs(tmp_path, line, message):
    path = write(tmp_path / "train.tsv", f"fine\tfine\n{line}\nx\ty\n")
    assert failure(read_pairs(path)) == f"{path}:2: {message.replace('PATH', str(path))}"


def test_parallel_files(tmp_path):
    source = write(tmp_path / "a.en", "one\u2028\ntwo\n\n")
    target = write(tmp_path / "a.fr", "un\r\ndeux\r\nx")
    assert list(read_parallel(source, target)) == [Pair("one\u2028", "un"), Pair("two", "deux"), Pair("", "x")]


def test_parallel_files_of_unequal_length(tmp_path):
    long, short = write(tmp_path / "a.en", "1\n2\n3\n"), write(tmp_path / "a.fr", "1\n")
    ending = "; they must correspond line by line"
    found = read_parallel(long, short)
    assert next(found) == Pair("1", "1")
    alone = "has no counterpart; "
    assert failure(found) == f"{long}:2: {alone}{long} has 3 lines, {short} has 1 line{ending}"
    assert failure(read_parallel(short, long)) == f"{long}:2: {alone}{short} has 1 line, {long} has 3 lines{ending}"
    empty = write(tmp_path / "empty", "")
    assert failure(read_parallel(empty, short)) == f"{short}:1: {alone}{empty} has 0 lines, {short} has 1 line{ending}"


def test_one_standard_input_only():
    with pytest.raises(DataError, match=r"^<standard input>: is named twice \(-\); it can be read once only$"):
        check_standard_input([ParallelText(("-",), ("-",))])


def test_columns_of_a_table(tmp_path):
    path = write(tmp_path / "t.tsv", "Abmachung\tN;ACC(PL)\tAbmachungen\r\n\tV\tx y\tmore\na b\t\t\n")
    assert list(read_table(path, source=[1, 2], target=[3])) == [
        Pair("Abmachung N;ACC(PL)", "Abmachungen"),
        Pair("V", "x y"),  # an empty column leaves no space
        Pair("a b", ""),
    ]
    swapped = read_table(path, source=[3, 1, 1], target=[2])
    assert next(swapped) == Pair("Abmachungen Abmachung Abmachung", "N;ACC(PL)")
    assert list(read_table(path, source=[3], target=[1, 2], tags=[2])) == [
        Pair("Abmachungen", "Abmachung <N><ACC(PL)>"),
        Pair("x y", "<V>"),
        Pair("", "a b"),
    ]
    assert list(read_table(path, source=[2, 2], target=[1], tags=[2, 2]))[1] == Pair("<V> <V>", "")


@pytest.mark.parametrize(
    ("features", "written"),
    [
        ("N;ACC(PL)", "<N><ACC(PL)>"),
        ("V.PTCP;PRS", "<V.PTCP><PRS>"),
        ("ADJ;AT+ABL(PL)", "<ADJ><AT+ABL(PL)>"),
        ("N;ABL(PL;PSS(1,PL));X", "<N><ABL(PL;PSS(1,PL))><X>"),
        ("s", "<s>"),  # which a tokenizer reads as three characters
        ("", ""),
    ],
)
def test_features_as_tags(tmp_path, features, written):
    path = write(tmp_path / "t.tsv", f"{features}\tx\n")
    assert list(read_table(path, source=[1], target=[2], tags=[1])) == [Pair(written, "x")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tN", "2 columns, but column 3 was requested"),
        ("", "1 column, but column 3 was requested"),
        ("a\tN;;V\tb", "column 2, 'N;;V', is not a list of features such as 'N;ACC(PL)'"),
        ("a\tN;\tb", "column 2, 'N;', is not a list of features such as 'N;ACC(PL)'"),
        ("a\tN; V\tb", "column 2, 'N; V', is not a list of features such as 'N;ACC(PL)'"),
        ("a\t<N\tb", "column 2, '<N', is not a list of features such as 'N;ACC(PL)'"),
        ("a\tACC(PL\tb", "column 2, 'ACC(PL', is not a list of features such as 'N;ACC(PL)'"),
        ("a\tACC)(\tb", "column 2, 'ACC)(', is not a list of features such as 'N;ACC(PL)'"),
        ("a\t" + "( " * 30 + "\tb", f"column 2, '{'( ' * 20}…', is not a list of features such as 'N;ACC(PL)'"),
    ],
)
def test_rows_that_a_table_cannot_have(tmp_path, line, message):
    path = write(tmp_path / "t.tsv", f"a\tN\tb\n{line}\n")
    assert failure(read_table(path, source=[1, 2], target=[3], tags=[2])) == f"{path}:2: {message}"


def test_a_table_that_is_not_there(tmp_path):
    path = tmp_path / "t.tsv"
    assert failure(read_table(path, source=[1], target=[2])) == f"{path}: no such file"


TEXT = st.text().filter(lambda text: not set(text) & set("\t\n\0\ufeff") and not text.endswith("\r"))


@given(st.lists(st.builds(Pair, TEXT, TEXT, st.none())))
def test_written_pairs_come_back(tmp_path_factory, pairs):
    path = tmp_path_factory.getbasetemp() / "pairs.tsv"
    assert write_pairs(path, pairs) == len(pairs)
    assert list(read_pairs(path)) == pairs


def test_written_links_come_back(tmp_path):
    pairs = [Pair("a b", "c", ((0, 0), (1, 0))), Pair("a", "c", ())]
    write_pairs(tmp_path / "p.tsv", iter(pairs))
    assert list(read_pairs(tmp_path / "p.tsv")) == pairs
    assert (tmp_path / "p.tsv").read_text() == "a b\tc\t0-0 1-0\na\tc\t\n"


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (Pair("a\tb", "c"), r"a tab in the text: 'a\tb'"),
        (Pair("a", "b\nc"), r"a line end in the text: 'b\nc'"),
        (Pair("a", "b\r"), r"the text ends in a carriage return: 'b\r'"),
        (Pair("a", "b", ((0, -1),)), "link 0--1 points outside the pair, which has 1 source and 1 target words"),
        (Pair("a", "\ud800"), "a lone surrogate in the text, which UTF-8 cannot write"),
    ],
)
def test_pairs_that_cannot_be_written(tmp_path, pair, message):
    path = write(tmp_path / "p.tsv", "old")
    with pytest.raises(DataError) as caught:
        write_pairs(path, [Pair("x", "y"), pair])
    assert str(caught.value) == f"{path}: pair 2: {message}"
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_byte_order_mark_cannot_begin_a_file(tmp_path):
    path = tmp_path / "p.tsv"
    with pytest.raises(DataError) as caught:
        write_pairs(path, [Pair("\ufeffx", "y")])
    assert str(caught.value) == f"{path}: pair 1: the file would begin with a byte order mark"


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "p.tsv"
    with pytest.raises(DataError) as caught:
        write_pairs(path, [])
    assert str(caught.value) == f"{path}: cannot write: No such file or directory"
