"""``weft data terms``: what is printed and written, and what is refused."""

import pytest

from weft.apps.cli.commands.data_terms import terms_command
from weft.data.reading.glossary import Glossary
from weft.errors import DataError

LINES = "".join(f"{'dog' if n % 2 else 'cat'} {n % 7}\t{n % 7} {'Hund' if n % 2 else 'Katze'}\n" for n in range(40))


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.pairs.term_pairs.FREQUENT", 1.0)
    path = tmp_path / "pairs.tsv"
    path.write_text(LINES, "utf-8")
    return path


def test_a_glossary_is_written_and_read(pairs, tmp_path, capsys):
    out = tmp_path / "terms.tsv"
    terms_command(str(pairs), out=out)
    assert out.read_text("utf-8") == "cat\tKatze\t20\ndog\tHund\t20\n"
    assert capsys.readouterr().err.endswith("terms.tsv: 2 terms of 40 pairs\n")
    assert Glossary.read(out).terms_of(["a Dog"]) == [[("Hund",)]]
    with pytest.raises(DataError, match=r"terms\.tsv: already exists"):
        terms_command(str(pairs), out=out)


def test_it_is_printed_and_no_terms_are_an_error(pairs, capsys):
    terms_command(str(pairs))
    assert capsys.readouterr().out.splitlines()[0] == "cat\tKatze\t20"
    with pytest.raises(DataError, match=r"no terms in 40 pairs; lower --min-count 500"):
        terms_command(str(pairs), min_count=500)
