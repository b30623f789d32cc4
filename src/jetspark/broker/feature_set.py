"""Which features a stream has, put together from its configuration.

Each feature is a class of its own and knows nothing of the others; here they are called in the order in which
nats-server applies them. A feature that outlives a change of the configuration is carried over with what it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.broker import counters
from jetspark.broker.atomic_batch import AtomicBatches, remove_torn
from jetspark.broker.features import StreamFeatures
from jetspark.broker.lifetimes import Lifetimes
from jetspark.broker.publish import BATCH_ID, Publish
from jetspark.broker.schedules import Schedules
from jetspark.broker.transforms import Republisher, SubjectRewriter
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream


def features_for(stream: Stream) -> StreamFeatures | None:
    """The features of a stream, None when it has none."""
    config = stream.config
    is_needed = (
        config.subject_transform is not None
        or config.republish is not None
        or config.allow_msg_ttl
        or config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
    )
    return FeatureSet(stream) if is_needed else None


def features_after_update(stream: Stream) -> StreamFeatures | None:
    """The features of a stream whose configuration has changed, with what those it had before know."""
    before = stream.features
    after = features_for(stream)
    if isinstance(after, FeatureSet):
        after.take_over(before if isinstance(before, FeatureSet) else None)
    if before is not None:
        before.stop()
    return after


class FeatureSet(StreamFeatures):
    """The features of one stream."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        config = stream.config
        self._stream = stream
        self.rewriter: SubjectRewriter | None = None
        if config.subject_transform is not None:
            transform = config.subject_transform
            self.rewriter = SubjectRewriter(stream.broker, transform.src, transform.dest)
        self.republisher: Republisher | None = None
        if config.republish is not None:
            self.republisher = Republisher(stream, config.republish)
            self.republishes = True
        self.lifetimes: Lifetimes | None = Lifetimes(stream) if config.allow_msg_ttl else None
        self.counts: bool = config.allow_msg_counter
        self.schedules: Schedules | None = Schedules(stream) if config.allow_msg_schedules else None
        self.atomic_batches: AtomicBatches | None = AtomicBatches(stream) if config.allow_atomic else None

    def take_over(self, before: FeatureSet | None) -> None:
        """The configuration changed: keep what the features knew; one that is new looks at what is stored."""
        scans = False
        if self.lifetimes is not None:
            if before is not None and before.lifetimes is not None:
                self.lifetimes.take_over(before.lifetimes)
            else:
                scans = True
        if self.schedules is not None:
            if before is not None and before.schedules is not None:
                self.schedules.take_over(before.schedules)
            else:
                scans = True
        if before is not None:
            if self.republisher is not None and before.republisher is not None:
                self.republisher.take_over(before.republisher)
            if self.atomic_batches is not None and before.atomic_batches is not None:
                self.atomic_batches.take_over(before.atomic_batches)
        if scans:
            self.scan()

    def transform(self, publish: Publish) -> None:
        if self.rewriter is not None:
            publish.subject = self.rewriter.rewrite(publish.subject) or publish.subject

    def intercept(self, publish: Publish, session: Session | None) -> bool:
        if self.atomic_batches is not None and publish.asks.get(BATCH_ID):
            self.atomic_batches.receive(publish)
            return True
        return False

    def apply_counter(self, publish: Publish) -> None:
        if self.counts:
            counters.apply(publish, counters.total_of(self._stream, publish.subject))

    def settle_lifetime(self, publish: Publish) -> None:
        if self.lifetimes is not None:
            self.lifetimes.settle(publish)

    def stored(self, publish: Publish, seq: i64, previous_subject_seq: i64) -> None:
        if self.lifetimes is not None and publish.lifetime_s > 0:
            self.lifetimes.stored(seq, publish.lifetime_s)
        if self.schedules is not None:
            self.schedules.stored(publish, seq)
        if self.republisher is not None:
            self.republisher.stored(publish, seq, previous_subject_seq)

    def visible(self, seq: i64) -> None:
        if self.republisher is not None:
            self.republisher.visible(seq)

    def rolled_back(self, last_seq: i64) -> None:
        if self.republisher is not None:
            self.republisher.rolled_back(last_seq)
        # What was removed is back as well, so lifetimes and schedules are read again.
        self.scan()

    def expire(self, view: RecordView) -> bool:
        return self.lifetimes is not None and self.lifetimes.expire(view)

    def recovered(self) -> None:
        if self.atomic_batches is not None:
            remove_torn(self._stream)
        self.scan()

    def scan(self) -> None:
        """Read lifetimes and schedules from the messages that have headers."""
        if self.lifetimes is not None:
            self.lifetimes.forget()
        if self.schedules is not None:
            self.schedules.forget()
        if self.lifetimes is not None or self.schedules is not None:
            self._stream.store.scan_headers(0, self._recover_message)
        if self.schedules is not None:
            self.schedules.finish_recovery()

    def _recover_message(self, view: RecordView) -> None:
        if self.lifetimes is not None:
            self.lifetimes.recover(view)
        if self.schedules is not None:
            self.schedules.recover(view)

    def stop(self) -> None:
        if self.lifetimes is not None:
            self.lifetimes.stop()
        if self.schedules is not None:
            self.schedules.stop()
        if self.atomic_batches is not None:
            self.atomic_batches.stop()
