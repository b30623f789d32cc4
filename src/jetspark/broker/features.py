"""Where a stream's less common settings join in: one object a stream, absent when none of them is set.

The base class does nothing at each joint of the publish path; `feature_set.py` puts the real ones together:
transforms, republish, lifetimes, counters, schedules, batches, mirrors and sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from jetspark.broker.ingest import Publish
    from jetspark.broker.session import Session


class StreamFeatures:
    """The joints. Methods that refuse raise ApiError."""

    def __init__(self) -> None:
        self.republishes: bool = False

    def transform(self, publish: Publish) -> None:
        """Give the message the subject it is stored under."""

    def intercept(self, publish: Publish, session: Session | None) -> bool:
        """True when the message is part of a batch and has been dealt with."""
        return False

    def verify_counter(self, publish: Publish) -> None:
        """Nats-Incr."""

    def verify_schedule(self, publish: Publish) -> None:
        """Nats-Schedule and its kin."""

    def verify_lifetime(self, publish: Publish) -> None:
        """The value of Nats-TTL."""

    def before_store(self, publish: Publish) -> None:
        """Last change to header or payload (counter total, schedule's rollup)."""

    def stored(self, publish: Publish, seq: i64, previous_subject_seq: i64) -> None:
        """The message has its sequence: register lifetime and schedule, remember it for republish."""

    def visible(self, seq: i64) -> None:
        """Everything up to seq is durable: republish, feed mirrors."""

    def outlives_age(self, seq: i64) -> bool:
        """`Nats-TTL: never` protects from max_age."""
        return False

    def expired(self, subject: bytes) -> None:
        """A message of this subject expired; the last one may leave a marker."""

    def removed(self, seq: i64) -> None:
        """A message left for any reason."""

    def recovered(self) -> None:
        """The stream has just been read from disk."""

    def stop(self) -> None:
        """The stream is deleted or reconfigured: give up timers and subscriptions."""
