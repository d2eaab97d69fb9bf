"""What holds for the whole page: its address, keyboard and screen reader, sizes, hostile texts, files to keep."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import weft.apps.serve

FOLDER = Path(weft.apps.serve.__file__).parent / "page"
MODULES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.js"))
SENTENCE = "a witch must open the bag of the nurse"
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
SHORT = "he hit me with a pie"
VIEWS = {
    "text": "#text",
    "translate": f"#translate?model=transformer&text={SHORT}&blocked=1",
    "sample": f"#translate?model=recurrent&text={SHORT}&s.kind=sample&s.top_k=5",
    "walk": f"#walk?model=transformer&text={SHORT}&step=2",
    "heads": f"#heads?model=transformer&text={SHORT}&off=cross.1.1",
    "embeddings": "#embeddings?model=transformer&token=the",
    "compare": f"#compare?a=recurrent&b=transformer&text={SHORT}",
    "lines": "#compare?mode=lines",
    "training": "#training?run=transformer",
}


def test_every_module_loads(visitor):
    page = visitor.open("#translate")
    load = "name => import('/page/' + name).then(() => null, (error) => `${name}: ${error}`)"
    failures = page.evaluate(f"names => Promise.all(names.map({load}))", MODULES)
    assert not [failure for failure in failures if failure]


def test_modules_make_no_markup_and_hold_no_addresses():
    for name in MODULES:
        text = (FOLDER / name).read_text("utf-8")
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "document.cookie",
            "localStorage",
        ):
            assert forbidden not in text, f"{name}: {forbidden}"
        assert not re.search(r"\beval\(|new Function\(", text), name
        assert set(re.findall(r"https?://[^'\"\s]+", text)) <= NAMESPACES, name
        assert not re.search(r"['`\"]/(api|page)/", text), f"{name}: the service may be mounted below another path"
        assert text.count("\n") <= 400, name
        assert text.startswith("/**"), f"{name}: does not say what it is for"


def test_an_address_opens_the_same_view_again(visitor):
    page = visitor.translate("recurrent", SENTENCE, **{"s.size": "3", "unit": "tokens"})
    page.get_by_role("button", name="One step back").click()
    page.get_by_role("button", name="One step back").click()
    address, shown = page.evaluate("location.hash"), page.locator(".words.target").inner_text()
    assert {"model=recurrent", "s.size=3", "unit=tokens"} <= set(
        address.split("?")[1].split("&")
    ) and "step=" in address
    page = visitor.open(address, anew=True)
    page.wait_for_function("shown => document.querySelector('.words.target')?.innerText === shown", arg=shown)
    assert page.evaluate("location.hash") == address
    assert page.locator("input[data-setting=size]").input_value() == "3"


def test_back_returns_to_the_search_before(visitor):
    page = visitor.translate("recurrent", "who has some boxes")
    page.locator(".kinds input[value=greedy]").check(force=True)
    page.wait_for_url(re.compile("s.kind=greedy"))
    visitor.settle()
    page.go_back()
    page.wait_for_selector(".kinds input[value=beam]:checked", state="attached")
    visitor.settle()


def test_a_sentence_is_translated_by_keyboard_alone(visit):
    visitor = visit()
    page = visitor.open("#translate")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Enter")
    visitor.settle()
    assert page.locator(".reading .output").inner_text()
    page.locator(".words.target button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.target") == "1"
    assert "looks at" in page.locator("p.pointed").inner_text()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_fits_every_width_and_axe_finds_no_violation(visitor, name):
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page = visitor.open(VIEWS[name])
    try:
        for width in (3840, 768, 320, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{wide} pixels too wide at {width}"
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text("utf-8"))
        violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        dark = "axe.run(document, {resultTypes: ['violations'], runOnly: ['color-contrast']})"
        violations += page.evaluate(dark)["violations"]
    finally:
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.set_viewport_size({"width": 1280, "height": 900})
    assert not violations, json.dumps(
        [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in violations]
    )


STEPS = {
    f"{model}-{step}": f"#translate?model={model}&text={SENTENCE}&step={step}"
    for model in ("recurrent", "transformer")
    for step in (1, 3)
}
MORE_VIEWS = {
    **VIEWS,
    **STEPS,
    "recurrent": f"#translate?model=recurrent&text={SENTENCE}",
    "map": f"#translate?model=transformer&text={SENTENCE}&map=2.1",
    "samples": f"#translate?model=recurrent&text={SHORT}&s.kind=sample&s.temperature=3&draws=4",
    "copying": f"#translate?model=copying&text={SHORT}",
    "walk-recurrent": f"#walk?model=recurrent&text={SHORT}&step=2",
    "error": f"#translate?model=recurrent&text={SHORT}&s.size=3&s.groups=2",
    "long": "#translate?model=recurrent&text=" + f"{SENTENCE} " * 60,
}


def present(page):
    page.get_by_role("button", name="Present").click()


def fill_in(page):
    """The first view with a translation and its problems."""
    page.get_by_text("Glossary and translation memory").click()
    page.locator("form.plain .side textarea").fill("he hit me with a pie\nwe drank the zebra")
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector(".problems li")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MORE_VIEWS, "text-filled", "present", "present-walk"])
def test_axe_finds_no_violation_at_any_width_and_in_any_color_scheme(visitor, name):
    """Every view, also at the first steps, in present mode and with an error."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    actions = {"text-filled": ("text", fill_in), "present": ("recurrent", present), "present-walk": ("walk", present)}
    view, act = actions.get(name, (name, lambda page: None))
    page = visitor.open("#text", anew=True)
    page = visitor.open(MORE_VIEWS[view])
    act(page)
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text("utf-8"))
    violations = {}
    try:
        for width in (320, 768, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(250)  # figures are drawn anew
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{wide} pixels too wide at {width}"
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                for one in found:
                    violations[width, scheme, one["id"]] = [node["html"][:200] for node in one["nodes"][:3]]
    finally:
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.set_viewport_size({"width": 1280, "height": 900})
        visitor.open("#text", anew=True)
    assert not violations


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_pictures_are_saved(visitor, tmp_path, kind):
    page = visitor.translate("recurrent", SENTENCE)
    for name in ("words", "search-tree", "next-word", "attention"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {name} as {kind}").click()
        path = tmp_path / download.value.suggested_filename
        assert path.name == f"{name}.{kind.lower()}"
        download.value.save_as(path)
        content = path.read_bytes()
        if kind == "PNG":
            width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
            assert content.startswith(b"\x89PNG") and width > 300 and height > 100 and len(content) > 3000, name
        else:
            picture = ElementTree.fromstring(content)
            assert picture.tag == "{http://www.w3.org/2000/svg}svg"
            assert not [one for one in picture.iter() if "style" in one.attrib or one.tag.endswith("script")]
            assert [one for one in picture.iter() if one.tag.endswith("text") and one.text], name


def test_heads_and_positions_are_saved(visitor, tmp_path):
    page = visitor.open(VIEWS["heads"])
    page.wait_for_selector(".thumb")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save cross-heads as SVG").click()
    download.value.save_as(tmp_path / "heads.svg")
    picture = ElementTree.fromstring((tmp_path / "heads.svg").read_bytes())
    images = [one for one in picture.iter() if one.tag.endswith("image")]
    assert len(images) == 4 and all(one.attrib["href"].startswith("data:image/png;base64,") for one in images)


def test_markup_in_a_text_stays_text(visitor):
    hostile = "<img src=x onerror=alert(1)> <script>alert(2)</script> \u202eabc \U0001f967 &amp; {{7*7}}"
    page = visitor.translate("transformer", hostile)
    assert page.locator("main img, main script").count() == 0
    shown = "".join(page.locator(".words.source button").all_text_contents())
    assert "onerror" in shown and "<" in shown
    page.get_by_role("navigation").get_by_text("Heads").click()
    page.wait_for_selector(".thumb")
    assert page.locator("main img, main script").count() == 0


def test_an_error_is_said_in_one_sentence(visitor):
    page = visitor.open("#translate?model=recurrent&text=who&s.size=3&s.groups=2")
    page.wait_for_selector("[role=alert]")
    assert "a beam of 3 cannot be divided" in page.locator("[role=alert]").inner_text()
    visitor.translate("recurrent", "who has some boxes")
    assert page.locator("[role=alert]").count() == 0


def events(*pairs):
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in pairs)


def answer(source, target):
    """What a service would stream for a greedy search of one token a word."""
    tokens, words = [*source.split(), "</s>"], target.split()
    weights = [[float(column == row % len(tokens)) for column in range(len(tokens))] for row in range(len(words))]
    translation = {
        **{"source": source, "text": target, "score": -1.0, "log_probability": -2.0, "tokens": words, "copied": None},
        **{"ids": list(range(3, 3 + len(words))), "source_tokens": tokens, "attention": weights, "ended": "end"},
        **{
            "word_attention": {"weights": weights, "source": tokens, "target": words},
            "links": [],
            "length": len(words) + 1,
        },
        **{
            "source_words": tokens[:-1],
            "source_word_of_token": [*range(len(tokens) - 1), -1],
            "coverage": 0.0,
            "gap": None,
        },
        **{"target_words": words, "target_word_of_token": list(range(len(words))), "proven": False, "alternatives": []},
    }
    draws = [
        {
            "tokens": [word],
            "ids": [3 + step],
            "probabilities": [1.0],
            "log_probabilities": [0.0],
            "kept": [True],
            "chosen": 0,
        }
        for step, word in enumerate(words)
    ]
    steps = [
        ("step", {"step": step, "branches": None, "candidates": None, "attention": [weights[step]], "draws": [draw]})
        for step, draw in enumerate(draws)
    ]
    start = {"model": "recurrent", "kind": "greedy", "search": {"kind": "greedy"}, "source_tokens": tokens, "size": 1}
    return events(("start", start), *steps, ("done", {"translation": translation, "winner": None}))


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=pytest.mark.slow)])
def test_right_to_left_scripts_and_sentences_of_sixty_words(visit, width):
    visitor = visit(viewport={"width": width, "height": 800})
    arabic = "ذهب الولد إلى المدرسة صباحا مع أخته الصغيرة"
    hebrew = "הילד הלך לבית הספר בבוקר עם אחותו הקטנה"
    long = " ".join(f"word{number}" for number in range(60))
    replies = {arabic: answer(arabic, hebrew), long: answer(long, long)}
    visitor.page.route(
        "**/api/translate/stream",
        lambda route: route.fulfill(
            status=200, content_type="text/event-stream", body=replies[route.request.post_data_json["text"]]
        ),
    )
    page = visitor.translate("recurrent", arabic)
    for selector in (".words.source", ".words.target", ".reading .output", "textarea"):
        assert page.locator(selector).first.get_attribute("dir") == "rtl", selector
    positions = [page.locator(".words.source button").nth(index).bounding_box()["x"] for index in (0, 1)]
    assert positions[0] > positions[1]
    labels = [page.locator(f"[role=gridcell][data-target='0'][data-source='{at}']") for at in (0, 1)]
    assert float(labels[0].get_attribute("x")) > float(labels[1].get_attribute("x"))
    page = visitor.translate("recurrent", long)
    assert page.get_by_role("gridcell").count() == 60 * 61
    assert page.locator(".words.target button").count() == 60
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_key_is_asked_for_where_one_is_needed(visit):
    visitor = visit()
    keys = []

    def guard(route):
        keys.append(route.request.headers.get("authorization"))
        if keys[-1] == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, content_type="application/json", body='{"error": "a key is needed"}')

    visitor.page.route("**/api/models", guard)
    visitor.page.goto(visitor.service)
    visitor.page.get_by_role("textbox", name="Key").fill("secret")
    visitor.page.get_by_role("button", name="Use this key").click()
    visitor.page.wait_for_selector("main > .view")
    assert keys == [None, "Bearer secret"]


