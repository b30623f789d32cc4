"""`jetspark events` shows what JetStream tells about itself, in words and as documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.cli.conftest import Jetspark

from jetspark.api import advisories
from jetspark.api.stream_state import StreamState
from jetspark.cli.context import Settings
from jetspark.cli.events import sentence, wanted_subjects
from jetspark.sync import connect

STAMP = advisories.Stamp("ID", 1_700_000_000_000_000_000)
CLIENT = {"name": "app", "host": "10.0.0.1", "id": 7}
PLACE: Any = {"stream": "S", "consumer": "C"}
NOTHING: Any = {"everything": False, "subjects": (), "js_metric": False, "js_advisory": False, "srv_advisory": None}


@contextmanager
def listening(jetspark: Jetspark, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`jetspark events` as a process of its own, once it hears everything."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jetspark.cli.main", "events", *arguments],
        env={**os.environ, **jetspark.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert "Listening for events on $JS.EVENT.ADVISORY.>" in process.stderr.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.long
def test_advisories_and_sampled_acks_arrive_as_documents(jetspark: Jetspark, bucket: str) -> None:
    with (
        listening(
            jetspark, "--json", "--filter", rf"advisory.*_action.*{bucket}|{bucket}.*ack_time", "--count", "3"
        ) as process,
        connect(jetspark.url) as connection,
    ):
        js = connection.jetstream()
        stream = js.create_stream(bucket, subjects=[bucket], storage="memory")
        consumer = stream.create_consumer("worker", sample_freq="100%")
        js.publish(bucket, b"x")
        consumer.fetch(1)[0].ack(wait=True)
        output, _ = process.communicate(timeout=20)
        js.delete_stream(bucket)

    events = [json.loads(line) for line in output.splitlines()]
    assert [event["type"].rpartition(".")[2] for event in events] == [
        "stream_action",
        "consumer_action",
        "consumer_ack",
    ]
    assert events[2]["stream"] == bucket
    assert process.returncode == 0


@pytest.mark.long
def test_an_event_may_come_as_a_cloud_event(jetspark: Jetspark, bucket: str) -> None:
    with (
        listening(jetspark, "--cloudevent", "--filter", rf"stream_action.*{bucket}", "--count", "1") as process,
        connect(jetspark.url) as connection,
    ):
        connection.jetstream().create_stream(bucket, subjects=[bucket], storage="memory").delete()
        output, _ = process.communicate(timeout=20)

    event = json.loads(output)
    assert (event["specversion"], event["source"], event["subject"]) == ("1.0", "urn:nats:jetstream", "advisory")
    assert event["type"] == event["data"]["type"] == "io.nats.jetstream.advisory.v1.stream_action"
    assert (event["id"], event["time"]) == (event["data"]["id"], event["data"]["timestamp"])


def test_events_kept_by_a_stream_are_read_from_it(jetspark: Jetspark, bucket: str) -> None:
    with connect(jetspark.url) as connection:
        js = connection.jetstream()
        kept = js.create_stream("KEPT", subjects=["$JS.EVENT.ADVISORY.STREAM.>"], storage="memory", no_ack=True)
        try:
            js.create_stream(bucket, subjects=[bucket], storage="memory")
            # Not a deletion: nats-server loses the event of about one deletion in a thousand.
            js.update_stream(bucket, description="changed")

            shown = jetspark(
                "events", "--stream", "KEPT", "--since", "1h", "--filter", bucket, "--count", "2", "--short"
            )
        finally:
            js.delete_stream(bucket)
            kept.delete()
    assert [line.split("] ", 2)[2] for line in shown.splitlines()] == [
        f"Stream Action: stream {bucket}: create",
        f"Stream Action: stream {bucket}: modify",
    ]


@pytest.mark.parametrize(
    ("event", "title", "words"),
    [
        (advisories.api_audit(STAMP, server="srv", client=CLIENT, subject="$JS.API.INFO", request="", response="{}"),
         "JetStream API Access", "$JS.API.INFO"),
        (advisories.consumer_pause(STAMP, **PLACE, paused=True, pause_until_ns=0),
         "Consumer Pause", "consumer S > C: paused True until 1970-01-01T00:00:00Z"),
        (advisories.max_deliver(STAMP, **PLACE, stream_seq=4, deliveries=3), "Consumer Delivery Exceeded",
         "message 4 of S > C was delivered 3 times without an acknowledgement"),
        (advisories.nak(STAMP, **PLACE, consumer_seq=1, stream_seq=4, deliveries=2),
         "Message Nacked", "message 4 of S > C, delivery 2"),
        (advisories.terminated(STAMP, **PLACE, consumer_seq=1, stream_seq=4, deliveries=2, reason="poison"),
         "Message Terminated", "message 4 of S > C, delivery 2: poison"),
        (advisories.terminated(STAMP, **PLACE, consumer_seq=1, stream_seq=4, deliveries=2),
         "Message Terminated", "message 4 of S > C, delivery 2"),
        (advisories.consumer_ack(STAMP, **PLACE, consumer_seq=1, stream_seq=4, ack_time_ns=2_500_000_000, deliveries=1),
         "Consumer Acknowledgement", "message 4 of S > C acknowledged after 2.50s, delivery 1"),
        (advisories.group_pinned(STAMP, account="", **PLACE, group="g", pinned_id="p"),
         "Client Pinned", "S > C group g: p is pinned now"),
        (advisories.group_unpinned(STAMP, account="", **PLACE, group="g", reason="timeout"),
         "Client Unpinned", "S > C group g: nobody is pinned (timeout)"),
        (advisories.snapshot_create(STAMP, stream="S", state=StreamState(), client=CLIENT),
         "Stream Snapshot Created", "stream S"),
        (advisories.restore_complete(STAMP, stream="S", start_ns=0, end_ns=1, received_bytes=2048, client=CLIENT),
         "Stream Restore Completed", "stream S, 2.0 KiB"),
        (advisories.batch_abandoned(STAMP, account="", stream="S", batch="b", reason="timeout"),
         "Atomic Batch Abandoned", "stream S batch b: timeout"),
        (advisories.out_of_storage(STAMP, server="srv", server_id="N", stream="S"),
         "Server Out Of Space", "server srv stream S"),
        (advisories.api_limit_reached(STAMP, server="srv", dropped=9),
         "API Limit Reached", "server srv dropped 9 requests"),
        (("", {"type": "io.nats.server.advisory.v1.client_disconnect", "client": CLIENT, "reason": "Client Closed"}),
         "Client Disconnection", "app from 10.0.0.1: Client Closed"),
        (("", {"type": "io.nats.new.v1.something_new", "id": "X", "colour": "blue"}), "Something New", "colour blue"),
    ],
)  # fmt: skip
def test_every_kind_of_event_has_its_words(event: advisories.Event, title: str, words: str) -> None:
    assert sentence(event[1]) == (title, words)


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({}, ["$JS.EVENT.ADVISORY.>", "$JS.EVENT.METRIC.>"]),
        ({"js_metric": True}, ["$JS.EVENT.METRIC.>"]),
        ({"subjects": ("my.events",)}, ["my.events"]),
        (
            {"srv_advisory": True},
            ["$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.*.DISCONNECT", "$SYS.SERVER.*.CLIENT.AUTH.ERR"],
        ),
    ],
)
def test_what_is_listened_to(chosen: dict[str, Any], wanted: list[str]) -> None:
    assert wanted_subjects(Settings(), NOTHING | chosen) == wanted


def test_an_event_prefix_replaces_the_usual_one() -> None:
    assert wanted_subjects(Settings(js_event_prefix="remote.events."), NOTHING)[0] == "remote.events.ADVISORY.>"


def test_a_bad_filter_is_wrong_usage(ours: Jetspark) -> None:
    result = ours.run("events", "--filter", "(")

    assert result.exit_code == 2
    assert "no regular expression" in result.stderr
