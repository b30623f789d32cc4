"""Every `nats ...` line of the specification works as `jetspark ...` and shows the same facts, on either server."""

from __future__ import annotations

import shlex

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import Background, at_terminal

# Line, and what its output must show. In the order of the specification's second document.
DEDUPLICATION = [
    ("nats req -H Nats-Msg-Id:1 ORDERS.new hello1", ['"stream":"ORDERS"', '"seq":1']),
    ("nats req -H Nats-Msg-Id:1 ORDERS.new hello2", ['"seq":1', '"duplicate"']),
    ("nats req -H Nats-Msg-Id:1 ORDERS.new hello3", ['"duplicate"']),
    ("nats req -H Nats-Msg-Id:1 ORDERS.new hello4", ['"duplicate"']),
    ("nats stream info ORDERS", ["State:", "Messages: 1\n", "Bytes: 78 B"]),
]
ACKNOWLEDGEMENT = [
    ("nats str info ORDERS", ["Messages: 0\n", "Bytes: 0 B", "First Sequence: 0", "Last Sequence: 0", "Consumers: 1"]),
    (
        "nats con info ORDERS DISPATCH",
        ["Last Delivered Message: Consumer sequence: 0 Stream sequence: 0", "Redelivered Messages: 0"],
    ),
    ('nats pub ORDERS.processed "order 4"', ["Published 7 bytes to", "ORDERS.processed"]),
    ("nats str info ORDERS", ["Messages: 1\n", "Bytes: 53 B", "First Sequence: 1", "Last Sequence: 1", "Consumers: 1"]),
    ("nats con next ORDERS DISPATCH", ["ORDERS.processed", "order 4", "Acknowledged message"]),
    (
        "nats con info ORDERS DISPATCH",
        [
            "Last Delivered Message: Consumer sequence: 1 Stream sequence: 1",
            "Acknowledgment Floor: Consumer sequence: 1 Stream sequence: 1",
            "Outstanding Acks: 0",
            "Redelivered Messages: 0",
        ],
    ),
    ('nats pub ORDERS.processed "order 5"', ["Published 7 bytes to"]),
    ("nats consumer next ORDERS DISPATCH --no-ack", ["order 5"]),
    (
        "nats consumer info ORDERS DISPATCH",
        [
            "Last Delivered Message: Consumer sequence: 2 Stream sequence: 2",
            "Acknowledgment Floor: Consumer sequence: 1 Stream sequence: 1",
            "Outstanding Acks: 1",
            "Redelivered Messages: 0",
        ],
    ),
    ("nats consumer next ORDERS DISPATCH --no-ack", ["order 5", "tries: 2"]),
    (
        "nats consumer info ORDERS DISPATCH",
        [
            "Last Delivered Message: Consumer sequence: 3 Stream sequence: 2",
            "Outstanding Acks: 1",
            "Redelivered Messages: 1",
        ],
    ),
    ("nats consumer next ORDERS DISPATCH ", ["order 5", "Acknowledged message"]),
    (
        "nats consumer info ORDERS DISPATCH",
        ["Last Delivered Message: Consumer sequence: 4", "Outstanding Acks: 0", "Redelivered Messages: 0"],
    ),
]
_ADD = "nats consumer add ORDERS {} --pull --filter ORDERS.processed --ack none --replay instant --deliver {}"
STARTS = [
    (_ADD.format("ALL", "all") + " ", ["Deliver Policy: All", "Ack Policy: None", "Replay Policy: Instant"]),
    ("nats consumer next ORDERS ALL", ["order 1\n", "Acknowledged message"]),
    (_ADD.format("LAST", "last"), ["Deliver Policy: Last"]),
    ("nats consumer next ORDERS LAST", ["order 100\n", "Acknowledged message"]),
    (_ADD.format("TEN", "10"), ["Deliver Policy: From Sequence 10"]),
    ("nats consumer next ORDERS TEN", ["order 10\n", "Acknowledged message"]),
    (_ADD.format("2MIN", "2m"), ["Deliver Policy: Since", "(2m0s ago)", "Filter Subject: ORDERS.processed"]),
    ("nats consumer next ORDERS 2MIN", ["order 1\n", "Acknowledged message"]),
    (
        "nats consumer add ORDERS REPLAY --target out.original --filter ORDERS.processed --ack none --deliver all"
        " --sample 100 --replay original",
        ["Delivery Subject: out.original", "Replay Policy: Original", "Sampling Rate: 100"],
    ),
]


