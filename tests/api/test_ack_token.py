"""Ack reply subjects, both versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.ack_token import (
    AckToken,
    account_hash,
    ack_prefix,
    ack_prefix_v2,
    ack_subscription,
    ack_subscription_v2,
    flow_control_subject,
    flow_control_subject_v2,
    format_ack,
    parse_ack,
)
from jetspark.protocol.subjects import matches

NUMBERS = st.integers(min_value=0, max_value=(1 << 64) - 1)
FIELDS = st.fixed_dictionaries(
    dict.fromkeys(("delivered", "stream_seq", "consumer_seq", "timestamp_ns", "pending"), NUMBERS)
)


def test_account_hashes_are_nats_servers() -> None:
    assert account_hash("A") == "NUmM6cRx"
    assert account_hash("$G") == "szMpdrwD"


@given(FIELDS)
def test_version_1_survives_writing_and_reading(fields: dict[str, int]) -> None:
    subject = format_ack(ack_prefix("S", "c"), **fields)

    assert parse_ack(subject) == AckToken(domain="", account_hash="", stream="S", consumer="c", **fields)
    assert matches(ack_subscription("S", "c").encode(), subject.encode())


@given(FIELDS, st.sampled_from(["", "hub"]))
def test_version_2_survives_writing_and_reading(fields: dict[str, int], domain: str) -> None:
    subject = format_ack(ack_prefix_v2(domain, "$G", "S", "c"), **fields)

    token = parse_ack(subject)

    assert token == AckToken(domain=domain, account_hash="szMpdrwD", stream="S", consumer="c", **fields)
    assert parse_ack(subject + ".more.to.come") == token
    assert matches(ack_subscription_v2(domain, "$G", "S", "c").encode(), subject.encode())


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "$JS.ACK",
        "$JS.ACK.S.c.1.1.1.1",
        "$JS.ACK.S.c.1.1.1.1.0.0",
        "$JS.NAK.S.c.1.1.1.1.0",
        "$JS.ACK.S.c.x.1.1.1.0",
        "$JS.ACK.S.c.-1.1.1.1.0",
        "$JS.ACK.S.c..1.1.1.0",
        "$JS.ACK.S.c.1.1.1.1.",
        "$JS.ACK.S.c.1.1.1.1.٣",
    ],
)
def test_other_subjects_are_not_ack_tokens(subject: str) -> None:
    assert parse_ack(subject) is None


def test_flow_control_subjects_follow_the_same_two_forms() -> None:
    assert flow_control_subject("S", "c", "x1Y2") == "$JS.FC.S.c.x1Y2"
    assert flow_control_subject_v2("", "$G", "S", "c", "x1Y2") == "$JS.FC._.szMpdrwD.S.c.x1Y2"
