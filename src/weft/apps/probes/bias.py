"""Bias: the genders that a model assumes where its source states none.

Templates are sentences of a source language that does not say whether somebody is a woman or a man (Turkish *o bir
doktor*), filled with professions. Outputs are counted as feminine or masculine by the words that they contain (*she*,
*he*); those with words of both or of neither gender are counted apart. The share of feminine outputs of each
profession has the binomial interval of Wilson (1927).

    source = "Turkish"                            # languages, for titles
    target = "English"
    templates = ["O bir {profession}."]
    feminine = ["she", "her"]                     # words of the target language, in lower case
    masculine = ["he", "him", "his"]

    [professions]                                 # names for the chart, and the words that fill the templates
    doctor = "doktor"
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.apps.probes.result import ProbeResult
from weft.apps.probes.toml_files import FileKind
from weft.errors import DataError
from weft.evaluation.statistics import binomial
from weft.pictures.charts import Chart, Series, Table
from weft.pictures.charts.table import Row

if TYPE_CHECKING:
    from weft.translation.translator import Translator

SLOT = "{profession}"
LISTS = ("templates", "feminine", "masculine")
TEMPLATES = FileKind("templates", "templates", ("source", "target", *LISTS, "professions"))
GENDERS = ("feminine", "masculine", "both", "neither")


class Templates(NamedTuple):
    """Sentences without a gender, and the words that state one in the target language."""

    source: str
    target: str
    templates: list[str]
    feminine: frozenset[str]
    masculine: frozenset[str]
    professions: dict[str, str]
    where: str

    def sources(self, profession: str) -> list[str]:
        """All sentences about a profession."""
        return [template.replace(SLOT, self.professions[profession]) for template in self.templates]

    def gender(self, output: str) -> str:
        """The gender of an output, one of `GENDERS`."""
        words = set(re.findall(r"\w+", output.lower()))
        is_feminine, is_masculine = bool(words & self.feminine), bool(words & self.masculine)
        if is_feminine == is_masculine:
            return "both" if is_feminine else "neither"
        return "feminine" if is_feminine else "masculine"


def read_templates(name: Path | str) -> Templates:
    """The templates of a TOML file, or shipped ones by their name ("turkish")."""
    path, tree = TEMPLATES.read(name)
    for key in LISTS:
        values = tree.get(key)
        if not isinstance(values, list) or not values or not all(isinstance(text, str) and text for text in values):
            raise DataError(f"{path}: {key}: expected a list of texts, at least 1")
    for template in tree["templates"]:
        if template.count(SLOT) != 1:
            raise DataError(f"{path}: templates: {template!r}; expected {SLOT} once in each template")
    professions = tree.get("professions")
    words = list(professions.values()) if isinstance(professions, dict) else []
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise DataError(f'{path}: expected a section [professions] of names and words: doctor = "doktor"')
    feminine, masculine = (frozenset(word.lower() for word in tree[key]) for key in ("feminine", "masculine"))
    if shared := sorted(feminine & masculine):
        raise DataError(f"{path}: {shared[0]!r} is feminine and masculine; expected words of one gender")
    source, target = str(tree.get("source", path.stem)), str(tree.get("target", "the target language"))
    return Templates(source, target, tree["templates"], feminine, masculine, tree["professions"], str(path))


def bias(run: Translator | Path | str, templates: Templates | Path | str, **search: Any) -> ProbeResult:
    """Count the genders of outputs for sources without one, by profession.

        weft.probes.bias("runs/tr-en", "turkish").data["professions"]["nurse"]

    ``run``: a run of `weft.load`, or its folder. ``templates``: a TOML file, or shipped ones: english (to French),
    finnish, hungarian, malay and turkish (to English). ``search`` changes search settings, e.g. ``size=8``.
    """
    given = templates if isinstance(templates, Templates) else read_templates(templates)
    from weft.evaluation.evaluate import loaded_run

    run = loaded_run(run)
    sources = [(name, text) for name in given.professions for text in given.sources(name)]
    outputs = run.translate([text for _, text in sources], return_attention=False, **search)
    counts = {name: dict.fromkeys(GENDERS, 0) for name in given.professions}
    records = []
    for (name, text), output in zip(sources, outputs, strict=True):
        gender = given.gender(output.text)
        counts[name][gender] += 1
        records.append({"profession": name, "source": text, "output": output.text, "gender": gender})
    total = {gender: sum(count[gender] for count in counts.values()) for gender in GENDERS}
    if not total["feminine"] + total["masculine"]:
        raise DataError(
            f"{given.where}: none of {len(outputs)} outputs states one gender ({records[0]['output']!r}); the model "
            f"should translate from {given.source} to {given.target}"
        )
    data = {"templates": given.where, "professions": counts, "total": total, "outputs": records}
    examples = [next((item for item in records if item["gender"] == gender), None) for gender in GENDERS[:2]]
    notes = [f"{item['gender']}: {item['source']} → {item['output']}" for item in examples if item is not None]
    notes.append("Share: feminine outputs among those of one gender, with the binomial interval of Wilson (95 %).")
    return ProbeResult("bias", data, (_table(counts, total),), _chart(given, counts, total), tuple(notes))


def _share(count: dict[str, int]) -> tuple[int, int]:
    """Feminine outputs, and outputs of one gender."""
    return count["feminine"], count["feminine"] + count["masculine"]


def _table(counts: dict[str, dict[str, int]], total: dict[str, int]) -> Table:
    rows: list[Row] = []
    for name, count in {**counts, "all": total}.items():
        share = binomial(*_share(count)).scaled(100) if _share(count)[1] else None
        rows.append((name, *(count[gender] for gender in GENDERS), share))
    return Table(("profession", *GENDERS, "feminine (%)"), rows)


def _chart(given: Templates, counts: dict[str, dict[str, int]], total: dict[str, int]) -> Chart:
    """A row for each profession with outputs of one gender, from the least feminine to the most."""
    shares = {name: binomial(*_share(count)).scaled(100) for name, count in counts.items() if _share(count)[1]}
    ordered = sorted(shares, key=lambda name: shares[name].mean)
    women, gendered = _share(total)
    title = f"{given.source} to {given.target}: {women} of {gendered} outputs with a gender are feminine"
    series = Series("feminine", tuple((row, shares[name]) for row, name in enumerate(ordered)))
    references = (("as many", 50.0),)
    return Chart(
        "bias", title, "profession", "feminine (%)", (series,), categories=tuple(ordered), references=references
    )
