"""The probe of states: its sentences, what it tells of states that are made up, files of labels, and refusals."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
import torch

import weft
from weft.apps.probes.layer_states import LayerStates
from weft.apps.probes.states import FARTHEST, LabeledText, labeled_sentences, read_labeled
from weft.errors import DataError, SearchError, WeftError

MODULE = import_module("weft.apps.probes.states")
"""In `weft.apps.probes`, its name is that of its function."""
PROPERTIES = ("number", "gender", "tense", "negation")


def test_the_sentences() -> None:
    texts = labeled_sentences(300)
    assert texts == labeled_sentences(300) and len({text.text for text in texts}) == 300
    for text in texts:
        words = text.text.split()
        assert text.subject.split()[-1] == words[text.stated] and text.stated < len(words) - 1
        assert tuple(text.labels) == PROPERTIES
        if text.subject in ("queen", "queens", "male bakers"):
            number, gender = text.labels["number"], text.labels["gender"]
            assert (number == "plural") == (text.subject[-1] == "s") and (gender == "feminine") == ("q" in text.subject)
        negations = {"not", "never", "cannot"} & {*words[text.stated :]}
        assert negations or text.labels["negation"] == "affirmed"
    for name in PROPERTIES[:3]:
        assert min(Counter(text.labels[name] for text in texts).values()) > 90


class Reader:
    """States that keep the gender for two words, and nothing else; noise has as many numbers as they."""

    def __init__(self, texts: list[LabeledText]) -> None:
        generator = torch.Generator().manual_seed(1)
        self.rows = []
        for text in texts:
            states_SD = torch.randn(len(text.text.split()), 6, generator=generator)
            sign = 20.0 if text.labels["gender"] == "feminine" else -20.0
            states_SD[text.stated : text.stated + 3, 2] += sign
            self.rows.append(states_SD)

    def read(self, _run: object, texts: list[str]) -> LayerStates:
        noise = [
            row * 0 + torch.randn(row.shape, generator=torch.Generator().manual_seed(len(row))) for row in self.rows
        ]
        return LayerStates([text.split() for text in texts], {"embedding": noise, "layer 1": self.rows})


def test_words_since(copier: weft.Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one probe: told as long as it is there, and by chance after that."""
    given = labeled_sentences(400)
    monkeypatch.setattr(MODULE, "labeled_sentences", lambda _count, _seed: given)
    monkeypatch.setattr(MODULE, "layer_states", Reader(given).read)
    result = weft.probes.states(copier, limit=400)
    gender, number = (result.data["properties"][name] for name in ("gender", "number"))
    assert [*gender["words_since"]] == [*range(FARTHEST + 1)] and gender["classes"] == ["feminine", "masculine"]
    assert min(gender["words_since"][n] for n in (0, 1, 2)) == 100 and 35 < gender["words_since"][4] < 65
    assert max(number["words_since"].values()) < 75
    assert 30 < gender["layers"]["embedding"]["told"] < 70 and 30 < gender["layers"]["layer 1"]["control"] < 70
    assert [row[0] for row in result.tables[0].rows][:3] == [
        "number, embedding",
        "number, layer 1",
        "gender, embedding",
    ]
    assert result.chart.title.startswith("Told from layer 1 after the last word: number")
    assert max(map(len, result.text(80).splitlines())) <= 80 and "Fitted to 200 texts, tested on 200" in str(result)


def letters(count: int, *, unknown: int = 0) -> list[LabeledText]:
    """Texts of letters, labeled by the first one; the copier does not know some of them."""
    symbols = ["a b c", "b c a", "a c b", "b a c"]
    texts = [symbols[index % 4] for index in range(count)]
    texts[:unknown] = ["unheard of"] * unknown
    return [LabeledText(text, {"first": text[0]}, 0, text[0]) for text in texts]


def test_own_texts_and_those_that_are_left_out(copier: weft.Translator) -> None:
    result = weft.probes.states(copier, letters(80, unknown=4))
    first = result.data["properties"]["first"]
    assert result.data["texts"] == 76 and "4 texts were left out" in str(result)
    assert first["words_since"][0] == 100 and first["layers"]["layer 1"]["told"] > 90
    assert first["layers"]["embedding"]["told"] < 90  # the last letter alone


def test_a_file(copier: weft.Translator, tmp_path: Path) -> None:
    path = tmp_path / "ending.tsv"
    path.write_text("".join(f"{text}\t{text[-1]}\n" for text in ["a b c", "c b a"] * 20), "utf-8")
    result = weft.probes.states(copier, path)
    assert result.data["properties"]["ending"]["layers"]["embedding"]["told"] == 100
    assert result.chart.categories == ("embedding", "layer 1") and len(result.tables) == 1
    assert read_labeled(path)[0] == LabeledText("a b c", {"ending": "c"}, 2, "c")
    path.write_text("a b c\tx\t1\n", "utf-8")
    assert read_labeled(path)[0] == LabeledText("a b c", {"ending": "x"}, 0, "a")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b", "ending.tsv:1: expected a text, a tab and a label; perhaps a tab and a word number"),
        ("\tx", "ending.tsv:1: expected a text"),
        ("a\tx\t1\t2", "ending.tsv:1: expected a text"),
        ("a b\tx\t3", "ending.tsv:1: word '3'; expected a number from 1 to 2"),
        ("a b\tx\t²", "ending.tsv:1: word '²'; expected a number"),
        ("a b\tx", "1 texts; expected at least 20, half of them to fit a probe"),
        ("\n".join(["a b\tx"] * 20), "ending: 1 different labels; expected 2 to 20"),
    ],
)
def test_files_that_are_refused(copier: weft.Translator, tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "ending.tsv"
    path.write_text(f"{line}\n", "utf-8")
    with pytest.raises(WeftError) as error:
        weft.probes.states(copier, path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_refusals(copier: weft.Translator) -> None:
    with pytest.raises(DataError, match="limit: 5; expected at least 20 texts, half of them to fit a probe"):
        weft.probes.states(copier, limit=5)
    with pytest.raises(SearchError, match="its tokens spell 0 of 30 texts"):
        weft.probes.states(copier, limit=30)
