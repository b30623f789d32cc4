"""`$JS.API.DIRECT.GET.`: messages as messages, without JSON around them.

Decided here: which messages answer a request, in which order, with which headers, and with which status line it ends.
Not counted and not audited, because reading is what this form is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.requests import (
    REQUIRED_API_LEVEL_HEADER,
    DirectGetError,
    MsgGetRequest,
    api_level_is_met,
    parse_direct_get_last_request,
    parse_direct_get_request,
)
from jetspark.api.timestamps import format_time
from jetspark.broker.bounds import bounded_sequence, bounded_time
from jetspark.broker.consumer.pull_queue import read_failure
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.stream import Stream

# More subjects than this in one answer are refused.
RESULTS_MAX: Final = 1024

NOT_FOUND: Final = headers.status_block(404, b"Message Not Found", [])
NO_RESULTS: Final = headers.status_block(404, b"No Results", [])
TOO_MANY: Final = headers.status_block(413, b"Too Many Results", [])
LEVEL_REFUSED: Final = headers.status_block(412, b"Required Api Level", [])


def receive(jetstream: JetStream, path: bytes, reply: bytes, header: bytes, body: bytes) -> bool:
    """`<stream>` with a document, or `<stream>.<subject>`; False when no such stream answers direct gets."""
    name, _, subject = path.partition(b".")
    stream = answering_stream(jetstream, name.decode("utf-8", "replace"))
    if stream is None:
        return False
    if not reply:
        return True
    answer = DirectAnswer(stream, reply)
    if header and not api_level_is_met(headers.find_value(header, REQUIRED_API_LEVEL_HEADER.encode())):
        answer.send(LEVEL_REFUSED, b"")
        return True
    try:
        if b"." in path:
            request = parse_direct_get_last_request(body, subject.decode("utf-8", "replace"))
        else:
            request = parse_direct_get_request(body)
    except DirectGetError as error:
        answer.send(headers.status_block(error.code, error.description.encode(), []), b"")
        return True
    # nats-server keeps the headers of this kind whatever was asked.
    answer.with_headers = not request.no_hdr or bool(request.multi_last)
    try:
        if request.multi_last:
            multi(answer, stream, request)
        elif request.batch != 0:
            batch(answer, stream, request)
        else:
            single(answer, stream, request)
    except OSError as error:
        stream.read_failed(error)
        answer.send(read_failure(error), b"")
    return True


def answering_stream(jetstream: JetStream, name: str) -> Stream | None:
    """The stream itself, if it may be read directly, else a mirror of it that may."""
    stream = jetstream.streams.get(name)
    if stream is not None and stream.config.allow_direct:
        return stream
    for mirror in jetstream.streams.values():
        config = mirror.config
        origin = config.mirror
        if config.mirror_direct and origin is not None and origin.name == name and origin.external is None:
            return mirror
    return None


class DirectAnswer:
    """The messages that answer one request, on their way to its inbox."""

    def __init__(self, stream: Stream, reply: bytes) -> None:
        self._stream = stream
        self._reply = reply
        # Set once a message that is not durable yet was shown: it and what follows wait for the commit.
        self._is_held: bool = False
        self.with_headers: bool = True
        self.sent_bytes: i64 = 0
        self.last_seq: i64 = 0

    def send(self, header: bytes, payload: bytes) -> None:
        account = self._stream.account
        if self._is_held:
            account.hold_reply(self._reply, len(header), header + payload)
        else:
            account.publish_internal(self._reply, b"", len(header), header + payload)

    def send_message(self, view: RecordView, more: list[tuple[bytes, bytes]]) -> None:
        """One stored message, with what a reader needs to know about it after its own headers."""
        stream = self._stream
        if view.seq > stream.store.visible_seq and not stream.in_memory:
            self._is_held = True
        header = view.header()
        payload = view.payload()
        self.sent_bytes += len(view.subject) + len(header) + len(payload)
        self.last_seq = view.seq
        if not self.with_headers:
            self.send(b"", payload)
            return
        pairs = [
            (b"Nats-Stream", stream.name.encode()),
            (b"Nats-Subject", view.subject),
            (b"Nats-Sequence", b"%d" % view.seq),
            (b"Nats-Time-Stamp", format_time(view.ts_ns).encode()),
        ]
        self.send(headers.append_headers(header, pairs + more), payload)

    def send_end(self, pending: i64, more: list[tuple[bytes, bytes]]) -> None:
        """The end of a batch."""
        pairs = [(b"Nats-Num-Pending", b"%d" % pending), (b"Nats-Last-Sequence", b"%d" % self.last_seq)]
        self.send(headers.status_block(204, b"EOB", pairs + more), b"")


def progress(pending: i64, last_seq: i64) -> list[tuple[bytes, bytes]]:
    """How many more match after this message, and which one came before it in this answer."""
    return [(b"Nats-Num-Pending", b"%d" % pending), (b"Nats-Last-Sequence", b"%d" % last_seq)]


def bytes_max(stream: Stream, request: MsgGetRequest) -> i64:
    return request.max_bytes if request.max_bytes > 0 else stream.broker.options.max_pending


def start_seq(stream: Stream, request: MsgGetRequest) -> i64:
    if request.start_time is not None:
        return stream.store.seq_at_time(bounded_time(request.start_time.unix_ns))
    return bounded_sequence(request.seq)


def single(answer: DirectAnswer, stream: Stream, request: MsgGetRequest) -> None:
    """One message: by sequence, the next or the last on a subject."""
    store = stream.store
    view = stream.view
    if request.last_by_subj:
        seq = store.last_match(SubjectFilter([request.last_by_subj.encode()]), store.last_seq)
    elif request.next_by_subj:
        wanted = SubjectFilter([request.next_by_subj.encode()])
        seq = store.next_match(start_seq(stream, request), store.last_seq, wanted, view)
    else:
        seq = start_seq(stream, request)
    if seq > 0 and store.view(seq, view):
        answer.send_message(view, [])
    else:
        answer.send(NOT_FOUND, b"")


def batch(answer: DirectAnswer, stream: Stream, request: MsgGetRequest) -> None:
    """Some messages in a row, from a sequence or a time, optionally of a subject only."""
    store = stream.store
    view = stream.view
    wanted = SubjectFilter([request.next_by_subj.encode()] if request.next_by_subj else [])
    seq = start_seq(stream, request)
    pending = store.count_match(seq, wanted)
    budget = bytes_max(stream, request)
    for position in range(request.batch):
        if position == 0 and not request.next_by_subj:
            # The first one is named exactly; those after it may have gaps between them.
            found = seq if store.is_live(seq) else 0
        else:
            found = store.next_match(seq, store.last_seq, wanted, view)
        if found == 0 or not store.view(found, view):
            if position == 0:
                answer.send(NOT_FOUND, b"")
                return
            break
        if answer.with_headers:
            # Without headers nobody is told, and nats-server does not count either.
            pending -= 1
        answer.send_message(view, progress(pending, answer.last_seq))
        seq = found + 1
        if answer.sent_bytes >= budget:
            break
    answer.send_end(pending, [])


def multi(answer: DirectAnswer, stream: Stream, request: MsgGetRequest) -> None:
    """The last message of each subject under some patterns, as of now or as of a sequence or time."""
    store = stream.store
    view = stream.view
    ceiling: i64 = store.last_seq
    if request.up_to_time is not None:
        ceiling = store.seq_at_time(bounded_time(request.up_to_time.unix_ns)) - 1
    elif request.up_to_seq > 0:
        # A ceiling above the stream finds nothing, as on nats-server.
        ceiling = request.up_to_seq if bounded_sequence(request.up_to_seq) <= store.last_seq else 0
    found = last_per_subject(stream, SubjectFilter([f.encode() for f in request.multi_last]), ceiling)
    if len(found) > RESULTS_MAX:
        answer.send(TOO_MANY, b"")
        return
    if not found:
        answer.send(NO_RESULTS, b"")
        return
    pending: i64 = len(found) - 1
    budget = bytes_max(stream, request)
    from_seq = bounded_sequence(request.seq)
    sent = 0
    for seq in found:
        if seq >= from_seq:
            if not store.view(seq, view):
                answer.send(NOT_FOUND, b"")
                return
            answer.send_message(view, progress(pending, answer.last_seq))
            sent += 1
            if answer.sent_bytes >= budget or (0 < request.batch <= sent):
                break
        if pending > 0:
            pending -= 1
    answer.send_end(pending, [(b"Nats-UpTo-Sequence", b"%d" % ceiling)])


def last_per_subject(stream: Stream, wanted: SubjectFilter, ceiling: i64) -> list[int]:
    """Sequences of the last message at or below the ceiling of each matching subject, in order; stops when too many."""
    store = stream.store
    found: list[int] = []
    subjects: list[bytes] = []
    if wanted.literal:
        if wanted.literal in store.subjects:
            subjects.append(wanted.literal)
    else:
        subjects = [subject for subject in store.subjects if wanted.accepts(subject)]
    for subject in subjects:
        last = store.subject_last_seq(subject)
        if last > ceiling:
            last = store.last_match(SubjectFilter([subject]), ceiling)
        if last > 0:
            found.append(last)
            if len(found) > RESULTS_MAX:
                return found
    found.sort()
    return found
