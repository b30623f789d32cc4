"""Is this message a schedule, or the end of one? The rules of `Nats-Schedule…` and `Nats-Scheduler`, for every stream.

What the values may be is the `api` room's; firing is in `schedules.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.schedule import ScheduleHeaders, check_schedule
from jetspark.broker.bounds import bounded_time
from jetspark.broker.publish import ROLLUP, SCHEDULE, SCHEDULE_NEXT, SCHEDULER, Publish
from jetspark.protocol import headers
from jetspark.protocol.subjects import is_literal
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

TIME_ZONE: Final = b"Nats-Schedule-Time-Zone"
TARGET: Final = b"Nats-Schedule-Target"
SOURCE: Final = b"Nats-Schedule-Source"
SCHEDULE_TTL: Final = b"Nats-Schedule-TTL"
SCHEDULE_ROLLUP: Final = b"Nats-Schedule-Rollup"

# The value of Nats-Schedule-Next that ends a schedule.
PURGE: Final = b"purge"


def verify(stream: Stream, publish: Publish, staged: dict[bytes, bool]) -> None:
    """ApiError for a message whose schedule headers make no sense; otherwise the message learns what it is.

    `staged` has the subjects that a batch writes to before this message, and whether to a schedule.
    """
    asks = publish.asks
    if SCHEDULE in asks or TIME_ZONE in asks:
        verify_schedule(stream, publish)
    if asks.get(SCHEDULE_NEXT):
        verify_end(stream, publish, staged)
    elif asks.get(SCHEDULER):
        raise make(ErrorCode.MESSAGE_SCHEDULES_SCHEDULER_INVALID)


def text_of(publish: Publish, name: bytes) -> str:
    return publish.asks.get(name, b"").decode("utf-8", "replace")


def verify_schedule(stream: Stream, publish: Publish) -> None:
    """A schedule replaces the one its subject had, so it is always a rollup of its subject."""
    time_zone = publish.asks.get(TIME_ZONE)
    asked = ScheduleHeaders(
        pattern=text_of(publish, SCHEDULE),
        time_zone=None if time_zone is None else time_zone.decode("utf-8", "replace"),
        ttl=text_of(publish, SCHEDULE_TTL),
        rollup=text_of(publish, SCHEDULE_ROLLUP),
        target=text_of(publish, TARGET),
        source=text_of(publish, SOURCE),
        message_rollup=publish.rollup.decode("utf-8", "replace"),
    )
    now_ns = stream.broker.now_ns
    schedule = check_schedule(asked, publish.subject.decode("utf-8", "replace"), stream.config, now_ns)
    if schedule is None:
        return
    fires_ns = schedule.next_fire_ns(now_ns, now_ns)
    if fires_ns is None:
        raise make(ErrorCode.MESSAGE_SCHEDULES_PATTERN_INVALID)
    publish.fires_ns = max(bounded_time(fires_ns), 1)
    if not publish.rollup:
        publish.rollup = b"sub"
        publish.header = headers.append_headers(publish.header, [(ROLLUP, b"sub")])


def verify_end(stream: Stream, publish: Publish, staged: dict[bytes, bool]) -> None:
    """Clients may end a schedule, and nothing else, with `Nats-Schedule-Next`."""
    scheduler = publish.asks.get(SCHEDULER, b"")
    if publish.asks.get(SCHEDULE_NEXT) != PURGE or scheduler == publish.subject or not is_literal(scheduler):
        raise make(ErrorCode.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
    if not stream.config.allow_msg_schedules:
        raise make(ErrorCode.MESSAGE_SCHEDULES_DISABLED)
    is_schedule = staged[scheduler] if scheduler in staged else is_schedule_or_nothing(stream, scheduler)
    if not is_schedule:
        raise make(ErrorCode.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
    publish.ends_schedule = scheduler


def is_schedule_or_nothing(stream: Stream, subject: bytes) -> bool:
    """Does the subject hold a schedule, or no message at all?"""
    last = stream.store.subject_last_seq(subject)
    view = RecordView()
    if last == 0 or not stream.store.view(last, view):
        return True
    return bool(headers.find_value(view.header(), SCHEDULE))
