"""`consumer graph` and `stream graph` draw rates, or print them where nothing can be drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal

from jetspark.cli import stream_graph
from jetspark.cli.charts import BLOCKS, columns
from jetspark.cli.consumer_graph import PLOTS, look
from jetspark.cli.graphs import picture
from jetspark.client.infos import ConsumerInfo, StreamInfo
from jetspark.sync import connect


def info(delivered: int, acked: int, *, pending: int = 0, ack_pending: int = 0) -> ConsumerInfo:
    return ConsumerInfo.read(
        {
            "stream_name": "S",
            "name": "C",
            "delivered": {"consumer_seq": delivered, "stream_seq": delivered},
            "ack_floor": {"consumer_seq": acked, "stream_seq": acked},
            "num_pending": pending,
            "num_ack_pending": ack_pending,
        }
    )


@pytest.fixture
def consumer(jetspark: Jetspark, name: str) -> str:
    """A consumer C of a stream with five messages."""
    jetspark("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")
    jetspark("consumer", "add", name, "C", "--pull", "--defaults")
    jetspark("pub", name, "message", "--count", "5", "--quiet")
    return name


def test_rates_are_what_happened_between_two_looks() -> None:
    seen = look(info(10, 5), info(30, 9, pending=7, ack_pending=21), 2.0)

    assert seen == {"pending": 7, "ack_pending": 21, "acked_per_sec": 2.0, "delivered_per_sec": 10.0}


def test_a_consumer_that_was_reset_shows_no_negative_rate() -> None:
    seen = look(info(10, 5), info(0, 0), 1.0)

    assert (seen["delivered_per_sec"], seen["acked_per_sec"]) == (0.0, 0.0)


def state(first: int, last: int, messages: int) -> Any:
    raw = {"first_seq": first, "last_seq": last, "messages": messages}
    return StreamInfo.read({"config": {"name": "S"}, "state": raw}).state


@pytest.mark.parametrize(
    ("before", "after", "removed", "stored"),
    [
        (state(1, 10, 10), state(1, 30, 30), 0.0, 10.0),
        (state(1, 10, 10), state(11, 30, 20), 5.0, 10.0),
        # Taken from the middle, as from a work queue whose first message is still being worked on.
        (state(1, 10, 10), state(1, 10, 4), 3.0, 0.0),
        # Made anew meanwhile: what it had is gone, and nothing is counted below zero.
        (state(1, 10, 10), state(1, 2, 2), 4.0, 0.0),
    ],
    ids=["grows", "is limited", "is worked off", "is made anew"],
)
def test_what_a_stream_gets_and_loses_is_told_by_its_counts(
    before: Any, after: Any, removed: float, stored: float
) -> None:
    seen = stream_graph.look(before, after, 2.0)

    assert (seen["removed_per_sec"], seen["stored_per_sec"]) == (removed, stored)


def test_columns_reach_from_nothing_to_the_largest() -> None:
    assert columns([0, 1, 8, 16], 2, blocks=BLOCKS) == ["   █", " ▁██"]
    assert columns([], 2) == ["", ""]
    assert columns([0, 0], 1) == ["  "]


@pytest.mark.parametrize(("width", "height"), [(20, 5), (80, 24), (200, 60)])
def test_the_picture_fits_the_screen(width: int, height: int) -> None:
    looks = [
        {"pending": number, "ack_pending": 1, "acked_per_sec": 2.0, "delivered_per_sec": 3.0} for number in range(500)
    ]

    lines = picture("title", PLOTS, looks, width, height).plain.split("\n")

    assert len(lines) <= max(height, 13)
    assert max(len(one) for one in lines[3:]) <= max(width, len("Messages Acknowledged / second: 2"))
    assert "Messages Pending: 499" in lines


def test_in_a_pipe_a_look_is_a_line(jetspark: Jetspark, consumer: str) -> None:
    lines = jetspark("consumer", "graph", consumer, "C", "-n", "2", "-d", "10ms").splitlines()

    assert len(lines) == 2
    assert all("delivered: 0.0/s  acknowledged: 0.0/s  waiting for ack: 0  pending: 5" in one for one in lines)


@pytest.mark.long
def test_what_is_pulled_and_acknowledged_shows_as_rates(jetspark: Jetspark, consumer: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "jetspark.cli.main", "consumer", "graph", consumer, "C", "-d", "50ms", "--json"],
        env={**os.environ, **jetspark.environment},
        stdout=subprocess.PIPE,
    )
    with process, connect(jetspark.url) as connection:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        batch = connection.jetstream().consumer(consumer, "C").fetch(5)
        delivered = next(one for one in map(json.loads, process.stdout) if one["delivered_per_sec"] > 0)
        for message in batch:
            message.ack()
        acked = next(one for one in map(json.loads, process.stdout) if one["ack_pending"] == 0)
        process.kill()

    assert (first["stream"], first["consumer"]) == (consumer, "C")
    assert (first["pending"], first["delivered_per_sec"]) == (5, 0)
    assert (delivered["pending"], delivered["ack_pending"], delivered["acked_per_sec"]) == (0, 5, 0)
    assert acked["acked_per_sec"] > 0


@pytest.mark.long
def test_at_a_terminal_four_plots_fill_the_screen(jetspark: Jetspark, consumer: str) -> None:
    session = at_terminal(jetspark, "consumer", "graph", consumer, "C", "--count", "2", "--interval", "10ms")

    assert session.exit_code == 0, session.screen
    assert f"Consumer Statistics for {consumer} > C" in session.screen
    for caption in ("Pending: 5", "Waiting for Ack: 0", "Acknowledged / second: 0", "Delivered / second: 0"):
        assert f"Messages {caption}" in session.screen
    assert "5 ┤ " in session.screen
    assert "██" in session.screen


def test_a_stream_is_graphed_a_line_or_a_document_a_look(jetspark: Jetspark, consumer: str) -> None:
    lines = jetspark("stream", "graph", consumer, "-n", "2", "-d", "10ms").splitlines()
    documents = jetspark("stream", "graph", consumer, "-n", "1", "-d", "10ms", "--json")

    assert len(lines) == 2
    assert all("stored: 0.0/s  removed: 0.0/s  messages: 5" in one for one in lines)
    assert json.loads(documents) == {"stream": consumer, "messages": 5, "removed_per_sec": 0, "stored_per_sec": 0}


@pytest.mark.long
def test_at_a_terminal_a_stream_has_three_plots(jetspark: Jetspark, consumer: str) -> None:
    session = at_terminal(jetspark, "stream", "graph", consumer, "--count", "2", "--interval", "10ms")

    assert session.exit_code == 0, session.screen
    assert f"Stream Statistics for {consumer}" in session.screen
    for caption in ("Stored: 5", "Removed / second: 0", "Stored / second: 0"):
        assert f"Messages {caption}" in session.screen