@pytest.fixture
def orders(jetspark: Jetspark) -> Jetspark:
    """A clean ORDERS stream; `nats stream purge ORDERS` of an empty stream would keep its sequences."""
    jetspark.run("stream", "rm", "ORDERS", "--force")
    jetspark("stream", "add", "ORDERS", "--subjects", "ORDERS.*", "--dupe-window", "2m")
    return jetspark


def run_lines(jetspark: Jetspark, lines: list[tuple[str, list[str]]]) -> None:
    for line, facts in lines:
        program, *arguments = shlex.split(line)
        assert program == "nats"
        result = jetspark.run(*arguments)
        # What a person sees: the result and the notes.
        shown = result.output
        assert result.exit_code == 0, (line, shown, result.exception)
        for fact in facts:
            assert fact in shown, f"{line}: {fact!r} is not in\n{shown}"


def test_messages_with_the_same_id_are_stored_once(orders: Jetspark) -> None:
    run_lines(orders, DEDUPLICATION)


@pytest.mark.long
def test_a_consumer_follows_what_is_acknowledged(orders: Jetspark) -> None:
    orders("consumer", "add", "ORDERS", "DISPATCH", "--pull", "--filter", "ORDERS.processed", "--wait", "200ms")

    run_lines(orders, ACKNOWLEDGEMENT)


def test_a_consumer_starts_where_it_is_told(orders: Jetspark) -> None:
    orders("pub", "ORDERS.processed", "order {{Count}}", "--count", "100", "--quiet")

    run_lines(orders, STARTS)


@pytest.mark.long
def test_an_ephemeral_consumer_pushes_the_last_message_to_a_subscriber(orders: Jetspark) -> None:
    orders("pub", "ORDERS.processed", "order 1")
    line = (
        "nats consumer add ORDERS --filter '' --ack none --target 'my.monitor' --deliver last --replay instant"
        " --ephemeral"
    )

    with Background(orders, "sub", "my.monitor", "--count", "1", ready="Subscribing on my.monitor") as terminal:
        run_lines(orders, [(line, ["Ephemeral: true", "Delivery Subject: my.monitor", "Deliver Policy: Last"])])
        received = terminal.output()

    assert "subject: ORDERS.processed" in received
    assert "order 1" in received


@pytest.mark.long
def test_a_subscriber_with_timestamps_sees_what_is_replayed(orders: Jetspark) -> None:
    with Background(
        orders, "sub", "-t", "out.original", "--count", "3", ready="Subscribing on out.original"
    ) as terminal:
        run_lines(orders, STARTS[-1:])
        for number in (1, 2, 3):
            run_lines(orders, [(f'nats pub ORDERS.processed "order {number}"', ["Published 7 bytes to"])])
        received = terminal.output()

    lines = received.splitlines()
    assert [line for line in lines if line.startswith("order")] == ["order 1", "order 2", "order 3"]
    assert [line[:9] for line in lines if line.startswith("[#")] == ["[#1] @ 20", "[#2] @ 20", "[#3] @ 20"]


def test_a_sampled_consumer_says_so(orders: Jetspark) -> None:
    orders("consumer", "add", "ORDERS", "NEW", "--pull", "--filter", "ORDERS.new", "--sample", "80")

    run_lines(orders, [("nats consumer info ORDERS NEW", ["Sampling Rate: 80"])])


@pytest.mark.long
def test_a_purge_asks_the_person_at_the_terminal(orders: Jetspark) -> None:
    orders("pub", "ORDERS.new", "x")

    refused = at_terminal(orders, "stream", "purge", "ORDERS", typed="n\n")
    kept = orders.json("stream", "info", "ORDERS")["state"]["messages"]
    agreed = at_terminal(orders, "stream", "purge", "ORDERS", typed="y\n")

    assert refused.exit_code == 0
    assert "Really purge stream ORDERS" in refused.screen
    assert kept == 1
    assert agreed.exit_code == 0
    assert "Purged 1 messages from ORDERS" in agreed.screen
    assert orders.json("stream", "info", "ORDERS")["state"]["messages"] == 0
