"""What a person can do with one sentence: watch, point, choose, change."""

import re

import pytest

SENTENCE = "a witch must open the bag of the nurse"
MODELS = ["recurrent", "transformer"]


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def step_to(page, step):
    """Move the player's slider to a step."""
    slider = page.get_by_label("Step of the search")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(step):
        page.keyboard.press("ArrowRight")


def api(page, path, body):
    """An answer of the service itself, to compare with what the page shows."""
    return page.evaluate(
        "([path, body]) => fetch(path, {method: 'POST', body: JSON.stringify(body), "
        "headers: {'Content-Type': 'application/json'}}).then((answer) => answer.json())",
        [path, body],
    )


def translation(page, model, text, **body):
    return api(page, "/api/translate", {"model": model, "text": text, "attention": True, **body})["translations"][0]


def test_the_languages_of_a_model_that_has_several(visit):
    """Those of each side as a list; the choice is sent, and part of the address."""
    codes = ["eng_Latn", "fra_Latn"]

    def offer(route):
        answer = route.fetch().json()
        answer["models"][0]["languages"] = {"source": [], "target": codes}
        route.fulfill(json=answer)

    visitor = visit()
    visitor.page.route("**/api/models", offer)
    page = visitor.open(f"#translate?model=recurrent&text={SENTENCE}", anew=True)
    assert page.get_by_label("Language of the source").count() == 0
    into = page.get_by_label("Translate into")
    assert into.locator("option").all_inner_texts() == ["automatic", *codes]
    with page.expect_request("**/api/translate/stream") as sent:
        into.select_option("fra_Latn")
    assert sent.value.post_data_json["search"]["target_language"] == "fra_Latn"
    assert "s.target_language=fra_Latn" in page.url
    page.wait_for_selector("[role=alert]:has-text('takes no target language')")
    page.goto("about:blank")
    visitor.problems.clear()  # the model of this test has no languages


def test_a_translation_appears_step_by_step(visit):
    visitor = visit(reduced_motion="no-preference")
    page = visitor.open("#translate?model=recurrent")
    speed = page.locator(".speed input")
    speed.evaluate("slider => { slider.value = slider.min; slider.dispatchEvent(new Event('input')); }")
    assert page.locator(".speed output").text_content() == "0.25 steps/s"
    page.locator(".examples button").first.click()
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").is_visible()
    page.get_by_role("button", name="To the start").click()
    seen = []
    for _ in range(3):
        page.get_by_role("button", name="One step on").click()
        seen.append(page.locator(".words.target button").count())
    assert seen == [1, 2, 3]
    page.get_by_role("button", name="One step back").click()
    assert page.locator(".player .position").inner_text().startswith("step 2 of")
    page.get_by_label("Speed").focus()
    page.keyboard.press("End")
    page.get_by_role("button", name="Play").click()
    visitor.settle()
    said = page.locator("#announcements").inner_text()
    assert said == "Finished: " + page.locator(".reading .output").inner_text()


def test_unknown_tokens_of_the_source_are_told(visitor):
    page = visitor.translate("recurrent", "a witch must open the Bag")
    assert page.locator(".reading .summary").inner_text().endswith(" 1 token of the source is unknown to the model.")
    assert page.locator("main").inner_text().count("LSTM encoder, ") == 1


def test_doubtful_words_are_marked(visitor):
    """Those that are improbable or have a reason, with both; and flags in words."""
    page = visitor.translate("recurrent", "a witch must open the Bag")
    answer = translation(page, "recurrent", "a witch must open the Bag", n_best=4)
    doubtful = [word for word in answer["words"] if word["probability"] < 0.9 or word["reasons"]]
    assert doubtful and texts(page, ".reading .output .doubt") == [word["text"] for word in doubtful]
    assert page.locator(".reading .output").inner_text() == answer["text"]
    titles = page.locator(".reading .output .doubt").evaluate_all("all => all.map((one) => one.title)")
    for word, title in zip(doubtful, titles, strict=True):
        assert title.startswith("probability ") and title.count(";") == len(word["reasons"])
    assert answer["flags"] == ["unknown-tokens"]
    assert texts(page, ".reading .doubts li")[0] == "there are words that the model does not know"
    visitor.translate("recurrent", SENTENCE)
    assert not any("does not know" in text for text in texts(page, ".reading .doubts li"))


