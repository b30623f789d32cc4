"""Where a stream's less common settings join in: one object a stream, absent when none of them is set.

The base class does nothing at each joint of the publish path; `feature_set.py` puts the real ones together:
transforms, republish, lifetimes, counters, schedules, batches, mirrors and sources. Rules about headers that hold for
every stream, also for one that has the feature switched off, are not here but in `ingest.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy_extensions import i64

from jetspark.store.disk import Commit
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.publish import Publish
    from jetspark.broker.session import Session


class StreamFeatures:
    """The joints. Methods that refuse raise ApiError."""

    def __init__(self) -> None:
        self.republishes: bool = False

    # -- a message comes in --------------------------------------------------------------------------------------

    def transform(self, publish: Publish) -> None:
        """Give the message the subject it is stored under."""

    def intercept(self, publish: Publish, session: Session | None) -> bool:
        """True when the message is part of a batch and has been dealt with."""
        return False

    def apply_counter(self, publish: Publish) -> None:
        """Turn an increment into the new total; a counter takes nothing else."""

    def settle_lifetime(self, publish: Publish) -> None:
        """A lifetime too short for the stream's delete markers is made longer."""

    def stored(self, publish: Publish, seq: i64, previous_subject_seq: i64) -> None:
        """The message has its sequence: register lifetime and schedule, remember it for republish."""

    def collect(self, commit: Commit) -> None:
        """The stream's messages are in this commit: add what must be written after them."""

    def visible(self, seq: i64) -> None:
        """Everything up to seq is durable: republish."""

    def rolled_back(self, last_seq: i64) -> None:
        """The disk refused what came after this sequence."""

    # -- messages leave ------------------------------------------------------------------------------------------

    def expire(self, view: RecordView) -> bool:
        """A message has reached the stream's age limit: True when it stays or was replaced by a marker."""
        return False

    def removed(self, seq: i64) -> None:
        """A message left for any reason."""

    def purged(self) -> None:
        """Many messages left at once."""

    # -- life ----------------------------------------------------------------------------------------------------

    def recovered(self) -> None:
        """The stream has just been read from disk. Other streams may still be missing."""

    def stop(self) -> None:
        """The stream is deleted or reconfigured: give up timers and subscriptions."""

    def mirror_info(self) -> dict[str, Any] | None:
        """How far the mirror has come, for the stream's info."""
        return None

    def source_infos(self) -> list[dict[str, Any]]:
        """How far each source has come."""
        return []
