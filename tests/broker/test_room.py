"""Limits of server and account on what is stored, with and without headers on the message."""

from __future__ import annotations

import pytest

from jetspark.broker.options import BrokerOptions
from jetspark.testing.broker_driver import BrokerDriver


def small(options: BrokerOptions) -> None:
    options.max_storage = 1000
    options.max_memory = 1000


@pytest.mark.parametrize(("storage", "err_code"), [("file", 10047), ("memory", 10028)])
@pytest.mark.parametrize("headers", [None, {"K": "v"}])
def test_a_message_beyond_the_servers_limit_is_refused(
    storage: str, err_code: int, headers: dict[str, str] | None
) -> None:
    driver = BrokerDriver(configure=small)
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S", "storage": storage})

    acks = [client.publish_acked("S", b"x" * 300, headers) for _ in range(4)]

    assert [ack.get("seq") for ack in acks[:2]] == [1, 2]
    assert acks[-1]["error"]["err_code"] == err_code
    assert client.api("STREAM.INFO.S", None)["state"]["bytes"] <= 1000


def test_an_accounts_limit_is_its_own() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    driver.broker.account("$G").jetstream.max_storage = 500
    client.api("STREAM.CREATE.S", {"name": "S"})

    assert client.publish_acked("S", b"x" * 300)["seq"] == 1
    assert client.publish_acked("S", b"x" * 300)["error"]["err_code"] == 10002


def test_purging_makes_room_again() -> None:
    driver = BrokerDriver(configure=small)
    client = driver.connect()
    client.api("STREAM.CREATE.S", {"name": "S"})
    while "error" not in client.publish_acked("S", b"x" * 300):
        pass

    client.api("STREAM.PURGE.S", None)

    assert "error" not in client.publish_acked("S", b"x" * 300)
