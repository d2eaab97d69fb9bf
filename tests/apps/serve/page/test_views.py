"""The views beside the translation of one sentence: heads, embeddings, comparisons, pictures, training."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.serve.page.conftest import Visitor
from apps.serve.servers import PATIENCE, running_server, settings
from apps.serve.test_documents import PARAGRAPH, word_document
from fixtures.kinds_of_pictures import formulas, write_table
from weft.apps.serve import create_app, training
from weft.apps.texts.formats.docx import document_text
from weft.recipe import make_recipe
from weft.runs.locks import lock_folder
from weft.training.train import train

SENTENCE = "a witch must open the bag of the nurse"


def test_every_head_has_a_small_map_and_one_is_enlarged(visitor):
    page = visitor.open(f"#heads?model=transformer&text={SENTENCE}")
    page.wait_for_selector(".thumb")
    assert page.locator(".thumb").count() == 3 * 2 * 2  # encoder, decoder and cross-attention, 2 layers of 2 heads
    headings = page.locator(".heads-view h2").all_inner_texts()
    assert {"Encoder self-attention", "Decoder self-attention", "Cross-attention"} <= set(headings)
    page.get_by_role("button", name="Decoder self-attention, layer 2 · head 1. Enlarge").click()
    assert "head=decoder.2.1" in page.url
    page.wait_for_selector("h2:text-is('Decoder self-attention, layer 2, head 1')")
    tokens = page.locator(".map text[role=rowheader]").count()
    assert page.get_by_role("gridcell").count() == tokens * tokens


def test_a_head_is_switched_off_and_the_output_follows(visitor):
    page = visitor.open(f"#heads?model=transformer&text={SENTENCE}&off=cross.1.1_cross.1.2_cross.2.1_encoder.1.1")
    page.wait_for_selector(".outputs dl")
    assert page.locator(".thumb.off").count() == 4
    assert page.locator(".outputs del, .outputs ins").count() > 0
    before = page.locator(".outputs dd").nth(1).inner_text()
    page.get_by_role("button", name="Switch all on").click()
    page.wait_for_selector(".outputs .output")
    assert page.locator(".outputs .output").inner_text() != before
    page.get_by_role("button", name="Switch this head off").click()
    page.wait_for_selector(".thumb.off")
    assert page.get_by_role("button", name="Switch this head on").is_visible()


def test_a_recurrent_model_has_one_map(visitor):
    page = visitor.open(f"#heads?model=recurrent&text={SENTENCE}")
    page.wait_for_selector(".thumb")
    assert page.locator(".thumb").count() == 1


def test_neighbors_of_a_token_and_positions(visitor):
    page = visitor.open("#embeddings?model=recurrent&token=nurse")
    page.wait_for_selector(".candidate")
    cosines = [float(text.replace("−", "-")) for text in page.locator(".candidate .share").all_inner_texts()]
    assert cosines == sorted(cosines, reverse=True) and len(cosines) == 12
    neighbor = page.locator(".candidate .token").first.inner_text()
    page.locator(".candidate").first.click()
    page.wait_for_selector(f"p:text('Nearest to “{neighbor}”')")
    page.get_by_role("textbox", name="Token").fill("zebra")
    page.get_by_role("button", name="Show its neighbors", exact=True).click()
    page.wait_for_selector("p:text('not in the vocabulary')")
    assert "no positions" in page.locator(".hint").all_inner_texts()[-1]
    assert not any("/positions" in url for url in visitor.requests)  # it would be answered with 404
    page.get_by_label("Model").select_option("transformer")
    page.wait_for_selector("canvas.heat")
    labels = page.locator("canvas.heat").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert "64 sinusoidal positions in 32 dimensions" in labels[0] and "similarity" in labels[1]
    painted = page.locator("canvas.heat").first.evaluate(
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    )
    assert painted > 50


def test_two_models_side_by_side(visitor):
    page = visitor.open(f"#compare?a=recurrent&b=copying&b.max_length=3&b.size=2&text={SENTENCE}")
    page.wait_for_selector(".verdict")
    outputs = page.locator(".two .output").all_inner_texts()
    answers = [translate(page, "recurrent", SENTENCE), translate(page, "copying", SENTENCE, size=2, max_length=3)]
    assert outputs == [answer["text"] for answer in answers]
    assert outputs[0] != outputs[1] and page.locator(".two del, .two ins").count() > 0
    assert page.get_by_role("grid").count() == 2
    assert page.get_by_role("tree").count() == 2
    assert page.locator(".side > details > summary").nth(1).inner_text() == "Search: beam of 2"
    page.locator(".tree").nth(1).locator(".node.pruned").first.click()
    page.wait_for_url(re.compile(r"#translate\?model=copying.*prefix="))


def test_two_searches_at_the_same_step(visitor):
    page = visitor.open(f"#compare?a=recurrent&b=copying&text={SENTENCE}&step=2", anew=True)
    page.wait_for_selector(".verdict")
    answers = [translate(page, model, SENTENCE)["text"] for model in ("recurrent", "copying")]

    def shown() -> list[str]:
        """What both say, and how many steps of their trees are drawn."""
        trees = page.get_by_role("tree").evaluate_all("all => all.map((one) => one.ariaLabel.split(' ')[2])")
        return [*page.locator(".two .output").all_inner_texts(), *trees]

    assert [len(text.split()) for text in shown()] == [2, 2, 1, 1] and shown()[2:] == ["2", "2"]
    assert page.locator(".two .output.growing").count() == 2
    page.get_by_role("button", name="To the start").click()
    assert shown() == ["", "", "0", "0"] and "step=0" in page.url
    page.get_by_role("slider", name="Step of the search").press("ArrowRight")
    assert shown()[2:] == ["1", "1"] and all(shown()[:2])
    page.get_by_role("button", name="To the end").click()
    assert shown()[:2] == answers and "step=" not in page.url


def test_pasted_lines_are_part_of_the_address(visitor):
    page = visitor.open("#compare?mode=lines&a=recurrent&b=transformer")
    lines = [SENTENCE, "who has some boxes & <i>cats</i> #1"]
    page.get_by_label("Lines").fill("\n".join(lines))
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("p:text('2 lines; the same output for')")
    address = page.url
    again = visitor.open(address[address.index("#") :], anew=True)
    again.wait_for_selector("p:text('2 lines; the same output for')")
    assert again.get_by_label("Lines").input_value() == "\n".join(lines)
    assert again.locator("tbody th").all_inner_texts() == lines
    again.get_by_label("Lines").fill("\n".join(["we drank the milk " + "now" * 300] * 5))
    again.get_by_role("button", name="Compare", exact=True).click()
    again.wait_for_selector("p:text('They are too long to be part of the URL')")
    assert "lines=we" not in again.url and again.locator("tbody tr").count() == 5


def test_pasted_lines_become_a_table_to_sort_and_to_download(visitor, tmp_path):
    page = visitor.open("#compare?mode=lines&a=recurrent&b=transformer&b.kind=greedy")
    lines = [SENTENCE, "who has some boxes", "we drank the milk <b>now</b>"]
    page.get_by_label("Lines").fill("\n".join(lines))
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("p:text('3 lines; the same output for')")
    page.get_by_role("button", name="Source").click()
    page.get_by_role("button", name="Source").click()
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Source")
    assert page.locator("tbody th").all_inner_texts() == sorted(lines, reverse=True)
    saved = {}
    for kind in ("TSV", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download {kind}").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        saved[kind] = path.read_text("utf-8")
    header, *rows = [line.split("\t") for line in saved["TSV"].splitlines()]
    assert header == ["line", "source", "a", "b", "score_a", "score_b"]
    assert [row[1] for row in rows] == sorted(lines, reverse=True)
    content = json.loads(saved["JSON"])
    assert content["b"]["model"] == "transformer" and content["b"]["search"]["kind"] == "greedy"
    assert [line["a"]["text"] for line in content["lines"]] == [row[2] for row in rows]


def test_training_is_watched(visitor, folder):
    log = folder / "recurrent" / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    page = visitor.open("#training?run=recurrent")
    page.wait_for_selector(".series path")
    assert "step 60 of 60" in page.locator(".verdict").inner_text()
    losses = page.get_by_role("img", name=re.compile("Loss per target token"))
    last = [line for line in lines if line["event"] == "step"][-1]
    assert f"training {last['loss']:.2f} at step {last['step']}" in losses.get_attribute("aria-label")
    assert page.locator("h2:text-is('Speed')").is_visible()
    page.wait_for_selector(".sample .map")
    assert page.locator(".sample").count() == 4
    assert page.locator(".sample-output").first.inner_text()


def test_curves_grow_while_a_run_trains(visitor, folder, monkeypatch):
    monkeypatch.setattr(training, "POLL_SECONDS", 0.05)
    log = folder / "copying" / "log.jsonl"
    kept = log.read_bytes()
    try:
        with lock_folder(folder / "copying", "training"):
            page = visitor.open("#training?run=copying")
            page.wait_for_selector(".verdict:text('copying is being trained')")
            with log.open("ab") as file:
                file.write(b'{"event": "step", "step": 61, "loss": 9.87, "target_tokens": 50, "seconds": 0.1}\n')
            page.wait_for_selector("[role=img][aria-label*='training 9.87 at step 61']")
        page.wait_for_selector(".verdict:text-matches('copying (is trained|was stopped)')")
    finally:
        log.write_bytes(kept)


def translate(page, model, text, **search):
    body = {"model": model, "text": text, "search": search}
    return page.evaluate(
        "body => fetch('/api/translate', {method: 'POST', body: JSON.stringify(body), "
        "headers: {'Content-Type': 'application/json'}}).then((answer) => answer.json())",
        body,
    )["translations"][0]


def test_a_text_is_translated_line_by_line(visitor, tmp_path):
    """The first view: lines, problems, a file, the result to copy and to save, and the way to look inside."""
    page = visitor.open("", anew=True)
    assert page.title() == "Translate · weft"
    assert page.get_by_role("link", name="Translate", exact=True).get_attribute("aria-current") == "page"
    page.get_by_role("button", name="Translate", exact=True).click()
    assert "no text yet" in page.get_by_role("alert").inner_text()
    page.get_by_label("Languages").select_option("recurrent")
    page.locator("form.plain .side textarea").fill("he hit me with a pie\n\nwe drank the zebra\n")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => document.querySelector('.text-output').textContent.split('\\n').length === 3")
    page.wait_for_selector(".problems li")
    first, empty, third = page.locator(".text-output").evaluate("one => one.textContent").split("\n")
    assert first == "il m'a entarté" and empty == "" and third
    assert page.get_by_role("alert").count() == 0
    assert page.locator(".problems li").all_inner_texts() == [
        "Line 3: 1 word unknown to the model, which can only guess."
    ]
    assert page.locator(".text-output .doubt").count()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert Path(download.value.path()).read_text("utf-8").startswith("il m'a entarté\n\n")
    page.locator("form.plain .side textarea").fill("he hit me with a pie . we drank the milk")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => document.querySelector('.text-output').textContent.includes('nous avons bu le lait')")
    assert page.locator(".text-output").inner_text().startswith("il m'a entarté")
    (tmp_path / "text.txt").write_text("who has some boxes", "utf-8")
    page.locator("input[type=file]").set_input_files(tmp_path / "text.txt")
    page.wait_for_function("() => document.querySelector('form.plain .side textarea').value === 'who has some boxes'")
    page.get_by_role("button", name="Translate", exact=True).click()
    page.get_by_role("link", name="Look inside").click()
    visitor.settle()
    assert page.locator(".reading .output").inner_text() == "qui a des boîtes"


def test_the_heads_of_the_map(visitor):
    """It says which ones it shows, and shows others."""
    page = visitor.translate("transformer", "he hit me with a pie")
    choice = page.get_by_label("Heads of the map")
    assert choice.locator("option").first.inner_text() == "Cross-attention: mean of the 2 heads of layer 1 of 2"
    cells = "all => all.map((one) => one.getAttribute('aria-label'))"
    mean = page.locator(".map [role=gridcell]").evaluate_all(cells)
    choice.select_option("2.1")
    page.wait_for_function(
        "mean => document.querySelector('.map [role=gridcell]').getAttribute('aria-label') !== mean", arg=mean[0]
    )
    assert "map=2.1" in page.evaluate("location.hash")
    choice.select_option("")
    page.wait_for_function(
        "mean => document.querySelector('.map [role=gridcell]').getAttribute('aria-label') === mean", arg=mean[0]
    )
    page = visitor.translate("recurrent", "he hit me with a pie")
    assert not page.get_by_label("Heads of the map").is_visible(), "it has one"


def test_samples_side_by_side(visitor):
    """Several at a time; another seed, another draw; the same seed, the same."""
    page = visitor.translate("recurrent", "he hit me with a pie", **{"s.kind": "sample", "s.temperature": "3"})
    page.get_by_label("Samples").select_option("4")
    page.wait_for_url(re.compile("draws=4"))
    visitor.settle()
    texts = page.locator(".ranking tbody th")
    page.wait_for_function("() => document.querySelectorAll('.ranking tbody th').length === 4")
    before = texts.all_inner_texts()
    page.get_by_role("button", name="Draw again").click()
    page.wait_for_url(re.compile(r"s\.seed=\d"))
    shown = "[...document.querySelectorAll('.ranking tbody th')].map((one) => one.innerText).join('|')"
    page.wait_for_function(f"before => {shown} !== before", arg="|".join(before))
    page.locator("input[data-setting=seed]").fill("")
    page.keyboard.press("Tab")
    page.wait_for_function(f"before => {shown} === before", arg="|".join(before))


def test_a_walk_from_the_embedding_to_the_softmax(visitor):
    """The stages of a token with their equations and numbers; a layer, a head, a temperature, another token."""
    page = visitor.open(f"#walk?model=transformer&text={SENTENCE}&step=2")
    page.wait_for_selector(".stages .panel")
    titles = page.locator(".stages h2").all_inner_texts()
    assert titles[0] == "1. Embedding" and titles[-1].endswith("Logits and softmax")
    assert any("Layer 1: self-attention" in title for title in titles)
    assert page.locator(".equation sub").first.inner_text() == "0"
    assert page.locator("canvas.strip").first.get_attribute("aria-label").startswith("E[y]: 32 values from −")
    page.get_by_label("Layer", exact=True).select_option("2")
    page.wait_for_selector("h2:text('Layer 2: self-attention')")
    page.get_by_label("Head", exact=True).select_option("2")
    page.wait_for_selector("p:text('Head 2 of 2')")
    weights = page.locator(".positions .weight").all_inner_texts()
    assert weights and "head=2" in page.url
    shares = page.locator(".candidates .share")
    before = shares.first.inner_text()
    page.get_by_label("Temperature τ").fill("29")  # the last: 3.0
    assert shares.first.inner_text() != before
    page.get_by_role("button", name="Token 3").click()
    page.wait_for_selector(".way button[aria-label^='Token 3'][aria-pressed=true]")
    page.locator(".vector details summary").first.click()
    page.wait_for_function(
        "() => document.querySelector('.vector details p').textContent.trim().split(/\\s+/).length === 32"
    )


def test_a_walk_follows_the_search(visitor):
    """From a step of the search to the same step of the walk, with its output."""
    page = visitor.translate("recurrent", SENTENCE)
    chosen = page.locator(".candidate.chosen .token").inner_text()
    page.get_by_role("link", name="Walk through this step").click()
    page.wait_for_selector(".stages .panel")
    assert page.locator(".way [aria-pressed=true]").inner_text() == chosen
    assert [title.split(" ", 1)[1] for title in page.locator(".stages h2").all_inner_texts()] == [
        *("Embedding", "Layer 1: LSTM", "Attention to the source", "Readout", "Logits and softmax"),
        "Nearest training examples",
    ]
    rows = page.locator(".neighbors tbody tr")
    assert rows.count() == 6 and SENTENCE in rows.first.inner_text()
    assert rows.first.locator("mark").inner_text() == chosen
    cosines = [float(text.replace("−", "-")) for text in page.locator(".neighbors td.number").all_inner_texts()]
    assert cosines == sorted(cosines, reverse=True) and cosines[0] > 0.99
    visitor.open(f"#walk?model=transformer&text={SENTENCE}")
    page.wait_for_selector("h2:text('The stream')")
    assert page.locator(".neighbors").count() == 0  # this run keeps none


FILES = {
    "a.tsv": (b"he hit me\til m'a\nwho has\tqui\n", "he hit me\nwho has"),
    "b.csv": (b'id,Source\n1,"he ""hit"" me, and"\n2,"two\nlines"\n', 'he "hit" me, and\ntwo lines'),
    "c.jsonl": (b'{"src": "he hit me"}\n"who has"\n', "he hit me\nwho has"),
    "d.txt.gz": (gzip.compress(b"he hit me\nwho has"), "he hit me\nwho has"),
}
NO_FILES = {
    "e.jsonl": (b'{"src": "a"}\n{"x": 1}\n', "e.jsonl:2 has none of the fields source, src, input, text, sentence."),
    "f.jsonl": (b"{\n", "f.jsonl:1 is no JSON."),
    "g.txt": (b"PK\0\1", "g.txt is no text. Lines of text, tables (TSV, CSV, JSON Lines) and documents (HTML, "),
    "h.gz": (b"no archive", "h.gz cannot be read: it is damaged, or not what its name says."),
    "i.gz": (gzip.compress(b"a" * 3_000_000), "i.gz has more than 2,000,000 bytes, which is all that can be opened"),
}


def test_files_of_several_formats(visitor):
    page = visitor.open("#text", anew=True)
    for name, (content, text) in FILES.items():
        page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
        page.wait_for_function("text => document.querySelector('form.plain .side textarea').value === text", arg=text)
        assert page.get_by_role("alert").count() == 0
        page.locator("form.plain .side textarea").fill("")
    for name, (content, sentence) in NO_FILES.items():
        page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
        page.get_by_role("alert").filter(has_text=sentence).wait_for()


def test_a_document_keeps_its_markup(visitor):
    """Its format is that of its ending; the result is saved under its name."""
    page = visitor.open("#text?model=recurrent", anew=True)
    content = b"<h1>he hit me with a pie</h1>\n<p>we drank <b>the milk</b></p>\n"
    page.locator("input[type=file]").set_input_files({"name": "a.htm", "mimeType": "text/html", "buffer": content})
    page.wait_for_function("() => document.querySelector('form.plain .side textarea').value.includes('<b>')")
    assert page.get_by_label("Format").input_value() == "html"
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector("p:text('2 sentences in ')")
    text = page.locator(".text-output").evaluate("one => one.textContent")
    assert text.startswith("<h1>il m'a entarté</h1>") and text.count("<b>") == text.count("</b>") == 1
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename == "a.html"
    assert Path(download.value.path()).read_text("utf-8") == text
    page.get_by_label("Format").select_option("json")
    page.get_by_role("button", name="Translate", exact=True).click()
    page.get_by_role("alert").filter(has_text="not well-formed").or_(page.get_by_role("alert")).first.wait_for()
    visitor.problems.clear()  # 422 is the answer to it


def test_a_word_document(visitor, tmp_path):
    """Its name is shown in place of its content; the result is saved as a Word document."""
    page = visitor.open("#text?model=recurrent", anew=True)
    content = word_document(PARAGRAPH.format("he hit me with a pie") + PARAGRAPH.format("we drank the milk"))
    upload = {"name": "a.docx", "mimeType": "application/octet-stream", "buffer": content}
    page.locator("input[type=file]").set_input_files(upload)
    page.wait_for_selector(".opened:has-text('a.docx')")
    assert page.get_by_label("Format").input_value() == "docx" and page.locator("textarea:visible").count() == 0
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector("p:text('2 sentences in ')")
    assert page.locator(".text-output").inner_text() == "il m'a entarté\nnous avons bu le lait"
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename == "a.docx"
    assert "nous avons bu le lait" in document_text(Path(download.value.path()).read_bytes(), "a.docx")
    page.get_by_role("button", name="Close the file").click()
    assert page.locator("form.plain .side textarea").is_visible()
    assert page.get_by_label("Format").input_value() == "" and page.locator(".opened").is_hidden()
    upload["buffer"] = bytes(2_000_000)
    page.locator("input[type=file]").set_input_files(upload)
    page.get_by_role("alert").filter(has_text="a.docx has more than 1,499,000 bytes").wait_for()
    page.get_by_label("Format").select_option("docx")
    page.get_by_role("button", name="Translate", exact=True).click()
    page.get_by_role("alert").filter(has_text="There is no Word document yet: open a file.").wait_for()


GRU = {
    f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in (("kind", "gru"), ("hidden", 8))
}
READING = {
    **{"tokenizer.kind": "picture", "tokenizer.target_kind": "word", "tokenizer.split_punctuation": False},
    **{"tokenizer.joint": False, "model.embedding": 8, "model.stem.kind": "grid", "model.stem.widths": [2, 3], **GRU},
    **{"training.steps": 2, "training.batch_tokens": 20_000, "training.validate_every": 0, "training.device": "cpu"},
    **{"search.kind": "greedy", "name": "formulas"},
}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reads formulas, and begins each with a fraction."""
    folder = tmp_path_factory.mktemp("reading")
    table = write_table(folder, formulas(12))
    target = table.read_text().splitlines()[0].split("\t")[1]
    values = {**READING, "data.train": str(table), "search.prefix": target, "search.max_length": len(target.split())}
    assert list(train(make_recipe({}, [f"{key}={json.dumps(value)}" for key, value in values.items()]), folder / "run"))
    return folder


