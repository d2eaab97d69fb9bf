"""Take a picture of the page of `weft serve`: ``python tools/page_picture.py RUN SENTENCE PICTURE.png``.

Needs Chromium; part of ``make pictures``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1500, 1700


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("run", "sentence", "picture"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "weft", "serve", f"grammar={arguments.run}", "--port", "0"]
    environment = {**os.environ, "WEFT_NO_PROGRESS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as service:
        assert service.stderr is not None
        said = next(line for line in service.stderr if " at http" in line)
        address = said.split(" at ")[1].split()[0]
        try:
            photograph(f"{address}#translate?{urlencode({'text': arguments.sentence})}", arguments.picture)
        finally:
            service.terminate()


def photograph(address: str, picture: str) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        page.goto(address)
        page.wait_for_selector("main[aria-busy=false] .results:not([hidden]) .output:not(.growing)", timeout=120_000)
        page.wait_for_selector(".examples button")
        page.locator(".tall").evaluate("tree => { tree.scrollLeft = 0; }")
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main()