def test_the_description_of_the_api_has_no_violation(visitor):
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page = visitor.page
    page.goto(f"{visitor.service}/docs")
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text("utf-8"))
    violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    visitor.open("#translate", anew=True)
    assert not [
        (one["id"], one["nodes"][0]["html"][:200]) for one in violations if one["impact"] in ("serious", "critical")
    ]


def test_errors_are_said_in_words_and_go_when_they_no_longer_hold(visitor):
    page = visitor.open("#translate?model=recurrent", anew=True)
    page.get_by_role("button", name="Translate", exact=True).click()
    assert "no text yet" in page.get_by_role("alert").inner_text()
    page.locator("form.sentence textarea").fill(SHORT)
    page.get_by_role("button", name="Translate", exact=True).click()
    visitor.settle()
    assert page.get_by_role("alert").count() == 0
    page.get_by_label("Or enter the next word yourself").fill("zebra")
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector(".error")
    assert "does not know “zebra”" in page.get_by_role("alert").inner_text()
    page.locator(".kinds input[value=greedy]").check(force=True)
    page.wait_for_selector(".error", state="detached")
    visitor.settle()


@pytest.mark.parametrize("step", ["NaN", "-1", "1.5", "x"])
def test_what_is_no_step_is_ignored(visitor, step):
    page = visitor.translate("recurrent", SHORT, step=step)
    total = page.locator("output.position").inner_text()
    assert re.fullmatch(r"step (\d+) of \1", total), total