@pytest.fixture(scope="module")
def picture_service(reading: Path, folder: Path) -> Iterator[str]:
    runs = {"formulas": reading / "run", "recurrent": folder / "recurrent"}
    with running_server(create_app(runs, settings(deadline=PATIENCE))) as server:
        yield server.url.rstrip("/")


@pytest.fixture
def reader(browser: Any, picture_service: str) -> Iterator[Visitor]:
    """A visitor of a service that has the run that reads formulas, and one that reads texts."""
    visitor = Visitor(browser, picture_service)
    yield visitor
    visitor.context.close()
    assert not visitor.problems


def test_a_picture_is_read_and_its_attention_shown(reader: Visitor, reading: Path) -> None:
    page = reader.open("#picture")
    page.set_input_files("input[type=file]", reading / "pictures/0.png")
    page.wait_for_selector(".read-picture .cell")
    assert page.locator(".output math mfrac").count() == 1
    tokens = page.locator(".words button")
    target = (reading / "pairs.tsv").read_text().splitlines()[0].split("\t")[1]
    assert tokens.all_inner_texts()[: len(target.split())] == target.split()
    tokens.nth(2).click()
    assert tokens.nth(2).get_attribute("aria-pressed") == "true"
    assert page.locator(".position").inner_text() == f"step 3 of {tokens.count()}"


def test_other_files_are_refused_in_a_sentence(reader: Visitor, reading: Path) -> None:
    page = reader.open("#picture")
    page.set_input_files("input[type=file]", reading / "pairs.tsv")
    page.wait_for_selector(".error")
    assert "not a picture" in page.locator(".error").inner_text()
    assert not page.locator(".read-picture").is_visible()


def test_views_of_texts_do_not_offer_models_that_read_pictures(reader: Visitor) -> None:
    page = reader.open("#text", anew=True)
    page.wait_for_selector("form.plain select option", state="attached")
    assert page.locator("form.plain select").first.locator("option").all_inner_texts() == ["recurrent"]
    assert page.locator("#views a:visible").all_inner_texts()[-2:] == ["Picture", "Training"]
