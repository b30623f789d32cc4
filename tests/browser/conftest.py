"""A browser, a server with a story to tell, and a page that is watched for what it must never do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright
from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.places import OpenPage
from tests.browser.story import Story, tell

from jetspark.server.embedded import RunningServer, embedded_options, serve

SCREENSHOTS = Path(__file__).parent.parent.parent / "build" / "screenshots"
# Nothing takes so long but on a machine that has much else to do; waiting ends when what is waited for is there.
TIMEOUT_MS = 45_000
expect.set_options(timeout=TIMEOUT_MS)


# Not for the whole session: Playwright's loop counts as running in this thread, and other tests have their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if not executable:
        pytest.skip("there is no Chromium: `make browser` installs one")
    with sync_playwright() as playwright:
        # Each launch has a fresh profile directory of its own.
        launched = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS, timeout=2 * TIMEOUT_MS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server that allows changes, with the story told on it."""
    options = embedded_options(http_port=0)
    options.server_name = "orders-eu-1"
    options.dashboard.allow_changes = True
    with serve(options) as running:
        yield running


@pytest.fixture(scope="module")
def story(server: RunningServer) -> Iterator[Story]:
    with tell(server.url) as told:
        yield told


class Watch:
    """What a page did that the test did not ask for."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.problems: list[str] = []

    def follow(self, page: Page) -> None:
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._refused)
        page.on("console", lambda message: self._heard(message.type, message.text))

    def _refused(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text:
            self.problems.append(f"console: {text}")


@pytest.fixture
def open_page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[OpenPage]:
    """Open the dashboard at a place; afterwards nothing foreign was asked for and no script failed."""
    watch = Watch()
    contexts = []
    pages: list[tuple[Page, str]] = []

    def opened(base_url: str, place: str = "#/", *, heading: str = "", **settings: Any) -> Page:
        settings.setdefault("viewport", {"width": 1360, "height": 900})
        context = browser.new_context(**settings)
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        watch.follow(page)
        page.goto(f"{base_url}/dashboard/{place}")
        page.get_by_role("heading", level=1, name=heading or re.compile(".")).wait_for()
        pages.append((page, urlsplit(base_url).netloc))
        return page

    yield opened
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_"))
    for number, (page, _) in enumerate(pages):
        # An answer that is being rewritten when the page closes would be an error of its own.
        page.unroute_all(behavior="wait")
        page.screenshot(path=SCREENSHOTS / f"{name}{f'_{number}' if number else ''}.png")
    for context in contexts:
        context.close()
    assert watch.problems == []
    assert watch.hosts <= {host for _, host in pages}
