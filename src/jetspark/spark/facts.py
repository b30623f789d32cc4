"""What the driver asks a server about streams: their state for planning, and where a time lies in them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetspark.api.stream_config import Retention, StreamConfig
from jetspark.client.api_errors import MessageNotFoundError, StreamNotFoundError
from jetspark.client.errors import BadOptionError
from jetspark.errors import JetsparkError
from jetspark.spark.connections import ask
from jetspark.spark.planner import Run, runs_of

if TYPE_CHECKING:
    from jetspark.client.sync import JetStream
    from jetspark.spark.options import Options

# Beyond this the list of deleted sequences costs more than skipping over them.
DELETED_MAX = 500_000


@dataclass(frozen=True)
class Facts:
    """A stream at a moment. `deleted` is None when nobody asked, or when there are too many."""

    name: str
    created: str
    first: int
    last: int
    messages: int
    size_bytes: int
    deleted_count: int
    deleted: tuple[Run, ...] | None
    retention: Retention
    allow_direct: bool
    removes_inside: bool
    """Messages in the middle may go although nobody deleted them: only the newest of a subject is kept, or they age."""
    replaces_only: bool = False
    """Messages go only because newer ones of their subject came, as far as the stream's limits are concerned."""
    subjects: tuple[str, ...] = (">",)
    """What can be in it, as far as its settings tell."""

    @property
    def sequence_bytes(self) -> float:
        """Bytes a sequence, on average: deleted ones count as none."""
        span = max(1, self.last - self.first + 1)
        return self.size_bytes / span


def facts_of(options: Options, name: str, *, with_deleted: bool = False) -> Facts:
    """Ask for a stream; BadOptionError when there is none of that name."""
    found = find_facts(options, name, with_deleted=with_deleted)
    if found is None:
        raise no_stream(options, name)
    return found


def find_facts(options: Options, name: str, *, with_deleted: bool = False) -> Facts | None:
    """Ask for a stream that may be gone: then None."""
    try:
        return ask(options, lambda jetstream: _facts(jetstream, name, with_deleted))
    except StreamNotFoundError:
        return None


def _facts(jetstream: JetStream, name: str, with_deleted: bool) -> Facts:
    info = jetstream.stream_handle(name).info()
    if with_deleted and 0 < info.state.num_deleted <= DELETED_MAX:
        info = jetstream.stream_handle(name).info(deleted_details=True)
    state, config = info.state, info.config
    deleted: tuple[Run, ...] | None = None
    if not state.num_deleted:
        deleted = ()
    elif state.deleted:
        deleted = runs_of(sorted(state.deleted))
    return Facts(
        name=name,
        created=info.created,
        first=max(1, state.first_seq) if state.messages else state.last_seq + 1,
        last=state.last_seq,
        messages=state.messages,
        size_bytes=state.bytes,
        deleted_count=state.num_deleted,
        deleted=deleted,
        retention=config.retention,
        allow_direct=config.allow_direct,
        removes_inside=config.max_msgs_per_subject > 0 or config.allow_msg_ttl or config.allow_rollup_hdrs,
        replaces_only=replaces_only(config),
        subjects=_subjects(config),
    )


def replaces_only(config: StreamConfig) -> bool:
    """No limit of the stream removes a message but the one on each subject. A key-value bucket is such a stream."""
    has_others = config.max_age > 0 or config.max_msgs > 0 or config.max_bytes > 0
    return config.max_msgs_per_subject > 0 and config.retention == Retention.LIMITS and not has_others


def _subjects(config: StreamConfig) -> tuple[str, ...]:
    if config.mirror or config.sources or config.subject_transform or not config.subjects:
        return (">",)
    return tuple(config.subjects)


def no_stream(options: Options, name: str) -> BadOptionError:
    """The error for a stream that is not there, with those that are."""
    try:
        names = ask(options, lambda jetstream: jetstream.stream_names())
    except JetsparkError:
        # Whoever may read one stream need not be allowed to list them all.
        return BadOptionError(f"option stream: there is no stream {name}")
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return BadOptionError(f"option stream: there is no stream {name}; did you mean {near[0]}?")
    known = f"there are {', '.join(sorted(names)[:20])}" if names else "the server has none"
    return BadOptionError(f"option stream: there is no stream {name}; {known}")


def message_time_ns(options: Options, name: str, sequence: int) -> tuple[int, int] | None:
    """(sequence, time) of the first message at or after a sequence; None when there is none."""

    def look(jetstream: JetStream) -> tuple[int, int] | None:
        try:
            # Not a direct get: only the leader is certain to have everything.
            found = jetstream.stream_handle(name).get_msg(seq=sequence, next_by_subject=">", direct=False)
        except MessageNotFoundError:
            return None
        return found.seq, found.timestamp_ns

    return ask(options, look)


def sequence_at(options: Options, facts: Facts, time_ns: int) -> int | None:
    """The first sequence stored at or after a time; None when every message is older.

    A search by halves: it works on every server, needs no consumer, and takes about twenty questions for a million.
    """
    low, high, found = facts.first, facts.last, None
    while low <= high:
        middle = (low + high) // 2
        message = message_time_ns(options, facts.name, middle)
        if message is None or message[0] > high:
            high = middle - 1
        elif message[1] >= time_ns:
            found, high = message[0], middle - 1
        else:
            low = message[0] + 1
    return found
