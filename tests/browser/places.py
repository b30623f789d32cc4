"""Finding the way in the dashboard, and waiting for what it does by itself."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable

from playwright.sync_api import Page

from jetspark.server.embedded import RunningServer

OpenPage = Callable[..., Page]


def url(server: RunningServer) -> str:
    return server.server.monitor_url


def visit(page: Page, place: str) -> None:
    """Go there and wait until the view is drawn."""
    page.evaluate(
        """place => new Promise((done) => {
            if (location.hash === place) { done(); return; }
            // The page's own listener was there first: when this one is called, the view before is gone.
            addEventListener("hashchange", () => done(), { once: true });
            location.hash = place;
        })""",
        place,
    )
    page.locator("#main .card, #main .tiles").first.wait_for()


def next_beat(page: Page, path: str = "**/api/**") -> None:
    """Two answers: what is shown after the second was drawn anew at least once."""
    for _ in range(2):
        with page.expect_response(path):
            pass


def lasting_port() -> int:
    """A free port to come back to: not one of those that the system gives to whoever asks for any."""
    while True:
        port = random.randint(20_000, 30_000)
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)):
                return port
