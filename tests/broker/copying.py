"""Words for tests of streams that copy other streams."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jetspark.testing.broker_driver import FakeConnection

STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])


def stream(client: FakeConnection, name: str, **config: Any) -> None:
    if "mirror" not in config and "sources" not in config:
        config.setdefault("subjects", [f"{name}.>"])
    reply = client.api(f"STREAM.CREATE.{name}", {"name": name, **config})
    assert "error" not in reply, reply


def update(client: FakeConnection, name: str, **config: Any) -> None:
    reply = client.api(f"STREAM.UPDATE.{name}", {"name": name, **config})
    assert "error" not in reply, reply


def fill(client: FakeConnection, subject: str, count: int) -> None:
    for number in range(count):
        client.publish_acked(subject, str(number).encode())


def info(client: FakeConnection, name: str) -> Any:
    return client.api(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})


def shape(client: FakeConnection, name: str) -> tuple[int, int, int, list[int]]:
    """Messages, first and last sequence, and the sequences missing between them."""
    state = info(client, name)["state"]
    return state["messages"], state["first_seq"], state["last_seq"], state.get("deleted") or []


def count(client: FakeConnection, name: str) -> int:
    return shape(client, name)[0]


def message(client: FakeConnection, name: str, seq: int) -> tuple[str, bytes, bytes, str]:
    found = client.api(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]
    header, data = (base64.b64decode(found.get(key, "")) for key in ("hdrs", "data"))
    return found["subject"], header, data, found["time"]
