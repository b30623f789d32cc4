"""What may differ between two runs of the same conversation, replaced by placeholders.

Times near the present, ids and durations are volatile. Their *form* is not: only text in the exact form
the reference server uses is replaced, so a badly formatted time still shows as a difference.
Ids are numbered by first appearance, so that the same id in two places must be the same id on both servers.
"""

from __future__ import annotations

import base64
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

TEXT_SIZE_MAX = 20_000  # Larger texts are payloads of one letter; their size and ends say enough.
NEAR_S = 36 * 3600.0
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_UNIX_NS = re.compile(r"(?<!\d)1\d{18}(?!\d)")
_NUID = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z]{22}(?![0-9A-Za-z])")
_KEY = re.compile(r"(?<![0-9A-Za-z])[NXUA][A-Z2-7]{55}(?![0-9A-Za-z])")
_FLOW = re.compile(r"(\$JS\.FC\.[^.\s]+\.[^.\s]+\.)([0-9A-Za-z]{4,8})(?![0-9A-Za-z])")
_IDENTITY = re.compile(r"(?<![^ ])([^\s.]{1,255} \d{1,20} \S{1,255} \S{1,255} \S{1,255} )([0-9A-Za-z]{8})(?=\r\n|$)")
_REQUEST_INBOX = re.compile(r"(_INBOX\.c\d+\.m\.)\d+")

# Fields whose value is an amount of time, or a count that depends on what else the process did.
VOLATILE_KEYS = {
    "ack_time": "<duration>",
    "pause_remaining": "<duration>",
    "rtt": "<duration>",
    "client_id": "<client-id>",
    "cid": "<client-id>",
    "git_commit": "<build>",
    "go": "<build>",
    "nonce": "<nonce>",
    "port": "<port>",
}


class Masker:
    """The placeholders of one run on one server."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._volatile: dict[str, str] = {}

    def learn(self, value: str, kind: str) -> None:
        """From now on `value` is volatile text of this kind wherever it appears."""
        if value and value not in self._volatile:
            self._volatile[value] = self._numbered(value, kind)

    def text(self, text: str) -> str:
        if len(text) > TEXT_SIZE_MAX:
            return f"{len(text)} characters {text[:60]}…{text[-60:]}"
        for value, placeholder in self._volatile.items():
            text = text.replace(value, placeholder)
        text = _TIME.sub(_mask_time, text)
        text = _UNIX_NS.sub(_mask_unix_ns, text)
        text = _KEY.sub(lambda match: self._numbered(match.group(), "key"), text)
        text = _FLOW.sub(lambda match: match.group(1) + self._numbered(match.group(2), "flow"), text)
        text = _IDENTITY.sub(lambda match: match.group(1) + self._numbered(match.group(2), "identity"), text)
        text = _REQUEST_INBOX.sub(r"\g<1>n", text)  # How often a condition was asked for is not compared.
        return _NUID.sub(lambda match: self._numbered(match.group(), "nuid"), text)

    def document(self, value: Any, key: str = "") -> Any:
        """A JSON value with volatile parts replaced."""
        if isinstance(value, dict):
            if str(value.get("type", "")).endswith(".restore_complete"):
                value = value | {"bytes": "<compressed size>"}
            return {self.text(name): self.document(item, name) for name, item in value.items()}
        if isinstance(value, list):
            if key == "sources" and all(isinstance(item, dict) and "lag" in item for item in value):
                value = sorted(value, key=_source_key)  # nats-server gives them in map order.
            return [self.document(item, key) for item in value]
        return self._scalar(value, key)

    def _scalar(self, value: Any, key: str) -> Any:
        if key in VOLATILE_KEYS:
            return VOLATILE_KEYS[key]
        if key == "id" and isinstance(value, int):
            return "<client-id>"
        if key == "active" and isinstance(value, int):
            return value if value < 0 else "<duration>"
        if not isinstance(value, str):
            return value
        if key in ("request", "response") and value.startswith("{"):
            return self.document(json.loads(value))  # The audit advisory carries documents as text.
        if key in ("hdrs", "data"):
            return self.text(base64.b64decode(value, validate=True).decode("utf-8", "replace"))
        return self.text(value)

    def _numbered(self, value: str, kind: str) -> str:
        if value not in self._placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._placeholders[value] = f"<{kind}:{self._counts[kind]}>"
        return self._placeholders[value]


def _source_key(source: dict[str, Any]) -> str:
    return json.dumps([source["name"], source.get("filter_subject"), source.get("subject_transforms")])


def _mask_time(match: re.Match[str]) -> str:
    text = match.group()
    fraction = match.group(1) or ""
    zone = text[-1] if text.endswith("Z") else text[-6:]
    whole = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    if abs(whole.timestamp() - time.time()) > NEAR_S:
        return text
    if fraction.endswith("0"):
        return f"<time with trailing zeros {text}>"
    return "<time>" if zone == "Z" else f"<time{zone}>"


def _mask_unix_ns(match: re.Match[str]) -> str:
    seconds = int(match.group()) / 1e9
    return "<unix-ns>" if abs(seconds - time.time()) < NEAR_S else match.group()
