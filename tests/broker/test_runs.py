"""Publishes taken together leave everything as the same publishes do one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.broker import runs
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection

BODIES = [b"one", b"", b"three" * 40, b"four"]
STREAM = {"name": "S", "subjects": ["s.>"]}


def everything(client: FakeConnection) -> tuple[Any, list[Any], list[Any]]:
    """What the stream says of itself, its consumers and its messages."""
    info = client.api("STREAM.INFO.S", {"subjects_filter": ">"})
    consumers = client.api("CONSUMER.LIST.S")["consumers"]
    stored = [client.api("STREAM.MSG.GET.S", {"seq": seq}) for seq in range(1, info["state"]["last_seq"] + 1)]
    return info, consumers, stored


def published(how: str, config: dict[str, Any], wire: list[bytes], subject: str, replies: list[bytes]) -> Any:
    """The same story told to a fresh broker, with its publishes in the way named."""
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", {**STREAM, **config})
    client.api("CONSUMER.CREATE.S.all", {"stream_name": "S", "config": {"name": "all", "ack_policy": "explicit"}})
    only = {"name": "only", "filter_subject": "s.a", "ack_policy": "none"}
    client.api("CONSUMER.CREATE.S.only.s.a", {"stream_name": "S", "config": only})
    ahead = {"name": "ahead", "ack_policy": "none", "deliver_policy": "by_start_sequence", "opt_start_seq": 3}
    client.api("CONSUMER.CREATE.S.ahead", {"stream_name": "S", "config": ahead})
    for line in wire:
        client.send(line)
    client.take_messages()
    bodies = [BODIES[number % len(BODIES)] for number in range(len(replies))]
    for _ in range(2):
        if how == "together":
            client.session.on_run(subject.encode(), replies, bodies)
        else:
            for reply, body in zip(replies, bodies, strict=True):
                client.session.on_pub(subject.encode(), reply, 0, body)
        driver.settle()
    told = (client.session.in_msgs, client.session.in_bytes, client.session.out_msgs, client.session.out_bytes)
    told_now = (told, client.take_messages())
    if config["storage"] == "file":
        driver.restart()
        client = driver.connect()
    return told_now, everything(client)


STORIES = {
    "one inbox": ([b"SUB in 90\r\n"], [b"in"] * 5),
    "an inbox for each": ([b"SUB _IN.* 90\r\n"], [b"_IN.%d" % number for number in range(12)]),
    "two listeners": ([b"SUB _IN.* 90\r\n", b"SUB _IN.> 91\r\n"], [b"_IN.1", b"_IN.2"]),
    "two inboxes": ([b"SUB _IN.a 90\r\n", b"SUB _IN.b 91\r\n"], [b"_IN.a", b"_IN.b", b"_IN.a"]),
    "a queue": ([b"SUB in group 90\r\n"], [b"in"] * 3),
    "nobody": ([], [b"in"] * 3),
    "somebody who leaves half-way": ([b"SUB in 90\r\n", b"UNSUB 90 3\r\n"], [b"in"] * 5),
    "somebody who listens in": ([b"SUB in 90\r\n", b"SUB s.> 91\r\n"], [b"in"] * 3),
}


@pytest.mark.parametrize("config", [{"storage": "file"}, {"storage": "memory"}], ids=["file", "memory"])
@pytest.mark.parametrize("story", STORIES)
def test_acknowledgements_messages_and_counts_are_the_same(story: str, config: dict[str, Any]) -> None:
    wire, replies = STORIES[story]

    together = published("together", config, wire, "s.a", replies)

    assert together == published("one by one", config, wire, "s.a", replies)


@pytest.mark.parametrize(
    "config",
    [
        {"max_msgs": 3},
        {"max_bytes": 500},
        {"max_msgs_per_subject": 2},
        {"max_msgs_per_subject": 1},
        {"max_msg_size": 10},
        {"discard": "new", "max_msgs": 3},
        {"no_ack": True},
        {"retention": "interest"},
        {"retention": "workqueue"},
        {"subject_transform": {"src": "s.*", "dest": "s.x.{{wildcard(1)}}"}},
        {"republish": {"src": ">", "dest": "copy.>"}},
    ],
    ids=str,
)
def test_whatever_the_stream_is_set_to(config: dict[str, Any]) -> None:
    wire = [b"SUB in 90\r\n", b"SUB copy.> 91\r\n"]
    story = ({"storage": "memory", **config}, wire, "s.a", [b"in"] * 5)

    assert published("together", *story) == published("one by one", *story)


@pytest.mark.parametrize("subject", ["elsewhere", "s.b", "s..b", "s."])
def test_wherever_it_is_published_to(subject: str) -> None:
    story = ({"storage": "memory"}, [b"SUB in 90\r\n"], subject, [b"in"] * 3)

    assert published("together", *story) == published("one by one", *story)


def test_a_run_on_a_plain_stream_is_taken_whole() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.S", STREAM)
    # Limits of the account are looked at with the first commit.
    client.publish_acked("s.a")

    assert runs.publish(client.session.account, b"s.a", [b"in"] * 4, BODIES)
    assert not runs.publish(client.session.account, b"elsewhere", [b"in"] * 4, BODIES)


PIECES = st.sampled_from(
    [
        b"PUB s.a in 3\r\nabc\r\n",
        b"PUB s.a _IN.1 0\r\n\r\n",
        b"PUB s.b in 4\r\nPUB \r\n",
        b"PUB s.a 2\r\nxy\r\n",
        b"pub s.a in 1\r\nx\r\n",
        b"PUB  s.a\tin 1\r\nx\r\n",
        b"PUB s.a $JS.ACK.x 1\r\nx\r\n",
        b"PUB s.a _R_.x 1\r\nx\r\n",
        b"PUB s.a $inbox 1\r\nx\r\n",
        b"PUB s.a in.$FI 1\r\nx\r\n",
        b"PUB $JS.API.INFO in 0\r\n\r\n",
        b"HPUB s.a in 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        b"PING\r\n",
        b"SUB _IN.* 92\r\n",
        b"UNSUB 90\r\n",
        b"PUB s.a in 3\r\nabcd\r\n",
        b"PUB s.a in 99999999\r\n",
        b"PUB s.a in 9999999999\r\n",
        b"PUB s.a in x\r\n",
        b"PUB s.a " + b"r" * 5000 + b" 1\r\nx\r\n",
    ]
)


@pytest.mark.long
@given(pieces=st.lists(PIECES, min_size=1, max_size=12), size=st.integers(1, 400))
def test_the_same_bytes_in_any_pieces_do_the_same(pieces: list[bytes], size: int) -> None:
    def told(*, at_once: bool) -> Any:
        driver = BrokerDriver()
        client = driver.connect()
        client.api("STREAM.CREATE.S", STREAM)
        client.publish_acked("s.a")
        client.send(b"SUB in 90\r\n")
        data = b"".join(pieces)
        for start in range(0, len(data), len(data) if at_once else size):
            client.session.feed(data[start : start + (len(data) if at_once else size)])
        driver.settle()
        session = client.session
        other = driver.connect()
        messages = sorted((one.subject, one.sid, one.data) for one in client.messages if b"server" not in one.data)
        return messages, client.errors, client.pongs, session.in_msgs, other.api("STREAM.INFO.S")["state"]

    assert told(at_once=True) == told(at_once=False)
