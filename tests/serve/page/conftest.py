"""One browser and one service for all tests of the page; every test also checks that nothing went wrong unseen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it (apt-get install chromium), or name one in $CHROMIUM")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service() -> str:
    return os.environ["PAGE_URL"]


class Visitor:
    """A person with a browser window, who notices whatever the page does wrong."""

    def __init__(self, browser: Any, service: str, **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        self.service = service
        self.context = browser.new_context(accept_downloads=True, **options)
        self.context.set_default_timeout(10_000)
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
                "address => { history.replaceState(null, '', address); dispatchEvent(new HashChangeEvent('hashchange')); }",
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

    def complain(self) -> None:
        problems, self.problems = self.problems, []
        assert not problems, problems


@pytest.fixture(scope="session")
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