def test_without_the_service(visit):
    """A click says what is wrong; nothing is an error of the page."""
    visitor = visit()
    page = visitor.open("#translate?model=recurrent")
    visitor.context.set_offline(True)
    page.locator("form.sentence textarea").fill(SHORT)
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector(".error")
    assert "The service does not answer" in page.get_by_role("alert").inner_text()
    visitor.context.set_offline(False)
    visitor.problems = [problem for problem in visitor.problems if "ERR_INTERNET_DISCONNECTED" not in problem]


def test_present_mode(visitor):
    """One panel at a time; keys lead on and back, from step to step, and out of it."""
    page = visitor.translate("recurrent", SENTENCE)
    page.get_by_role("button", name="Present").click()
    titles = lambda: page.locator(".panel h2").evaluate_all(  # noqa: E731
        "all => all.filter((one) => one.checkVisibility()).map((one) => one.textContent)"
    )
    assert titles() == ["Translation, step by step"]
    before = page.locator("output.position").inner_text()
    page.keyboard.press("ArrowLeft")
    assert page.locator("output.position").inner_text() != before
    page.keyboard.press("PageDown")
    assert titles() == ["The search tree"] and page.locator(".presenter output").inner_text() == "2 of 6"
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    assert titles() == ["Translation, step by step"]
    page.keyboard.press("Escape")
    assert len(titles()) == 7


