"""`jetspark rtt` measures every address of every server."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Jetspark

from jetspark.cli.rtt import addresses


def test_each_server_of_the_list_is_measured(jetspark: Jetspark) -> None:
    found = jetspark.json("rtt", "3", "--server", f"{jetspark.url},nats://127.0.0.1:1")

    reached, unreached = found
    assert reached["url"] == jetspark.url
    row = reached["results"][0]
    assert 0 < row["min_ns"] <= row["rtt"] <= row["max_ns"]
    assert (row["address"], row["url"], row["time"][-1]) == (jetspark.url, jetspark.url, "Z")
    assert "error" in unreached["results"][0]
    assert f"{jetspark.url}:\n" in jetspark("rtt")


def test_nobody_answering_is_exit_code_3(ours: Jetspark) -> None:
    result = ours.run("rtt", "--server", "nats://127.0.0.1:1")

    assert result.exit_code == 3
    assert "failed: " in result.stdout
    assert "no server answered" in result.stderr


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("nats://127.0.0.1:4333", ["127.0.0.1:4333"]),
        ("127.0.0.1", ["127.0.0.1:4222"]),
        ("nats://user:secret@127.0.0.1:4333", ["127.0.0.1:4333"]),
        ("nats://[::1]:4333", ["[::1]:4333"]),
        ("nats://no-such-host.invalid:4333", ["no-such-host.invalid:4333"]),
    ],
)
def test_addresses_of_a_server(url: str, wanted: list[str]) -> None:
    assert addresses(url) == wanted


@pytest.mark.parametrize("command", [["rtt"], ["stream", "ls"]])
def test_credentials_in_an_address_are_not_shown(ours: Jetspark, command: list[str]) -> None:
    result = ours.run(*command, "--server", "nats://me:secret@127.0.0.1:1,token-secret@127.0.0.1:2")

    assert result.exit_code == 3
    assert "secret" not in result.output
    assert "127.0.0.1:1" in result.output
