"""A Chromium for the tests: the one that is there, else one that can be had.

Looked for in this order: $CHROMIUM, the PATH, Playwright's own download, `playwright install`, and, for root on Debian
and its like, the package manager. Not known here: what the browser looks at.
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


def _candidates() -> Iterator[str]:
    if named := os.environ.get("CHROMIUM"):
        yield named
    for name in NAMES:
        if found := shutil.which(name):
            yield found
    yield _own_download()


def _own_download() -> str:
    """Where Playwright would have put its browser. It is asked and let go: only one may run at a time."""
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
def find_chromium() -> tuple[str, str]:
    """The executable and an empty text, or an empty path and why there is none."""
    present = next((path for path in _candidates() if Path(path).exists()), "")
    if present:
        return present, ""
    reasons = [_run(sys.executable, "-m", "playwright", "install", "chromium")]
    if shutil.which("apt-get") and os.geteuid() == 0:
        install = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
        # A fresh machine may not know its packages yet; asking anew takes longer than most installs.
        reasons.append(_run(*install) and (_run("apt-get", "update") or _run(*install)))
    installed = next((path for path in _candidates() if Path(path).exists()), "")
    return installed, "" if installed else "no Chromium, and none could be had: " + "; ".join(filter(None, reasons))


if __name__ == "__main__":
    path, reason = find_chromium()
    sys.stdout.write(f"{path or reason}\n")
    sys.exit(0 if path else 1)
