"""The client's parser: frames from any split of the stream, and nothing but ProtocolError from garbage."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.protocol import client_parser
from jetspark.protocol.client_parser import ClientHandler, ClientParser, ProtocolError


class Recorder(ClientHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def on_msg(self, sid: bytes, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        self.seen.append(("msg", sid, subject, reply, header, data))

    def on_info(self, document: bytes) -> None:
        self.seen.append(("info", document))

    def on_ping(self) -> None:
        self.seen.append(("ping",))

    def on_pong(self) -> None:
        self.seen.append(("pong",))

    def on_error(self, text: str) -> None:
        self.seen.append(("error", text))


STREAM = (
    b'INFO {"max_payload":1024} \r\n'
    b"+OK\r\n"
    b"PING\r\n"
    b"MSG foo.bar 1 5\r\nhello\r\n"
    b"MSG foo.bar 22 reply.to 0\r\n\r\n"
    b"MSG rr 3  0\r\n\r\n"
    b"HMSG inbox 8 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n"
    b"HMSG orders.new 9 $JS.ACK.S.C.1.2.3.4.5 21 24\r\nNATS/1.0\r\nName: V\r\n\r\nabc\r\n"
    b"-ERR 'Stale Connection'\r\n"
    b"MSG a 1 4\r\n\r\n\r\n\r\n"
    b"PONG\r\n"
)
EXPECTED = [
    ("info", b'{"max_payload":1024} '),
    ("ping",),
    ("msg", b"1", b"foo.bar", b"", b"", b"hello"),
    ("msg", b"22", b"foo.bar", b"reply.to", b"", b""),
    ("msg", b"3", b"rr", b"", b"", b""),
    ("msg", b"8", b"inbox", b"", b"NATS/1.0 404 No Messages\r\n\r\n", b""),
    ("msg", b"9", b"orders.new", b"$JS.ACK.S.C.1.2.3.4.5", b"NATS/1.0\r\nName: V\r\n\r\n", b"abc"),
    ("error", "Stale Connection"),
    ("msg", b"1", b"a", b"", b"", b"\r\n\r\n"),
    ("pong",),
]


@pytest.fixture(params=["native"] if client_parser.IS_NATIVE else ["plain", "native"])
def scan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both bodies of the loop, whichever this build would choose; the compiled one has chosen for good."""
    if not client_parser.IS_NATIVE:
        monkeypatch.setattr(client_parser, "IS_NATIVE", request.param == "native")
    return str(request.param)


def test_each_message_has_its_own_names_whatever_the_one_before_had(scan: str) -> None:
    names = list(itertools.product([b"1", b"2", b"11"], [b"a", b"b", b"a.b", b"a.c"]))
    names = [*names, *reversed(names), *names[:1] * 3]
    recorder = Recorder()

    ClientParser(recorder).feed(b"".join(b"MSG %b %b 0\r\n\r\n" % (subject, sid) for sid, subject in names))

    assert [(sid, subject) for _, sid, subject, *_ in recorder.seen] == names


@pytest.mark.usefixtures("scan")
def test_whole_stream_gives_every_frame() -> None:
    recorder = Recorder()
    ClientParser(recorder).feed(STREAM)
    assert recorder.seen == EXPECTED


@pytest.mark.usefixtures("scan")
def test_byte_by_byte_gives_the_same_frames() -> None:
    recorder = Recorder()
    parser = ClientParser(recorder)
    for byte in STREAM:
        parser.feed(bytes([byte]))
    assert recorder.seen == EXPECTED


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split_gives_the_same_frames(cuts: list[int]) -> None:
    recorder = Recorder()
    parser = ClientParser(recorder)
    edges = [0, *sorted(cuts), len(STREAM)]
    for start, stop in itertools.pairwise(edges):
        parser.feed(STREAM[start:stop])
    assert recorder.seen == EXPECTED


@given(st.binary(max_size=200))
def test_garbage_raises_protocol_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        ClientParser(Recorder()).feed(data)


@given(st.sampled_from([b"MSG", b"HMSG", b"M", b"H"]), st.binary(max_size=60))
def test_both_bodies_judge_a_message_line_alike(verb: bytes, rest: bytes) -> None:
    data = verb + b" " + rest.replace(b"\r", b"").replace(b"\n", b"") + b"\r\n" + b"x" * 20 + b"\r\n"
    outcomes: list[object] = []
    for scan in ("_scan_plain", "_scan_native"):
        recorder = Recorder()
        try:
            getattr(ClientParser(recorder), scan)(data)
            outcomes.append(recorder.seen[:1])
        except ProtocolError:
            outcomes.append(recorder.seen[:1] or "error")
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "line",
    [
        b"MSG a 1 -5\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a\r\n",
        b"MSG a 1 r 5 5 5\r\n",
        b"HMSG a 1 9 5\r\n",
        b"HMSG a 1 5\r\n",
        b"MSG a 1 99999999999999999999\r\n",
        b"MSGS a 1 5\r\n",
        b"WHAT\r\n",
    ],
)
@pytest.mark.usefixtures("scan")
def test_malformed_line_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        ClientParser(Recorder()).feed(line + b"hello there\r\n")


@pytest.mark.usefixtures("scan")
def test_a_payload_that_does_not_end_where_it_should_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        ClientParser(Recorder()).feed(b"MSG a 1 4\r\nhello\r\n")


@pytest.mark.parametrize("first", [1, 3, 12, 40, 700, 1100])
@pytest.mark.usefixtures("scan")
def test_frames_after_a_half_one_of_any_size_are_not_lost(first: int) -> None:
    recorder = Recorder()
    parser = ClientParser(recorder)
    frames = b"".join(b"MSG s 1 %d\r\n%b\r\n" % (size, b"x" * size) for size in (1000, 5, 2000, 0, 600, 7))
    parser.feed(frames[:first])
    parser.feed(frames[first:])
    parser.feed(b"PING\r\n")
    bodies = [one[-1] for one in recorder.seen[:-1]]
    assert [len(body) for body in bodies if isinstance(body, bytes)] == [1000, 5, 2000, 0, 600, 7]


def test_endless_line_is_refused() -> None:
    parser = ClientParser(Recorder())
    parser.feed(b"INFO" + b"x" * 1024 * 1000)
    with pytest.raises(ProtocolError, match="1 MiB"):
        parser.feed(b"x" * 65536)


def test_large_payload_in_many_reads_comes_whole() -> None:
    recorder = Recorder()
    parser = ClientParser(recorder)
    payload = bytes(range(256)) * 4096
    frame = b"MSG big 1 %d\r\n%b\r\n" % (len(payload), payload)
    for start in range(0, len(frame), 1000):
        parser.feed(frame[start : start + 1000])
    assert recorder.seen == [("msg", b"1", b"big", b"", b"", payload)]
