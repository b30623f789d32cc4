"""The contexts of the `nats` command: named connection settings in files both commands read and write.

One JSON file a context in `nats/context/` below XDG_CONFIG_HOME (or ~/.config), the selected one's name in
`nats/context.txt`, the one before it in `nats/previous-context.txt`. Keys this version does not know are kept.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from jetspark.cli.errors import NotFound, UsageError

# Every key of a context file, in the order `nats` writes them.
KEYS: Final = (
    "description",
    "url",
    "socks_proxy",
    "token",
    "user",
    "password",
    "creds",
    "nkey",
    "cert",
    "key",
    "ca",
    "nsc",
    "jetstream_domain",
    "jetstream_api_prefix",
    "jetstream_event_prefix",
    "inbox_prefix",
    "user_jwt",
    "user_seed",
    "color_scheme",
    "tls_first",
    "windows_cert_store",
    "windows_cert_match_by",
    "windows_cert_match",
    "windows_ca_certs_match",
)
_NOT_TEXT: Final = {"tls_first": False, "windows_ca_certs_match": None}
SECRETS: Final = ("password", "token", "user_jwt", "user_seed")


class ContextFiles:
    """The contexts of one user."""

    def __init__(self, folder: Path | None = None) -> None:
        base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        self.folder = folder or Path(base) / "nats"

    def path(self, name: str) -> Path:
        """Where a context is; refuses names that are no file names."""
        if not name or re.search(r"[/\\]|\.\.|\s", name):
            raise UsageError(f"{name!r} is no name for a context: no spaces, slashes or '..'")
        return self.folder / "context" / f"{name}.json"

    def names(self) -> list[str]:
        """Every context there is."""
        return sorted(path.stem for path in (self.folder / "context").glob("*.json"))

    def selected(self) -> str:
        """The one used when none is named; empty for none."""
        return self._read_name("context.txt")

    def previous(self) -> str:
        """The one selected before; empty for none."""
        return self._read_name("previous-context.txt")

    def _read_name(self, file: str) -> str:
        try:
            return (self.folder / file).read_text("utf-8").strip()
        except OSError:
            return ""

    def load(self, name: str) -> dict[str, Any]:
        """A context's settings."""
        path = self.path(name)
        try:
            document = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            listed = ", ".join(self.names()) or "none"
            raise NotFound(
                f"no context {name!r}; contexts here: {listed}", hint=f"Make it with: jetspark context add {name}"
            ) from None
        except (ValueError, OSError) as error:
            raise UsageError(f"context {name} in {path} cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise UsageError(f"context {name} in {path} is not a JSON object")
        return document

    def save(self, name: str, settings: dict[str, Any]) -> None:
        """Write a context, readable for its owner alone: it may hold a password."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = {key: settings.get(key, _NOT_TEXT.get(key, "")) for key in KEYS}
        self._write(path, json.dumps({**known, **settings}, indent=2))

    def _write(self, path: Path, text: str) -> None:
        # Written beside and renamed, so that a reader never finds half a file.
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)

    def remove(self, name: str) -> None:
        """Delete a context; one that is selected must be unselected first, as in `nats`."""
        self.load(name)
        if name == self.selected():
            raise UsageError(f"{name} is the selected context", hint="First: jetspark context unselect")
        self.path(name).unlink()

    def select(self, name: str) -> None:
        """Use this one when none is named; empty for none."""
        if name:
            self.load(name)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = self.selected()
        if before and before != name:
            self._write(self.folder / "previous-context.txt", before)
        if name:
            self._write(self.folder / "context.txt", name)
        else:
            (self.folder / "context.txt").unlink(missing_ok=True)