def test_each_step_shows_the_candidates_with_their_probabilities(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    words = texts(page, ".words.target button")
    step_to(page, 2)
    chosen = page.locator(".candidate.chosen")
    assert chosen.locator(".token").inner_text() == words[1]
    shares = [float(re.sub(r"[^\d.]", "", share)) for share in texts(page, ".candidate .share")]
    assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 101
    assert page.locator(".distribution .bar").count() >= 5


@pytest.mark.parametrize("model", MODELS)
def test_pointing_at_a_word_lights_up_its_sources_and_the_other_way_round(visitor, model):
    page = visitor.translate(model, SENTENCE)
    expected = translation(page, model, SENTENCE)["word_attention"]
    target = len(expected["target"]) - 1
    row = expected["weights"][target]
    source = row.index(max(row))
    page.locator(".words.target button").nth(target).hover()
    assert "lit" in page.locator(".words.source button").nth(source).get_attribute("class")
    lit = page.locator(".words.source button.lit").count()
    assert lit == sum(weight >= 0.1 for weight in row)
    sentence = page.locator("p.pointed").inner_text()
    assert expected["target"][target] in sentence and expected["source"][source] in sentence
    page.locator(".words.source button").nth(source).focus()
    assert "lit" in page.locator(".words.target button").nth(target).get_attribute("class")
    assert page.locator(".links path.lit").count() >= 1


def test_links_join_the_words_that_the_attention_aligns(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    expected = translation(page, "recurrent", SENTENCE)["links"]
    drawn = page.eval_on_selector_all(
        ".links path[data-link]", "paths => paths.map((path) => [+path.dataset.source, +path.dataset.target])"
    )
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, expected))


@pytest.mark.parametrize("unit", ["words", "tokens"])
def test_the_map_has_every_weight_and_a_table_behind_it(visitor, unit):
    page = visitor.translate("transformer", SENTENCE, unit=unit)
    answer = translation(page, "transformer", SENTENCE)
    weights = answer["attention"] if unit == "tokens" else answer["word_attention"]["weights"]
    grid = page.get_by_role("grid")
    assert grid.get_by_role("gridcell").count() == len(weights) * len(weights[0])
    page.locator("details.table-behind").evaluate("details => { details.open = true; }")
    page.wait_for_selector("table.weights")
    cells = page.locator("table.weights tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent)))"
    )
    for shown, row in zip(cells, weights, strict=True):
        assert shown == pytest.approx(row, abs=6e-4)
    headers = page.locator("table.weights thead th").all_inner_texts()
    assert headers == (answer["source_tokens"] if unit == "tokens" else answer["word_attention"]["source"])


