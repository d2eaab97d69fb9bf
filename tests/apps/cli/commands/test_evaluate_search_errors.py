"""``weft evaluate``: whose fault errors are, how much is repeated, and what a signature says."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from weft.data.pairs import Pair
from weft.errors import SearchError
from weft.evaluation.evaluate import evaluate, search_errors, search_signature
from weft.recipe import SearchSettings
from weft.translation.translator import Translator

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]
SMALL = ("--set", "search.max_length=3", "--limit", "4")


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "mbr"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_against_trying_everything(copier: Translator, kind: str, alpha: float) -> None:
    """The best of all sequences of at most three tokens, each scored by the model; then the definitions."""
    lines = ["a b", "e", "b a"]
    letters = copier.tokenizers.target.decode(list(range(3, copier.tokenizers.target.size))).split()
    every = [" ".join(said) for length in range(3) for said in product(letters, repeat=length)]
    found = search_errors(copier, [Pair(line, "a a") for line in lines], kind=kind, max_length=3, length_penalty=alpha)
    for line, one in zip(lines, found.sentences, strict=True):
        scored = copier.score([Pair(line, target) for target in every])
        scores = {
            target: score.log_probability / len(score.token_scores) ** alpha
            for target, score in zip(every, scored, strict=True)
        }
        top = max(scores, key=lambda target: scores[target])
        assert one.proven and one.best is not None and one.best.text == top
        assert one.best.score(found.ranking) == pytest.approx(scores[top], abs=1e-4)
        assert one.search == ("best" if one.output.text == top and one.output.ended else "error")
        assert one.model == ("reference" if top == "a a" else "error")


def test_the_summary(command: Command, runs: Runs) -> None:
    said = command("evaluate", runs("lstm"), "--search-errors", *SMALL)[0]
    assert said.startswith("4 sentences; the best output there is proven for 4 of them\n")
    assert "no: search error" in said and "no: model error" in said
    assert (
        "search:beam|size:5|length_penalty:1|stop:outranked|max_length:3|normalization:power|max_nodes:100000|"
        "tolerance:1e-05" in said
    )


def test_for_programs(command: Command, runs: Runs) -> None:
    said = command("evaluate", runs("transformer"), "--search-errors", "--search", "greedy", "--json", *SMALL)[0]
    found = json.loads(said)
    assert found["sentences"] == 4 == len(found["each"]) == sum(found["model"].values())
    assert sum(found["search"][fate] for fate in ("best", "error", "unknown")) == 4
    assert found["signature"].startswith("search:greedy|max_length:3|normalization:power|length_penalty:1|")


def test_where_the_exact_search_gives_up(command: Command, runs: Runs) -> None:
    options = ("--limit", "2", "--set", "search.max_nodes=1", "--json")
    found = json.loads(command("evaluate", runs("lstm"), "--search-errors", *options)[0])
    assert found["best"]["proven"] == 0 and found["best"]["mean lengths"] is None


def test_outputs_are_written(command: Command, runs: Runs, tmp_path: Path) -> None:
    command("evaluate", runs("lstm"), "--search-errors", *SMALL, "--output", tmp_path / "said")
    assert len((tmp_path / "said").read_text("utf-8").splitlines()) == 4


def test_what_an_exact_search_cannot_judge_is_refused(refusal: Callable[..., str], runs: Runs) -> None:
    message = refusal("evaluate", runs("lstm"), "--search-errors", "--set", "search.min_length=2")
    assert message == "search.min_length: cannot be used with search.kind = 'exact'; leave it at 0"
    assert refusal("evaluate", runs("lstm"), "--search-errors", "--metric", "bleu") == (
        "--search-errors and --metric: two reports; choose one of them"
    )
    assert "language model" in refusal("evaluate", runs("language"), "--search-errors")


def test_empty_sources_are_left_out(copier: Translator) -> None:
    found = search_errors(copier, [Pair("", "a"), Pair("a", "a"), Pair(" ", "")], max_length=3)
    assert [one.source for one in found.sentences] == ["a"]
    with pytest.raises(SearchError, match="at most"):
        search_errors(copier, [Pair("a", "a")], kind="exhaustive", max_length=9, max_space=10)


def test_the_first_pairs(command: Command, runs: Runs) -> None:
    assert json.loads(command("evaluate", runs("lstm"), "--limit", "3", "--json")[0])["pairs"] == 3


def test_repetition_beside_that_of_the_references(command: Command, runs: Runs) -> None:
    said = command("evaluate", runs("lstm"), "--metric", "repetition", "--metric", "bleu")[0]
    lines = said.splitlines()
    assert [line[:24].rstrip() for line in lines[:4]] == [
        "outputs with a loop",
        "  in the references",
        "rep-1",
        "  in the references",
    ]
    found = json.loads(command("evaluate", runs("lstm"), "--metric", "repetition", "--json")[0])["metrics"]
    assert set(found) == {
        "outputs with a loop",
        "rep-1",
        "rep-2",
        "rep-3",
        "rep-4",
        "perplexity",
        "alignment error rate",
    } & set(found)
    assert {"value", "references", "signature"} == set(found["rep-4"])


def test_repetition_is_measured_of_both(copier: Translator) -> None:
    pairs = [Pair("a b c d", "a a a a a a a a a"), Pair("b", "b c")]
    found = evaluate(copier, pairs, ["repetition"])
    assert found.scores[0].value == 0.0 and found.reference_scores["outputs with a loop"].value == 50.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "search:beam|size:5|length_penalty:1"),
        ({"kind": "greedy", "size": 9}, "search:greedy"),
        ({"length_penalty": 0.6, "groups": 5, "batch_tokens": 7}, "search:beam|size:5|length_penalty:0.6|groups:5"),
        ({"kind": "sample", "seed": 3}, "search:sample|temperature:1|top_k:0|top_p:1|seed:3"),
        ({"kind": "mbr", "top_p": 0.9}, "search:mbr|samples:32|utility:chrf|top_p:0.9"),
        ({"kind": "greedy", "no_loops": False, "banned": ["x"]}, "search:greedy|banned:['x']|no_loops:False"),
        ({"kind": "greedy", "no_loops": True}, "search:greedy"),
    ],
)
def test_a_signature_names_what_was_changed(changes: dict[str, object], said: str) -> None:
    assert search_signature(SearchSettings.model_validate(changes)) == said
