"""Acknowledgements of a block: the quick way and the general way count alike, however the bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.client.core.ack_tally import AckTally, close_tally, open_tally, usual_part
from jetspark.client.core.connection import ConnectionCore
from jetspark.protocol.nuid import Nuid


def made(count: int) -> tuple[ConnectionCore, AckTally]:
    core = ConnectionCore(Nuid(bytes), "_INBOX", 1 << 20, lambda *parts: parts, None)  # type: ignore[arg-type] # no message is made
    return core, open_tally(core, count, None)


def frame(tally: AckTally, place: object, body: bytes, header: bytes = b"") -> bytes:
    subject = b"%b%b" % (tally.prefix, str(place).encode())
    if header:
        return b"HMSG %b %b %d %d\r\n%b%b\r\n" % (
            subject,
            tally.sid,
            len(header),
            len(header) + len(body),
            header,
            body,
        )
    return b"MSG %b %b %d\r\n%b\r\n" % (subject, tally.sid, len(body), body)


def ack(seq: int, more: bytes = b"") -> bytes:
    return b'{"stream":"S", "seq":%d%b}' % (seq, more)


def outcome(tally: AckTally) -> dict[str, Any]:
    return {
        "outcomes": bytes(tally.outcomes),
        "answered": tally.answered_count,
        "duplicates": tally.duplicate_count,
        "refusals": tally.refusals,
        "last": tally.last_ack(),
    }


ANSWERS: list[tuple[object, bytes]] = [
    (0, ack(11)),
    (1, ack(12)),
    (2, ack(12, b', "duplicate": true')),
    (3, ack(13)),
    (1, ack(99)),
    (4, b'{"error":{"code":400}}'),
    (5, ack(14)),
    (77, ack(15)),
    ("x", ack(16)),
    (6, b'{"stream":"OTHER", "seq":3}'),
    (7, b'{"stream":"S", "seq":}'),
    (8, b'{"stream":"S", "seq":4} '),
    (9, ack(10**17)),
]
NOBODY = b"NATS/1.0 503\r\n\r\n"


@pytest.mark.parametrize("piece_size", [1, 7, 64, 1 << 20])
def test_every_answer_counts_once_in_its_place(piece_size: int) -> None:
    core, tally = made(11)
    wire = b"".join(frame(tally, place, body) for place, body in ANSWERS) + frame(tally, 10, b"", NOBODY)

    for start in range(0, len(wire), piece_size):
        core.feed(wire[start : start + piece_size])

    assert outcome(tally) == {
        "outcomes": bytes([1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2]),
        "answered": 11,
        "duplicates": 1,
        "refusals": [(4, b'{"error":{"code":400}}'), (10, b"")],
        "last": ack(10**17),
    }


def test_a_block_that_is_over_hears_nothing_more() -> None:
    core, tally = made(2)
    core.feed(frame(tally, 0, ack(1)))
    close_tally(core, tally)
    close_tally(core, tally)

    core.feed(frame(tally, 1, ack(2)))

    assert tally.answered_count == 1
    assert core.parser.sinks == []


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (ack(12), b'{"stream":"S", "seq":'),
        (b'{"stream":"S", "domain":"d", "seq":7}', b'{"stream":"S", "domain":"d", "seq":'),
        (ack(5, b', "duplicate": true'), b""),
        (b'{"error":{}}', b""),
        (b"", b""),
    ],
)
def test_what_acknowledgements_of_a_stream_have_in_common(answer: bytes, wanted: bytes) -> None:
    assert usual_part(answer) == wanted
