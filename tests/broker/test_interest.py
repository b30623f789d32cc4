"""Where a reply goes: remembered where it can be, and never longer than it is true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jetspark.broker.interest import Interest, Subscription
from jetspark.broker.options import BrokerOptions
from jetspark.protocol.subjects import last_dot
from jetspark.testing.broker_driver import BrokerDriver


def subscription(subject: bytes) -> Subscription:
    return Subscription(BrokerDriver().connect().session, subject, b"", b"1")


def receivers(interest: Interest, subject: bytes) -> list[Subscription]:
    return list(interest.reply_route(subject).plain)


@pytest.mark.parametrize("pattern", [b"_INBOX.me", b"_INBOX.me.*"])
def test_an_inbox_is_looked_up_once_however_many_replies_it_gets(pattern: bytes) -> None:
    interest = Interest()
    inbox = subscription(pattern)
    interest.add(inbox)
    replies = [pattern.replace(b"*", b"%d" % number) for number in range(100)]

    assert all(receivers(interest, reply) == [inbox] for reply in replies)

    # The first look also learns whether the last word matters.
    assert interest.match_count <= 2


def test_a_remembered_inbox_is_forgotten_when_somebody_comes_or_goes() -> None:
    interest = Interest()
    first, second, every = subscription(b"_INBOX.me"), subscription(b"_INBOX.me"), subscription(b"_INBOX.*")
    told = []
    changes: list[Callable[[], None]] = [
        lambda: interest.add(first),
        lambda: interest.add(second),
        lambda: interest.add(every),
        lambda: interest.remove(first),
        lambda: interest.remove(every),
        lambda: interest.remove(second),
    ]

    for change in changes:
        change()
        told.append([receivers(interest, b"_INBOX.me") for _ in range(3)][-1])

    assert [set(one) for one in told] == [
        {first},
        {first, second},
        {first, second, every},
        {second, every},
        {second},
        set(),
    ]


def test_the_memory_of_the_last_inbox_ends_with_its_subscription() -> None:
    interest = Interest()
    inbox, other = subscription(b"_INBOX.me.*"), subscription(b"_INBOX.me.2")
    interest.add(inbox)
    assert receivers(interest, b"_INBOX.me.1") == receivers(interest, b"_INBOX.me.2") == [inbox]

    interest.add(other)
    assert receivers(interest, b"_INBOX.me.1") == [inbox]
    assert set(receivers(interest, b"_INBOX.me.2")) == {inbox, other}

    interest.remove(inbox)
    assert receivers(interest, b"_INBOX.me.1") == []
    assert receivers(interest, b"_INBOX.me.2") == [other]


@pytest.mark.parametrize("subject", [b"_INBOX.me.", b"_INBOX..me", b".me.1", b"_INBOX."])
def test_an_empty_word_matches_nothing_also_after_its_neighbours_were_asked_for(subject: bytes) -> None:
    interest = Interest()
    interest.add(subscription(b"_INBOX.me.*"))
    interest.add(subscription(b"_INBOX.>"))
    interest.add(subscription(b"*.me.*"))
    for neighbour in (b"_INBOX.me.1", b"_INBOX.me.2", b"_INBOX.you"):
        assert receivers(interest, neighbour)

    assert receivers(interest, subject) == []
    assert receivers(interest, b"_INBOX.me.3")


def test_replies_nobody_names_are_not_kept_one_by_one() -> None:
    interest = Interest()
    interest.add(subscription(b"_INBOX.*"))
    interest.add(subscription(b"_INBOX.me"))

    for number in range(1000):
        interest.reply_route(b"_INBOX.%d" % number)

    assert len(interest.routes) <= 1


@pytest.mark.parametrize("subject", [b"", b".", b"a", b"a.b", b"a.b.", b".a", b"a..b", b"a.b.c-d_e"])
def test_the_last_dot_is_found(subject: bytes) -> None:
    assert last_dot(subject) == subject.rfind(b".")


@pytest.mark.long
@pytest.mark.parametrize("token_count", [10, 1_000, 500_000])
def test_a_subject_may_have_any_number_of_tokens(token_count: int) -> None:
    interest = Interest()
    subject = b".".join([b"a"] * token_count)
    exact, star, tail = (
        subscription(pattern)
        for pattern in (subject, subject[:-1] + b"*", b".".join([b"*"] * (token_count - 1)) + b".>")
    )
    for one in (exact, star, tail):
        interest.add(one)

    assert set(interest.route(subject).plain) == {exact, star, tail}

    for one in (exact, star, tail):
        interest.remove(one)
    assert not interest.has_interest(subject)


def long_lines(options: BrokerOptions) -> None:
    options.max_control_line = 2_000_000


@pytest.mark.long
def test_a_message_reaches_a_subject_of_half_a_million_tokens() -> None:
    driver = BrokerDriver(configure=long_lines)
    client = driver.connect()
    deep = ".".join(["a"] * 500_000)
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    client.api(
        "CONSUMER.CREATE.S.C",
        {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "none", "deliver_subject": deep}},
    )
    client.send(b"SUB %b 7\r\n" % deep.encode())

    client.publish_acked("s", b"pushed")
    client.send(b"PUB %b 9\r\npublished\r\n" % deep.encode())
    driver.settle()

    assert [message.data for message in client.take_messages()] == [b"pushed", b"published"]


@pytest.mark.parametrize("header", [b"", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"])
def test_a_subject_too_long_for_a_record_is_refused(header: bytes) -> None:
    driver = BrokerDriver(configure=long_lines)
    client = driver.connect()
    longest = "s." + "x" * 65_533
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
    client.send(b"SUB reply 7\r\n")

    for subject in (longest.encode(), longest.encode() + b"x"):
        client.send(
            b"HPUB %b reply %d %d\r\n%bbody\r\n" % (subject, len(header), len(header) + 4, header)
            if header
            else b"PUB %b reply 4\r\nbody\r\n" % subject
        )
    driver.settle()
    first, second = (message.json() for message in client.take_messages())

    assert (first["seq"], second["error"]["err_code"]) == (1, 10054)
    driver.restart()
    found = driver.connect().api("STREAM.INFO.S", {"subjects_filter": ">"})["state"]
    assert (found["messages"], list(found["subjects"])) == (1, [longest])


def test_a_transform_to_a_subject_too_long_for_a_record_is_refused() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    transform = {"src": "s.*", "dest": "t." + ".".join(["{{wildcard(1)}}"] * 100)}
    client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], "subject_transform": transform})
    inbox = client.start_request("s." + "x" * 1_000, b"body")
    driver.settle()

    assert client.replies(inbox)[0].json()["error"]["err_code"] == 10054
