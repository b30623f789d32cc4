"""The client's operations, read from any split of the byte stream."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.protocol.parser import OpHandler, Parser

Seen = list[tuple[object, ...]]


class Recorder(OpHandler):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.halted = False
        self.seen: Seen = []

    def on_pub(self, subject: bytes, reply: bytes, header_size: int, body: bytes) -> None:
        self.seen.append(("pub", subject, reply, body))

    def on_hpub(self, subject: bytes, reply: bytes, header_size: int, body: bytes) -> None:
        self.seen.append(("hpub", subject, reply, body[:header_size], body[header_size:]))

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.seen.append(("sub", subject, queue, sid))

    def on_unsub(self, sid: bytes, max_messages: int) -> None:
        self.seen.append(("unsub", sid, max_messages))

    def on_connect(self, document: bytes) -> None:
        self.seen.append(("connect", document))

    def on_ping(self) -> None:
        self.seen.append(("ping",))

    def on_pong(self) -> None:
        self.seen.append(("pong",))

    def on_violation(self, text: str) -> None:
        self.seen.append(("violation", text))
        self.halted = True


def read(*chunks: bytes) -> Seen:
    recorder = Recorder()
    parser = Parser(recorder, 1024, 128)
    for chunk in chunks:
        parser.feed(chunk)
    return recorder.seen


CONVERSATION = (
    b'CONNECT {"verbose":false}\r\n'
    b"PING\r\n"
    b"SUB orders.* 1\r\n"
    b"SUB orders.> workers 2\r\n"
    b"PUB orders.new 5\r\nhello\r\n"
    b"PUB orders.new _INBOX.a.1 0\r\n\r\n"
    b"HPUB orders.new _INBOX.a.2 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
    b"hpub orders.new 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b"pub\torders.old \t reply  3\nx\r\n\r\n"
    b"UNSUB 1\r\n"
    b"UNSUB 2 5\r\n"
    b"PONG\r\n"
)
OPERATIONS: Seen = [
    ("connect", b'{"verbose":false}'),
    ("ping",),
    ("sub", b"orders.*", b"", b"1"),
    ("sub", b"orders.>", b"workers", b"2"),
    ("pub", b"orders.new", b"", b"hello"),
    ("pub", b"orders.new", b"_INBOX.a.1", b""),
    ("hpub", b"orders.new", b"_INBOX.a.2", b"NATS/1.0\r\n\r\n", b"abc"),
    ("hpub", b"orders.new", b"", b"NATS/1.0\r\n\r\n", b""),
    ("pub", b"orders.old", b"reply", b"x\r\n"),
    ("unsub", b"1", 0),
    ("unsub", b"2", 5),
    ("pong",),
]


def test_a_conversation_byte_by_byte() -> None:
    assert read(*[CONVERSATION[at : at + 1] for at in range(len(CONVERSATION))]) == OPERATIONS


@given(st.lists(st.sampled_from([b"a", b"b", b"a.b", b"a.c", b"c.b", b"a.b.c"]), max_size=12))
def test_each_publish_has_its_own_subject_whatever_the_one_before_had(subjects: list[bytes]) -> None:
    assert read(b"".join(b"PUB %b 1\r\nx\r\n" % subject for subject in subjects)) == [
        ("pub", subject, b"", b"x") for subject in subjects
    ]


@given(st.lists(st.integers(0, len(CONVERSATION)), max_size=8))
def test_any_split_reads_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(CONVERSATION)]
    chunks = [CONVERSATION[start:end] for start, end in itertools.pairwise(places)]
    assert read(*chunks) == OPERATIONS


@given(st.binary(max_size=200))
def test_garbage_is_a_violation_or_waits_and_never_an_exception(data: bytes) -> None:
    known = {"pub", "hpub", "sub", "unsub", "connect", "ping", "pong", "violation"}
    assert {seen[0] for seen in read(data)} <= known


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"MSG a 1 0\r\n\r\n", "Unknown Protocol Operation"),
        (b"FOO\r\n", "Unknown Protocol Operation"),
        (b"PUB a 3\r\nabcdef\r\n", "Unknown Protocol Operation"),
        (b"PUB a 1025\r\n", "Maximum Payload Violation"),
        (b"PUB " + b"a" * 140 + b" 1\r\nx\r\n", "maximum control line exceeded"),
        (b"SUB " + b"a" * 140 + b" 1\r\n", "maximum control line exceeded"),
        (b"PUB a" + b" " * 200, "maximum control line exceeded"),
        (b"PUB a\r\n", ""),
        (b"PUB a b c 1\r\nx\r\n", ""),
        (b"PUB a -1\r\n", ""),
        (b"PUB a x1\r\n", ""),
        (b"PUB a 99999999999\r\n", ""),
        (b"HPUB a 12 4\r\n", ""),
        (b"HPUB a 4\r\n", ""),
        (b"SUB a\r\n", ""),
        (b"SUB a b c d\r\n", ""),
        (b"UNSUB\r\n", "Unknown Protocol Operation"),
        (b"UNSUB \r\n", ""),
        (b"-ERR 'no'\r\n", ""),
    ],
)
def test_what_breaks_the_protocol_ends_it(line: bytes, text: str) -> None:
    assert read(line, b"PING\r\n") == [("violation", text)]


def test_a_line_and_a_payload_just_within_the_limits_pass() -> None:
    subject = b"a" * 120
    body = b"x" * 1024
    assert read(b"PUB " + subject + b" 1024\r\n" + body + b"\r\n") == [("pub", subject, b"", body)]


def test_a_halted_handler_stops_the_parser_and_resume_goes_on() -> None:
    recorder = Recorder()
    parser = Parser(recorder, 1024, 128)
    recorder.halted = True
    parser.feed(b"PING\r\nPO")
    parser.feed(b"NG\r\n")
    assert recorder.seen == []

    recorder.halted = False
    parser.resume()

    assert recorder.seen == [("ping",), ("pong",)]
