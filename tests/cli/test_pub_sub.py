"""`jetspark pub`, `sub`, `req` and `reply` do what those of `nats` do, on any server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Jetspark
from tests.cli.terminal import Background

from jetspark.sync import Msg, connect


@pytest.fixture
def stream(jetspark: Jetspark, name: str) -> Jetspark:
    """An empty stream."""
    jetspark.run("stream", "rm", name, "--force")
    jetspark(
        "stream", "add", name, "--subjects", f"{name}.*", "--storage", "memory", "--allow-batch", "--allow-schedules"
    )
    return jetspark


def stored(jetspark: Jetspark, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in jetspark("stream", "view", name, "--json").splitlines()]


def test_messages_are_counted_and_templates_filled_in(stream: Jetspark, name: str) -> None:
    headers = ("-H", "N:{{Count}}", "-H", "B:x")
    told = stream.run("pub", f"{name}.{{{{Count}}}}", "order {{Count}}", "--count", "3", *headers)

    assert told.stdout == ""
    assert told.stderr.splitlines() == [f'Published 7 bytes to "{name}.{number}"' for number in (1, 2, 3)]
    assert [(one["subject"], one["data"], one["headers"]) for one in stored(stream, name)] == [
        (f"{name}.{number}", f"order {number}", {"N": [str(number)], "B": ["x"]}) for number in (1, 2, 3)
    ]


def test_a_body_comes_from_stdin_whole_or_by_the_line(stream: Jetspark, name: str) -> None:
    stream("pub", f"{name}.a", stdin="one\ntwo\n")
    stream("pub", f"{name}.a", "--send-on", "newline", stdin="one\ntwo\n")
    stream("pub", f"{name}.a", "ignored", "--force-stdin", stdin=b"three")

    assert [one["data"] for one in stored(stream, name)] == ["one\ntwo\n", "one", "two", "three"]


def test_a_stream_acknowledges_what_is_published_to_it(stream: Jetspark, name: str) -> None:
    shown = stream.run("pub", "-J", f"{name}.a", "x", "-H", "Nats-Msg-Id:7").stderr
    again = stream.run("pub", "-J", f"{name}.a", "x", "-H", "Nats-Msg-Id:7").stderr

    assert f"Stored in Stream: {name} Sequence: 1" in shown
    assert "Duplicate: true" in again
    assert stream.json("pub", "-J", f"{name}.a", "y") == {
        "subject": f"{name}.a",
        "bytes": 1,
        "stream": name,
        "seq": 2,
        "duplicate": False,
    }
    assert stream.run("pub", "-J", f"{name}.a", "z", "--quiet").output == ""


def test_an_atomic_publish_stores_all_or_nothing(stream: Jetspark, name: str) -> None:
    shown = stream.run("pub", f"{name}.a", "x {{Count}}", "--count", "3", "--atomic").stderr
    refused = stream.run("pub", f"{name}.a", "y", "--count", "2", "--atomic", "-H", "Nats-Expected-Stream:OTHER")

    assert "Messages: 3" in shown
    assert refused.exit_code == 1
    assert [one["data"] for one in stored(stream, name)] == ["x 1", "x 2", "x 3"]


def test_a_scheduled_message_carries_its_schedule(stream: Jetspark, name: str) -> None:
    stream(
        "pub", f"{name}.plan", "later", "--schedule-at", "2099-01-01T00:00:00Z", "--schedule-dest", f"{name}.due", "-J"
    )

    headers = stored(stream, name)[0]["headers"]
    assert isinstance(headers, dict)
    assert headers["Nats-Schedule"] == ["@at 2099-01-01T00:00:00Z"]
    assert headers["Nats-Schedule-Target"] == [f"{name}.due"]
    assert stream.run("pub", f"{name}.plan", "x", "--schedule-every", "5s").exit_code == 2
    assert stream.run("pub", f"{name}.plan", "x", "--schedule-dest", "y").exit_code == 2


@pytest.mark.long
def test_a_subscriber_sees_headers_replies_and_data(jetspark: Jetspark, name: str) -> None:
    with Background(jetspark, "sub", f"{name}.>", "--count", "2", ready=f"Subscribing on {name}.>") as running:
        jetspark("pub", f"{name}.a", "hello", "-H", "X:y", "--reply", "answers")
        jetspark("pub", f"{name}.b", "world")
        shown = running.output()

    assert shown == (
        f'[#1] Received on "{name}.a" with reply "answers"\nX: y\n\nhello\n\n[#2] Received on "{name}.b"\nworld\n\n'
    )


@pytest.mark.long
def test_several_subjects_and_a_queue_are_one_subscription(jetspark: Jetspark, name: str) -> None:
    line = ("sub", f"{name}.a", f"{name}.b", "--queue", "workers", "--count", "2", "--subjects-only")
    with Background(jetspark, *line, ready=f"Subscribing on {name}.a, {name}.b in group workers") as running:
        for word in ("c", "a", "b"):
            jetspark("pub", f"{name}.{word}", "x")
        shown = running.output()

    assert sorted(shown.split()) == [f"{name}.a", f"{name}.b"]


@pytest.mark.long
def test_a_stream_is_read_from_where_it_is_told(stream: Jetspark, name: str) -> None:
    for number, word in enumerate(["a", "b", "a", "b"], 1):
        stream("pub", f"{name}.{word}", f"message {number}", "--quiet")

    def shown(*options: str) -> str:
        return stream("sub", *options, "--raw", "-T").replace("message ", "").replace("\n", "")

    assert shown("--stream", name, "--all") == "1234"
    assert shown(f"{name}.a", "--all") == "13"
    assert shown("--stream", name, "--last") == "4"
    assert shown("--stream", name, "--last-per-subject") == "34"
    assert shown("--stream", name, "--start-sequence", "2") == "234"
    assert shown("--stream", name, "--since", "1h") == "1234"
    assert shown("--stream", name, "--all", "--count", "2") == "12"
    assert shown("--stream", name, "--all", "--ignore-subject", f"{name}.a") == "24"
    assert shown("--stream", name, "--new") == ""
    assert stream("consumer", "ls", name, "--names") == ""


def test_a_durable_is_made_and_goes_on_where_it_was(stream: Jetspark, name: str) -> None:
    stream("pub", f"{name}.a", "message {{Count}}", "--count", "4")

    first = stream("sub", f"{name}.a", "--durable", "D", "--count", "2", "--raw")
    second = stream("sub", "--stream", name, "--durable", "D", "-T", "--raw")

    assert (first, second) == ("message 1\nmessage 2\n", "message 3\nmessage 4\n")
    assert stream.json("consumer", "info", name, "D")["num_ack_pending"] == 0


def test_messages_are_shown_as_documents_files_or_counts(stream: Jetspark, name: str, tmp_path: Path) -> None:
    stream("pub", f"{name}.a", "x", "-H", "A:1", "--count", "2")
    read = ("sub", "--stream", name, "--all", "-T")

    document = json.loads(stream(*read, "--json", "--count", "1"))
    stream(*read, "--dump", str(tmp_path / "dump"))
    translated = stream(*read, "--translate", "tr x y", "--count", "1", "--headers-only", "-d")

    assert (document["stream_seq"], document["pending"], document["headers"]) == (1, 1, {"A": ["1"]})
    assert json.loads((tmp_path / "dump" / "2.json").read_text())["stream_seq"] == 2
    assert stream(*read, "--dump", "-") == "x\0x\0"
    assert stream.json(*read, "--report-subjects") == {f"{name}.a": 2}
    assert f"{name}.a" in stream(*read, "--report-subjects")
    assert "A: 1" in translated
    assert "[#1] @ " in translated


def test_a_subject_of_no_stream_cannot_be_read_back(jetspark: Jetspark) -> None:
    result = jetspark.run("sub", "nobody.stores.this", "--all")

    assert result.exit_code == 4
    assert "no stream listens on nobody.stores.this" in result.stderr
    assert jetspark.run("sub").exit_code == 2
    assert jetspark.run("sub", "x", "--all", "--new").exit_code == 2


@pytest.mark.long
def test_a_request_gets_the_reply_of_a_body_an_echo_or_a_command(jetspark: Jetspark, name: str) -> None:
    body = ("reply", f"{name}.body", "pong {{Count}} {{Request}}", "--count", "2", "-H", "R:1")
    with Background(jetspark, *body, ready="Listening on") as running:
        first = jetspark.run("req", f"{name}.body", "hello")
        second = jetspark("req", f"{name}.body", "hello", "--raw")
        told = running.output()
    with Background(jetspark, "reply", f"{name}.echo", "--echo", "--count", "1", ready="sending back what comes"):
        echoed = jetspark.json("req", f"{name}.echo", "hello", "-H", "A:b")
    with Background(jetspark, "reply", f"{name}.echo", "--count", "1", ready="sending back what comes"):
        assert jetspark("req", f"{name}.echo", "told nothing", "--raw") == "told nothing\n"
    command = ("reply", f"{name}.*", "--command", "printf '%s-%s' {{1}} $NATS {{.Request}}", "--count", "1")
    with Background(jetspark, *command, ready="Listening on"):
        ran = jetspark("req", f"{name}.london", "; rm -rf x", "--raw")

    assert first.stdout == "R: 1\n\npong 1 hello\n\n"
    assert 'Sending request on "' in first.stderr
    assert "Received with rtt" in first.stderr
    assert second == "pong 2 hello\n"
    assert told == "hello\nhello\n"
    assert (echoed["data"], echoed["headers"]) == ("hello", {"A": ["b"]})
    # The words of a request stay one argument: `$NATS` is no variable and `;` ends nothing.
    assert ran == "london-$NATS; rm -rf x-\n"


def answering(reply: str) -> Callable[[Msg], None]:
    return lambda message: message.respond(reply)


@pytest.mark.long
def test_a_request_may_wait_for_several_replies(jetspark: Jetspark, name: str) -> None:
    with connect(jetspark.url) as connection:
        for number in (1, 2, 3):
            connection.subscribe(name, callback=answering(f"reply {number}"))
        connection.flush()
        two = jetspark("req", name, "x", "--replies", "2", "--raw")
        all_of_them = jetspark("req", name, "x", "--replies", "0", "--timeout", "500ms", "--raw")
        none = jetspark.run("req", name + ".nobody", "x", "--replies", "2")

    assert len(two.splitlines()) == 2
    assert sorted(all_of_them.splitlines()) == ["reply 1", "reply 2", "reply 3"]
    assert none.exit_code == 4


def test_a_request_nobody_answers_in_time_times_out(jetspark: Jetspark, name: str) -> None:
    with connect(jetspark.url) as connection:
        connection.subscribe(name, callback=lambda message: None)
        connection.flush()
        result = jetspark.run("req", name, "x", "--timeout", "100ms")

    assert result.exit_code == 5
    assert "--timeout" in result.stderr


def test_a_reply_has_one_thing_to_say(ours: Jetspark) -> None:
    result = ours.run("reply", "x", "body", "--echo")

    assert result.exit_code == 2
    assert "one of BODY, --echo and --command" in result.stderr
