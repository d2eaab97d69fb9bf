"""Runs that read terms or similar translations in their sources: trained, resumed, loaded, translated, evaluated."""

import shutil

import pytest

import weft
from weft.errors import DataError, RecipeError, command_line
from weft.interop.portability import export_lines
from weft.training.events import Finished
from weft.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")
ROWS = [(f"{a} {b} {c}", f"{c} {b} {a}".upper()) for a in "abcd" for b in "abcd" for c in "abcd"]
TERMS = "a\tA|AA\nb\tB\n/[0-9]+/\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in ROWS), "utf-8")
    (folder / "terms.tsv").write_text(TERMS, "utf-8")
    return folder


@pytest.fixture(scope="module", params=["terms", "fuzzy"])
def trained(request, tiny, folder):
    """The kind, and a run that was stopped after its first update and resumed."""
    changes = {
        "data.train": "pairs.tsv",
        "data.valid": "pairs.tsv",
        "data.test": "pairs.tsv",
        "data.folder": str(folder),
        "data.options": {},
        "tokenizer.kind": "word",
        "training.steps": 3,
        "training.save_every": 1,
        "training.validate_every": 3,
    }
    if request.param == "terms":
        changes |= {"data.terms.file": "terms.tsv", "data.terms.share": 1.0}
    else:
        changes |= {"data.fuzzy.file": "pairs.tsv", "model.sources.count": 2}
    path = folder / f"run-{request.param}"
    events = train(tiny(changes), path)
    for event in events:
        if type(event).__name__ == "Saved":
            events.close()
            break
    assert isinstance(list(train(tiny(changes), path, resume=True))[-1], Finished)
    return request.param, path


def test_a_loaded_run_translates_with_and_without(trained):
    kind, path = trained
    run = weft.load(path)
    sources = ["a b c", "d d d", "b 12 c"]
    plain = run.translate(sources)
    assert [output.source for output in plain] == sources
    if kind == "terms":
        outputs = run.translate(sources, glossary=folder_file(path, "terms.tsv"))
        assert [output.terms for output in outputs] == [(("A", "AA"), ("B",)), (), (("B",), ("12",))]
        marked = outputs[0].source_tokens
        assert marked[:8] == ["a", "⟦", "A", "⟧", "b", "⟦", "B", "⟧"] and outputs[1].ids == plain[1].ids
    else:
        memory = folder_file(path, "pairs.tsv")
        [new, known] = run.translate(["a b e", "a b c"], translation_memory=memory)
        assert known.text == "C B A" and known.flags == ("from-memory",)
        assert new.source_tokens.count("</s>") == 2 and new.memory[0].target in {"A B A", "B B A", "C B A", "D B A"}
        outputs = [new]
    for output in outputs:
        assert "⟦" not in output.source and "\t" not in output.source
        if output.word_attention is not None:
            assert output.word_attention.source[:-1] == output.source.split()
            assert output.word_attention.weights_TS.sum(1) == pytest.approx(1, abs=1e-3)
            assert all(left < len(output.source.split()) for left, _ in output.links)


def folder_file(path, name):
    return path.parent / name


def test_texts_and_files_of_pairs(trained):
    kind, path = trained
    run = weft.load(path)
    given = {"glossary": {"a": "A"}} if kind == "terms" else {"translation_memory": folder_file(path, "pairs.tsv")}
    assert weft.translate_text(run, "a b e\n\n- d d d\n", **given).count("\n") == 3
    assert weft.translate_text(run, "<p>a <b>b</b> e</p>", format="html", **given).count("<b>") == 1
    assert weft.evaluate(run, metrics=["bleu"]) and weft.evaluate(run, folder_file(path, "pairs.tsv"), metrics=["bleu"])
    with pytest.raises(weft.WeftError):
        run.translate("a", glossary={"a": "b"}, kind="sample")
    if kind == "fuzzy":
        assert any("model.sources.count: 2 sources" in line for line in export_lines(run.recipe))


def test_files_that_have_changed_stop_a_run(trained, tmp_path):
    kind, path = trained
    name = "terms.tsv" if kind == "terms" else "memory.tsv"
    if kind == "fuzzy":
        pytest.skip("its memory is its training file, which is compared as such")
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    before = (path.parent / name).read_text("utf-8")
    try:
        (path.parent / name).write_text(before + "c\tC\n", "utf-8")
        recipe = weft.load(copy).recipe
        with command_line(), pytest.raises(DataError, match=r"terms\.tsv: has changed since .* \(data\.terms\)"):
            list(train(recipe, copy, resume=True))
    finally:
        (path.parent / name).write_text(before, "utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.fuzzy.file": "pairs.tsv"}, r"data\.fuzzy: .* set model\.sources\.count = 2, not 1"),
        (
            {"data.terms.file": "t.tsv", "model.kind": "language_model"},
            r"data\.terms: this model has no separate source",
        ),
        ({"data.terms.share": 2}, r"data\.terms\.share: 2 was given"),
    ],
)
def test_settings_that_do_not_fit(tiny, changes, message):
    with pytest.raises(RecipeError, match=message):
        tiny(changes)


def test_a_missing_file_is_said_before_training(tiny, folder, tmp_path):
    changes = {"data.train": "pairs.tsv", "data.folder": str(folder), "data.options": {}, "data.terms.file": "no.tsv"}
    with pytest.raises(DataError, match=r"data\.terms\.file: .*no\.tsv: no such file"):
        list(train(tiny(changes), tmp_path / "run"))
