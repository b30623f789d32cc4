"""Where a reply goes: remembered where it can be, and never longer than it is true."""

from __future__ import annotations

import pytest

from jetspark.broker.interest import Interest, Subscription
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

    for change in (
        lambda: interest.add(first),
        lambda: interest.add(second),
        lambda: interest.add(every),
        lambda: interest.remove(first),
        lambda: interest.remove(every),
        lambda: interest.remove(second),
    ):
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
