"""A Chromium for the tests of the dashboard: they use one that is there. As a program it installs one (`make browser`).

Looked for in this order: $CHROMIUM, the PATH, Playwright's downloads (what the program installs is in the virtual
environment). Not known here: what the browser looks at.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A browser in a container, possibly as root, that talks to nobody on its own.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
INSTALL_TIMEOUT_S = 240
INSTALL_DIR = Path(sys.prefix, "browsers")


def _candidates() -> Iterator[str]:
    if named := os.environ.get("CHROMIUM"):
        yield named
    for name in NAMES:
        if found := shutil.which(name):
            yield found
    yield _own_download()


def _own_download() -> str:
    """Where Playwright would have put its browser. It is asked and let go: only one may run at a time."""
    if INSTALL_DIR.exists():
        os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(INSTALL_DIR))
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def _run(*command: str) -> str:
    """Empty when it worked, else why not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}"


@functools.cache
def find_chromium() -> str:
    """The executable; empty if there is none."""
    return next((path for path in _candidates() if Path(path).exists()), "")


def install_chromium() -> str:
    """Empty when one is there afterwards, else why not."""
    say(f"installing Chromium with Playwright into {INSTALL_DIR} (about 300 MB) …")
    INSTALL_DIR.mkdir(exist_ok=True)
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(INSTALL_DIR))
    reasons = [_run(sys.executable, "-m", "playwright", "install", "chromium")]
    if not find_again() and shutil.which("apt-get") and os.geteuid() == 0:
        say(f"{reasons[0]}\ninstalling the system's package chromium with apt-get, for the whole machine …")
        install = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
        # A fresh machine may not know its packages yet; asking anew takes longer than most installs.
        reasons.append(_run(*install) and (_run("apt-get", "update") or _run(*install)))
    return "" if find_again() else "no Chromium can be installed: " + "; ".join(filter(None, reasons))


def find_again() -> str:
    """Look again after an install."""
    find_chromium.cache_clear()
    return find_chromium()


def say(line: str) -> None:
    """What happens, to the person at the terminal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    problem = "" if find_chromium() else install_chromium()
    say(problem or f"Chromium: {find_chromium()}")
    sys.exit(1 if problem else 0)
