"""One browser and one service for all tests of the page; every test also checks that nothing went wrong unseen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from apps.serve.servers import PATIENCE, running_server, settings
from weft.apps.serve import create_app
from weft.pairs.state_index import keep_states
from weft.recipe import make_recipe
from weft.training.train import train

PAIRS = {
    "a witch must open the bag of the nurse": "une sorcière doit ouvrir le sac de l'infirmière",
    "he hit me with a pie": "il m'a entarté",
    "who has some boxes": "qui a des boîtes",
    "my sister hides our dress": "ma sœur cache notre robe",
    "the nurse cannot close our window": "l'infirmière ne peut pas fermer notre fenêtre",
    "we drank the milk": "nous avons bu le lait",
}
LEARNING = {
    **{f"data.{split}": "pairs.tsv" for split in ("train", "valid", "test")},
    "tokenizer.kind": "word",
    "tokenizer.joint": False,
    "model.embedding": 32,
    "model.dropout": 0.0,
    "model.encoder.hidden": 32,
    "model.decoder.hidden": 32,
    "training.steps": 60,
    "training.batch_tokens": 200,
    "training.learning_rate": 0.01,
    "training.warmup": 5,
    "training.validate_every": 20,
    "training.save_every": 0,
    "training.log_every": 5,
    "training.device": "cpu",
    "search.size": 4,
}
STACK = {"kind": "transformer", "layers": 2, "hidden": 32, "heads": 2, "feed_forward": 48}
MODELS: dict[str, dict[str, Any]] = {
    "recurrent": {"serve.states": 6},
    "transformer": {
        **{f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()},
        "tokenizer.kind": "bpe",
        "tokenizer.size": 90,
    },
    "copying": {"model.copy": True},
}
CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for each module: while it is open, Playwright's event loop runs in this thread, and no test of another
    module could run one of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it (apt-get install chromium), or name one in $CHROMIUM")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a recurrent model, a Transformer over subwords and a model that copies, which know six sentences."""
    folder = tmp_path_factory.mktemp("pages")
    lines = "".join(f"{source}\t{target}\n" for source, target in PAIRS.items())
    (folder / "pairs.tsv").write_text(lines, "utf-8")
    for name, changes in MODELS.items():
        settings = {**LEARNING, "data.folder": str(folder), "name": name, **changes}
        recipe = make_recipe({}, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
        assert list(train(recipe, folder / name))
    assert keep_states(folder / "recurrent", device="cpu")
    return folder


@pytest.fixture(scope="session")
def service(folder: Path) -> Iterator[str]:
    """The address of a service that has them; a busy machine takes more than a minute for a long text."""
    with running_server(create_app([folder / name for name in MODELS], settings(deadline=PATIENCE))) as server:
        yield server.url.rstrip("/")


class Visitor:
    """A person with a browser window, who notices whatever the page does wrong."""

    def __init__(self, browser: Any, service: str, **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        self.service = service
        self.context = browser.new_context(accept_downloads=True, **options)
        self.context.set_default_timeout(1000 * PATIENCE)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", lambda request: self._check(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "status of 4" not in text:
            self.problems.append(f"{kind}: {text}")

    def _check(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self.service, "blob:", "data:")):
            self.problems.append(f"a request to {url}")

    def open(self, address: str = "", *, anew: bool = False) -> Any:
        """The page at an address; loaded ``anew`` or, where it is open already, led there by the address alone."""
        if anew or not self.page.url.startswith(self.service):
            self.page.goto("about:blank")
            self.page.goto(f"{self.service}/{address}")
        else:
            self.page.mouse.move(0, 0)
            self.page.evaluate(
                "address => history.replaceState(null, '', address) ?? dispatchEvent(new Event('hashchange'))",
                address or "#translate",
            )
        self.page.wait_for_selector("main[aria-busy=false] > .view")
        return self.page

    def translate(self, model: str, text: str, **values: str) -> Any:
        """The page with a finished translation."""
        page = self.open("#translate?" + urlencode({"model": model, "text": text, **values}))
        self.settle()
        return page

    def settle(self) -> None:
        """Wait until a search is over and its last step is on the screen."""
        self.page.wait_for_timeout(20)  # for what a click or a key sets off
        self.page.wait_for_selector("main[aria-busy=false] .results:not([hidden]) .output:not(.growing)")

    def asked(self) -> int:
        """How many requests the page has made of the API."""
        return sum("/api/" in url for url in self.requests)

    def complain(self) -> None:
        problems, self.problems = self.problems, []
        assert not problems, problems


@pytest.fixture(scope="module")
def window(browser: Any, service: str) -> Iterator[Visitor]:
    window = Visitor(browser, service)
    yield window
    window.context.close()


@pytest.fixture
def visitor(window: Visitor) -> Iterator[Visitor]:
    """A visitor whose window stays open from test to test."""
    window.requests.clear()
    yield window
    window.complain()


@pytest.fixture
def visit(browser: Any, service: str) -> Iterator[Any]:
    """A visitor with a browser of other options: a width, a color scheme, motion."""
    visitors: list[Visitor] = []

    def make(**options: Any) -> Visitor:
        visitors.append(Visitor(browser, service, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.context.close()
        visitor.complain()