def test_arrow_keys_move_through_the_map(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    first = page.get_by_role("gridcell").first
    first.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    focused = page.evaluate("[document.activeElement.dataset.source, document.activeElement.dataset.target]")
    assert focused == ["1", "2"]
    assert page.locator(".map .band:visible").count() == 2


def test_the_tree_grows_and_the_winner_is_marked(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    counts = []
    for step in range(4):
        step_to(page, step)
        counts.append(page.get_by_role("treeitem").count())
    assert counts[0] == 1 and counts == sorted(set(counts))
    page.get_by_role("button", name="To the end").click()
    for kind in ("kept", "pruned", "finished"):
        assert page.locator(f".tree .node.{kind}").count() > 0, kind
    best = texts(page, ".tree .node.best:not(.root) > text:not(.crown)")
    assert [re.sub(r"\+\d+", "", text).strip() for text in best][:-1] == texts(page, ".words.target button")
    assert page.locator(".tree .crown").count() == 1


def test_the_tree_has_as_much_detail_as_there_is_room_for(visitor):
    """Probabilities at the first step, the same as among the candidates; the whole tree at the last one."""
    page = visitor.translate("recurrent", SENTENCE)
    fits = """() => { const scroll = document.querySelector('.tree').closest('.scroll');
        return scroll.scrollWidth <= scroll.clientWidth && scroll.scrollHeight <= scroll.clientHeight; }"""
    assert page.evaluate(fits)
    page = visitor.translate("transformer", SENTENCE)
    step_to(page, 1)
    assert page.evaluate(fits)
    shares = texts(page, ".tree .node:not(.root) .share")
    assert shares and shares[0] == page.locator(".candidate.chosen .share").inner_text()
    page.set_viewport_size({"width": 1280, "height": 420})
    few = "count => document.querySelectorAll('.tree .node').length < count"
    page.wait_for_function(few, arg=len(shares) + 1)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_click_on_a_branch_goes_on_from_there(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    before = page.locator(".reading .output").inner_text()
    branch = page.locator(".tree .node.pruned").first
    token = branch.locator("text").first.text_content()
    branch.click()
    page.wait_for_url(re.compile("prefix="))
    visitor.settle()
    page.wait_for_function("before => document.querySelector('.reading .output').textContent !== before", arg=before)
    assert token in texts(page, ".words.target button")
    assert "begins with" in page.locator(".chip.change").inner_text()


def test_finished_hypotheses_have_score_log_p_and_length_term(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    rows = page.locator(".ranking tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.children].map((cell) => cell.textContent.replace('−', '-')))"
    )
    assert len(rows) >= 3
    for _, _, score, log_probability, length, term in rows:
        assert float(term) == float(length)  # α is 1
        assert float(score) == pytest.approx(float(log_probability) / float(term), abs=2e-3)
    page.locator(".ranking tbody button").nth(1).click()
    assert page.locator(".reading .output").inner_text() == rows[1][1]


def test_the_length_penalty_ranks_anew_at_once(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    asked = visitor.asked()
    before = texts(page, ".ranking tbody tr td:nth-child(3)")
    slider = page.locator("input[data-setting=length_penalty]")
    slider.evaluate("slider => { slider.value = 0; slider.dispatchEvent(new Event('input', {bubbles: true})); }")
    after = texts(page, ".ranking tbody tr td:nth-child(3)")
    assert after != before
    assert after == texts(page, ".ranking tbody tr td:nth-child(4)")  # without a penalty the score is log p
    assert visitor.asked() == asked
    slider.evaluate("slider => slider.dispatchEvent(new Event('change', {bubbles: true}))")
    page.wait_for_url(re.compile("s.length_penalty=0"))


@pytest.mark.parametrize(("setting", "value"), [("top_k", 3), ("top_p", 0.3), ("min_p", 0.9), ("typical", 0.1)])
def test_filters_are_drawn_as_a_cut_through_the_distribution(visitor, setting, value):
    page = visitor.translate("transformer", SENTENCE, **{"s.kind": "sample", "s.temperature": "1.5"})
    step_to(page, 1)
    assert page.locator(".distribution .bar.removed").count() == 0
    asked = visitor.asked()
    page.locator(f"input[data-setting={setting}]").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )
    kept, removed = (page.locator(f".distribution .bar.{kind}").count() for kind in ("kept", "removed"))
    assert 1 <= kept < removed
    assert kept == (3 if setting == "top_k" else kept)
    assert f"The filters keep {kept} token" in page.locator(".panel", has_text="The next word").inner_text()
    assert visitor.asked() == asked


def test_every_kind_of_search_has_the_settings_that_apply(visitor):
    page = visitor.translate("recurrent", "who has some boxes")
    described = page.evaluate("fetch('/api/settings').then((answer) => answer.json())")["search"]
    elsewhere = {"kind", "prefix", "batch_tokens", "source_language", "target_language"}
    for kind in ("greedy", "beam", "sample", "mbr", "exact"):
        page.locator(f".kinds input[value={kind}]").check(force=True)
        visitor.settle()
        shown = page.locator("[data-setting]").evaluate_all("controls => controls.map((one) => one.dataset.setting)")
        assert set(shown) == {one["name"] for one in described if kind in one["kinds"]} - elsewhere, kind
        for slider in page.locator(".controls > .setting input[type=range]").all():
            assert slider.evaluate("slider => slider.closest('.setting').querySelector('output').textContent")
        assert page.locator("[role=alert]").count() == 0, kind
        assert page.locator(".player").is_visible() == (kind in ("greedy", "beam", "sample"))


def test_a_candidate_and_a_word_of_ones_own_can_be_forced(visitor):
    page = visitor.translate("recurrent", SENTENCE)
    step_to(page, 2)
    other = page.locator(".candidate:not(.chosen)").first
    token = other.locator(".token").inner_text()
    other.click()
    page.wait_for_url(re.compile("prefix="))
    second = "token => document.querySelectorAll('.words.target button')[1]?.textContent === token"
    page.wait_for_function(second, arg=token)
    visitor.settle()
    assert page.locator(".effect del, .effect ins").count() > 0
    step_to(page, 3)
    page.get_by_label("Or enter the next word yourself").fill("sac")
    page.get_by_role("button", name="Use it").click()
    page.wait_for_function("() => document.querySelectorAll('.words.target button')[2]?.textContent === 'sac'")
    page.locator(".chip.change").click()
    page.wait_for_function("() => !location.hash.includes('prefix')")


@pytest.mark.parametrize("model", MODELS)
def test_a_blocked_source_word_is_not_looked_at(visitor, model):
    page = visitor.translate(model, SENTENCE)
    page.get_by_role("group", name="Source words to block").get_by_role("button", name="witch").click()
    page.wait_for_url(re.compile("blocked="))
    visitor.settle()
    page.wait_for_selector(".word.blocked")
    column = page.locator(".word.blocked").get_attribute("data-source")
    assert "witch" in page.locator(".word.blocked").inner_text()
    cells = page.locator(f"[role=gridcell][data-source='{column}']")
    labels = cells.evaluate_all("cells => cells.map((one) => one.ariaLabel)")
    assert labels and all(label.endswith(": 0 %") for label in labels)
    assert "Without your changes" in page.locator(".effect").inner_text()


@pytest.mark.parametrize("model", MODELS)
def test_attention_can_be_moved_by_hand(visitor, model):
    page = visitor.translate(model, SENTENCE, unit="tokens")
    step_to(page, 3)
    page.get_by_role("button", name="All attention to").nth(4).click()
    page.wait_for_url(re.compile("attention=2"))
    visitor.settle()
    label = page.locator("[role=gridcell][data-source='4'][data-target='2']").get_attribute("aria-label")
    assert label.endswith(": 100 %")
    assert page.locator(".chip.change").inner_text().startswith("attention moved at step 3")


def test_copied_words_are_marked_with_their_gate(visitor):
    page = visitor.translate("copying", SENTENCE)
    copied = translation(page, "copying", SENTENCE)["copied"]
    page.locator(".words.target button").first.hover()
    assert f"g = {copied['gates'][0]:.2f}" in page.locator("p.pointed").inner_text()
    marked = page.locator(".words.target button.copied").count()
    assert marked == sum(share >= 0.5 for share in copied["copied"][:-1])
