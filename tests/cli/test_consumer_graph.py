"""`jetspark consumer graph` draws a consumer's rates, or prints them where nothing can be drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal

from jetspark.cli.charts import BLOCKS, columns
from jetspark.cli.consumer_graph import Look, look, picture
from jetspark.client.infos import ConsumerInfo
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

    assert seen == Look(pending=7, ack_pending=21, acked_per_sec=2.0, delivered_per_sec=10.0)


def test_a_consumer_that_was_reset_shows_no_negative_rate() -> None:
    seen = look(info(10, 5), info(0, 0), 1.0)

    assert (seen.delivered_per_sec, seen.acked_per_sec) == (0.0, 0.0)


def test_columns_reach_from_nothing_to_the_largest() -> None:
    assert columns([0, 1, 8, 16], 2, blocks=BLOCKS) == ["   █", " ▁██"]
    assert columns([], 2) == ["", ""]
    assert columns([0, 0], 1) == ["  "]


@pytest.mark.parametrize(("width", "height"), [(20, 5), (80, 24), (200, 60)])
def test_the_picture_fits_the_screen(width: int, height: int) -> None:
    looks = [Look(number, 1, 2.0, 3.0) for number in range(500)]

    lines = picture("title", looks, width, height).plain.split("\n")

    assert len(lines) <= max(height, 13)
    assert max(len(one) for one in lines[3:]) <= max(width, len("Messages Acknowledged / second: 2"))
    assert "Messages Pending: 499" in lines


def test_in_a_pipe_a_look_is_a_line(jetspark: Jetspark, consumer: str) -> None:
    lines = jetspark("consumer", "graph", consumer, "C", "-n", "2", "-d", "10ms").splitlines()

    assert len(lines) == 2
    assert all("delivered: 0.0/s  acknowledged: 0.0/s  waiting for ack: 0  pending: 5" in one for one in lines)


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


def test_at_a_terminal_four_plots_fill_the_screen(jetspark: Jetspark, consumer: str) -> None:
    session = at_terminal(jetspark, "consumer", "graph", consumer, "C", "--count", "2", "--interval", "10ms")

    assert session.exit_code == 0, session.screen
    assert f"Consumer Statistics for {consumer} > C" in session.screen
    for caption in ("Pending: 5", "Waiting for Ack: 0", "Acknowledged / second: 0", "Delivered / second: 0"):
        assert f"Messages {caption}" in session.screen
    assert "5 ┤ " in session.screen
    assert "██" in session.screen
