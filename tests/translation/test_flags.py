"""Flags: each on texts that deserve it and on texts that do not, the table of neighbors, and the rules of a file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text import specials
from weft.translation.flags import (
    ALWAYS,
    FLAGS,
    NO_RULES,
    PLACEHOLDER,
    FlagRules,
    flags_of,
    loses_placeholders,
    numbers_differ,
    read_rules,
    repeats,
    rules_record,
    skipped_stretches,
    stretch_attention,
    text_flags,
)
from weft.translation.neighbors import Neighbors
from weft.translation.results import Translation, empty_translation

ALL = FlagRules(off=())


def output(source: str = "le chat dort ici", text: str = "the cat sleeps here", **changes: Any) -> Translation:
    fields = {
        "source": source,
        "text": text,
        "tokens": text.split(),
        "ids": [5] * len(text.split()),
        "source_tokens": [*source.split(), "</s>"],
    }
    return replace(empty_translation(source), **{**fields, **changes})


class TestTexts:
    @pytest.mark.parametrize(
        ("source", "text", "expected"),
        [
            ("le chat dort", "le  Chat dort", {"untranslated"}),
            ("le chat dort bien ici", "le chat dort here bien", {"untranslated"}),
            ("le chat dort", "the cat sleeps", set()),
            ("Paris Berlin Rome", "Paris, Berlin and Rome are far away", set()),
            ("12 34", "12 34", set()),
            ("en 1984", "in 1948", {"numbers-differ"}),
            ("en 1984", "in that year", {"numbers-differ"}),
            ("1,000 pages", "1.000 Seiten", set()),
            ("le 07 mai", "May 7", set()),
            ("deux", "2", {"numbers-differ"}),
            ("va a {name} !", "go to {name}!", set()),
            ("va a {name} !", "go to {nom}!", {"placeholder-lost"}),
            ("va a {name} !", "{name} goes to {name}", {"placeholder-lost"}),
            ("%(n)d pages", "%(n)d Seiten", set()),
            ("voir https://a.org/x.", "see https://a.org/y.", {"placeholder-lost"}),
            ("a jean@ex.org", "to jean", {"placeholder-lost"}),
            ('<x id="1"/> oui', "yes", {"placeholder-lost"}),
            ("50 % sont la", "50 % are here", set()),
            ("a", "b b b", {"repeats"}),
            ("a", "the king sees the king saw", set()),
            ("a", "the king sees the king sees", {"repeats"}),
            ("a", "we go home we go home", {"repeats"}),
            ("a", ". . . . .", set()),
            ("a", "very very good", set()),
        ],
    )
    def test_pairs(self, source: str, text: str, expected: set[str]) -> None:
        assert text_flags(source, text) == expected

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_any_text(self, source: str, text: str) -> None:
        assert text_flags(source, text) <= set(FLAGS)
        assert not loses_placeholders(source, source) and not numbers_differ(source, source)

    @given(st.lists(st.sampled_from("abc"), max_size=14))
    def test_repeats_by_its_definition(self, units: list[str]) -> None:
        def occurs(length: int, copies: int) -> bool:
            return any(
                units[start : start + length] * copies == units[start : start + length * copies]
                for start in range(len(units) - length * copies + 1)
            )

        literal = any(occurs(length, 3) for length in (1, 2)) or any(occurs(length, 2) for length in range(3, 8))
        assert repeats(" ".join(units)) == literal


class TestOutputs:
    def test_none(self) -> None:
        assert output().flags == () == flags_of(output(), ALL) == empty_translation("").flags

    def test_cut_and_unknown(self) -> None:
        assert output(ended="length").flags == ("cut",)
        assert output(ids=[5, specials.UNKNOWN, 7, 8]).flags == ("unknown-tokens",)
        assert output(source_tokens=["le", "<unk>", "</s>"]).flags == ("unknown-tokens",)

    def test_without_a_calibration_only_those_that_hold_for_all_pairs(self) -> None:
        copied = output(text="le chat dort ici")
        assert copied.flags == () and flags_of(copied, ALL) == ("untranslated",)
        assert set(FLAGS) - set(NO_RULES.off) == set(ALWAYS)
        assert replace(copied, flag_rules=ALL).flags == ("untranslated",)

    def test_too_short_and_too_long(self) -> None:
        assert flags_of(output(), replace(ALL, least_ratio=0.9)) == ("skipped-source",)
        assert flags_of(output(), replace(ALL, least_ratio=0.8)) == ()
        assert flags_of(output(), replace(ALL, longest=4)) == ("unlike-training",)
        assert flags_of(output(), replace(ALL, longest=5)) == ()

    def test_a_stretch_without_attention(self) -> None:
        weights = np.array([[0.5, 0.5, 0.0, 0.0, 0.0, 0.0], [0.0, 0.4, 0.1, 0.0, 0.0, 0.5]])
        skipped = output(attention=weights)
        # tokens 3 to 5 receive 0.1, 0 and 0 of 2 / 6 each; the last column is the end token
        assert stretch_attention(skipped) == pytest.approx(0.1 * 6 / 2)
        assert flags_of(skipped, replace(ALL, least_attention=0.31)) == ("skipped-source",)
        assert flags_of(skipped, replace(ALL, least_attention=0.29)) == ()
        assert stretch_attention(output()) == 1.0 == stretch_attention(output(attention=np.ones((0, 7))))

    def test_the_stretches_without_attention(self) -> None:
        received = [0.9, 0.05, 0.0, 0.1, 0.9, 0.1, 0.1, 0.9, 0.0, 0.0, 0.0]
        tokens = [f"w{number}" for number in range(len(received))]
        weights = np.array([[*received, 0.3]]) / (1 + len(received))
        one = output(source_tokens=[*tokens, "</s>"], attention=weights)
        assert skipped_stretches(one, FlagRules(least_attention=0.2)) == [range(1, 4), range(8, 11)]
        assert skipped_stretches(one, NO_RULES) == [] == skipped_stretches(output(), FlagRules(least_attention=0.2))

    def test_neighbors_that_training_data_does_not_have(self) -> None:
        table = Neighbors.of([["a", "b", "c"], ["c", "d"]])
        known = output(source_tokens=["a", "b"])
        assert flags_of(known, replace(ALL, novelty=0.5, neighbors=table)) == ()
        new = replace(known, source_tokens=["d", "a"])
        assert flags_of(new, replace(ALL, novelty=0.5, neighbors=table)) == ("unlike-training",)


class TestRules:
    def test_they_are_read_as_they_were_written(self) -> None:
        rules = FlagRules(("repeats",), 0.25, 0.125, 31, 0.5, Neighbors.of([["a", "b"]]))
        assert read_rules(rules_record(rules)) == rules and read_rules(rules_record(NO_RULES)) == NO_RULES

    @pytest.mark.parametrize(
        "change",
        [
            {"off": "repeats"},
            {"off": ["lies"]},
            {"least_ratio": -1},
            {"longest": True},
            {"novelty": float("nan")},
            {"neighbors": 7},
        ],
    )
    def test_what_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"^flags: |Base64"):
            read_rules({**rules_record(NO_RULES), **change})


@pytest.mark.parametrize("text", ["%" + "0" * 100_000, "%(n)" + "0" * 100_000, "%." + "0" * 100_000])
def test_placeholders_take_linear_time(text):
    assert PLACEHOLDER.findall(text) == []  # ten minutes, if digits were tried as flags too


def test_conversions_with_flags_and_widths():
    text = "%s %05d %-8.3f %+x %(n)s %(n)05.1f 5% of 100%d, %sx"
    assert PLACEHOLDER.findall(text) == ["%s", "%05d", "%-8.3f", "%+x", "%(n)s", "%(n)05.1f", "%d"]
