"""Results as HTML: one lab, or all of them on one page without scripts and without references to other files."""

from __future__ import annotations

from collections.abc import Sequence

from weft.apps.labs.lab import LabResult
from weft.apps.labs.text import seeds_text
from weft.pictures.charts.html import chart_html
from weft.pictures.charts.table import Table, cell_text
from weft.pictures.html.elements import Content, Html, element, join, table, terms
from weft.pictures.html.page import page


def result_page(result: LabResult) -> Html:
    """The page of one lab."""
    return page(f"{result.lab.name}: weft lab", *result_content(result), footer(result.environment))


def labs_page(results: Sequence[LabResult]) -> Html:
    """All labs on one page: first the verdicts, then each lab."""
    rows = [
        (
            element("a", result.lab.name, href=f"#{result.lab.name}"),
            result.lab.claim,
            element("b", result.verdict.outcome),
            f"{result.verdict.checks[0].what}: {result.verdict.effect.text()}",
        )
        for result in results
    ]
    header: list[Content] = [
        element("h1", "weft labs"),
        element(
            "p",
            "Each lab states a claim of the lectures on sequence models, trains small models to measure it, and says "
            "whether it held. Effects are means over seeds with 95 % intervals.",
        ),
        table(("lab", "claim", "verdict", "effect"), rows),
    ]
    sections = [
        join(["\n", element("section", element("h2", result.lab.name, id=result.lab.name), *result_body(result))])
        for result in results
    ]
    return page("weft labs", element("header", *header), *sections, footer(results[0].environment))


def result_content(result: LabResult) -> list[Content]:
    """A result with its heading."""
    return [element("h1", f"Lab: {result.lab.name}"), *result_body(result)]


def result_body(result: LabResult) -> list[Content]:
    """Claim, verdict, tables, charts, and what the paper found."""
    lab, verdict = result.lab, result.verdict
    checks = [(check.what, check.effect.text(), check.rule, element("b", check.outcome)) for check in verdict.checks]
    rows: list[tuple[str, Content]] = [
        ("claim", lab.claim),
        ("tested", lab.tested),
        ("verdict", join([element("b", verdict.outcome), f". {verdict.sentence}"])),
        ("trained", lab.trains),
        ("paper", lab.paper),
        ("what would change our mind", lab.doubt or "–"),
        ("seeds", seeds_text(result)),
    ]
    parts: list[Content] = [
        terms(rows),
        table(("effect", "measured", "predicted", "outcome"), checks),
        *map(table_html, result.tables),
        element("div", *map(chart_html, result.charts), class_="charts wide"),
    ]
    parts += [element("p", note) for note in result.notes]
    if lab.next:
        parts += [element("h3", "What to try next"), element("ul", *(element("li", idea) for idea in lab.next))]
    return parts


def table_html(data: Table) -> Html:
    rows = [[cell_text(cell) for cell in row] for row in data.rows]
    return table(data.header, rows, numbers=range(1, len(data.header)), caption=data.caption)


def footer(environment: dict[str, str]) -> Html:
    """Versions and machine."""
    versions = ", ".join(f"{name} {environment[name]}" for name in ("weft", "torch", "python") if name in environment)
    text = f"{versions}; {environment.get('machine', '')}"
    return element("footer", element("p", text, class_="faint small"))
