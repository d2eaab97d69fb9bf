"""The page of the history."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from weft.apps.labs.history.models import MODELS
from weft.apps.labs.history.page import equation
from weft.apps.labs.history.result import HistoryResult


class Ids(HTMLParser):
    """Collects ids, links and tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value:
                self.links.append(value)


def test_every_model_has_its_section(result: HistoryResult) -> None:
    text = result.to_html()
    parsed = Ids(text)
    keys = [model.key for model in MODELS]
    assert parsed.ids == [*keys, "sentence", "verdicts", "speed"]
    assert [link for link in parsed.links if link.startswith("#")] == [f"#{name}" for name in parsed.ids]
    assert "script" not in parsed.tags and not re.search(r"""(src|href)=["']https?:""", text)
    assert text.count('class="equation"') == sum(len(model.equations) for model in MODELS)
    assert text.count('aria-label="attention map"') == 4 and text.count("no attention to show") == 2
    assert "&lt;entarté&gt;" in text and "held" in text


def test_all_but_the_speed_follows_from_the_seeds(result: HistoryResult) -> None:
    slower = {key: [{**row, "seconds": row["seconds"] * 3} for row in rows] for key, rows in result.results.items()}
    other = HistoryResult(slower, result.diagonal, result.seeds, result.steps, result.sentences)
    first, second = result.to_html(), other.to_html()
    assert first != second
    start, end = '<h2 id="speed">', "</section>"
    assert first.split(start)[0] == second.split(start)[0]
    assert first.split(start)[1].partition(end)[2] == second.split(start)[1].partition(end)[2]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("s_{t}", "<i>s</i><sub><i>t</i></sub>"),
        ("x^{2} < tanh", "<i>x</i><sup><i>2</i></sup> &lt; tanh"),
        ("softmax_{tj}(α)", "softmax<sub><i>tj</i></sub>(<i>α</i>)"),
    ],
)
def test_equation(text: str, html: str) -> None:
    assert equation(text) == f'<p class="equation">{html}</p>'


def test_equations_keep_every_character() -> None:
    for text in (text for model in MODELS for text in model.equations):
        shown = re.sub("<[^>]*>", "", equation(text)).replace("&lt;", "<")
        assert shown == re.sub(r"[_^]\{([^}]*)\}", r"\1", text)
