"""What a user may publish, subscribe to and receive."""

from __future__ import annotations

import pytest

from jetspark.broker.permissions import VERDICTS_MAX, Permissions


def permissions(
    *,
    publish_allow: list[bytes] | None = None,
    publish_deny: list[bytes] | None = None,
    subscribe_allow: list[bytes] | None = None,
    subscribe_deny: list[bytes] | None = None,
) -> Permissions:
    return Permissions(publish_allow, publish_deny or [], subscribe_allow, subscribe_deny or [])


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [(b"p.a", True), (b"p.no", False), (b"p.*", True), (b"p.a.b", False), (b"x", False), (b"p", False)],
)
def test_publishing_needs_an_allow_entry_and_no_deny_entry(subject: bytes, allowed: bool) -> None:
    rules = permissions(publish_allow=[b"p.*"], publish_deny=[b"p.no"])

    assert rules.can_publish(subject) is allowed
    assert rules.can_publish(subject) is allowed, "and the remembered verdict is the same"


def test_without_lists_everything_is_allowed() -> None:
    rules = permissions()

    assert rules.can_publish(b"any.thing")
    assert rules.can_subscribe(b">", b"")
    assert rules.can_deliver(b"any.thing")


def test_an_empty_publish_list_allows_nothing_and_an_empty_subscribe_list_everything() -> None:
    rules = permissions(publish_allow=[], subscribe_allow=[])

    assert not rules.can_publish(b"a")
    assert rules.can_subscribe(b"a", b"")


# Asked of nats-server 2.15.1 with the same lists; the one entry it answers otherwise is in the next test.
@pytest.mark.parametrize(
    ("subject", "queue", "allowed"),
    [
        (b"foo.a", b"", True),
        (b"foo.*", b"", True),
        (b">", b"", False),
        (b"*.a", b"", False),
        (b"bar.*", b"", True),
        (b"bar.>", b"", True),
        (b"bar.no.*", b"", False),
        (b"bar.no.>", b"", False),
        (b"bar.secret", b"", False),
        (b"bar.x", b"any", True),
        (b"q.a", b"", False),
        (b"q.a", b"grp", True),
        (b"q.a", b"other", False),
        (b"q.>", b"grp", True),
        (b"w.x", b"v1.2", True),
        (b"w.x", b"v2", False),
        (b"foo.no", b"", True),
        (b"foo.no", b"q1", False),
        (b"foo.no", b"q2", True),
        (b"foo.*", b"q1", True),
    ],
)
def test_subscribing_follows_wildcards_and_queue_entries(subject: bytes, queue: bytes, allowed: bool) -> None:
    rules = permissions(
        subscribe_allow=[b"foo.*", b"q.> grp", b"w.x v1.*", b"bar.>"],
        subscribe_deny=[b"bar.secret", b"foo.no q1", b"bar.no.>"],
    )

    assert rules.can_subscribe(subject, queue) is allowed


def test_a_subscription_wider_than_what_is_allowed_is_refused() -> None:
    rules = permissions(subscribe_allow=[b"foo.*"])

    assert not rules.can_subscribe(b"foo.>", b"")


def test_denied_subjects_do_not_arrive_through_a_wider_subscription() -> None:
    rules = permissions(subscribe_deny=[b"bar.secret", b"bar.none q1"])

    assert rules.can_subscribe(b"bar.*", b"")
    assert rules.can_deliver(b"bar.open")
    assert not rules.can_deliver(b"bar.secret")
    assert rules.can_deliver(b"bar.none")
    assert rules.can_deliver_to_queue(b"bar.none", b"q2")
    assert not rules.can_deliver_to_queue(b"bar.none", b"q1")


def test_verdicts_stay_right_when_there_are_more_subjects_than_are_remembered() -> None:
    rules = permissions(publish_allow=[b"a.*"], subscribe_deny=[b"b.*"])

    for number in range(VERDICTS_MAX + 10):
        assert rules.can_publish(b"a.%d" % number)
        assert not rules.can_deliver(b"b.%d" % number)
    assert rules.can_publish(b"a.0")
    assert not rules.can_deliver(b"b.0")