def test_a_print_has_the_sentence_the_model_and_the_pictures(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    page.emulate_media(media="print")
    try:
        shown = page.locator(".print-only").inner_text()
        assert SENTENCE in shown and "recurrent" in shown
        assert page.locator(".tree").is_visible() and page.locator(".map").is_visible()
        assert not page.locator("form.sentence").is_visible() and not page.locator(".search").is_visible()
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 1
    finally:
        page.emulate_media(media="screen")


def busiest_task(browser, page, act):
    """The most milliseconds of CPU time that a task of the page's main thread takes: load does not change that."""
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    act()
    events = json.loads(browser.stop_tracing())["traceEvents"]
    named = [event for event in events if event.get("name") == "thread_name"]
    main = {(event["pid"], event["tid"]) for event in named if event["args"]["name"] == "CrRendererMain"}
    tasks = [event for event in events if event.get("ph") == "X" and "RunTask" in event["name"]]
    return max(event.get("tdur", 0) for event in tasks if (event["pid"], event["tid"]) in main) / 1000


@pytest.mark.parametrize("model", ["recurrent", "transformer"])
def test_five_thousand_characters(visitor, browser, model):
    """Neither many elements nor long tasks: a part is shown, and all weights as a picture."""
    text = (f"{SENTENCE} " * 200)[:5000].strip()
    longest = busiest_task(browser, visitor.page, lambda: visitor.translate(model, text))
    page = visitor.page
    assert page.locator(".error").count() == 0
    assert page.locator("*").count() < 6_000
    assert longest < 200, "milliseconds of CPU time; 55 on the busy machine where it was measured, 100 are wanted"
    assert "of" in page.locator(".reading .hint").nth(1).inner_text()
    assert page.locator(".overview canvas").is_visible()
    assert page.locator(".words.source button").count() <= 60
