"""Which features a stream has, put together from its configuration.

Each feature is a class of its own and knows nothing of the others; here they are called in the order in which
nats-server applies them. A feature that outlives a change of the configuration is carried over with what it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy_extensions import i64

from jetspark.broker import counters
from jetspark.broker.atomic_batch import AtomicBatches, remove_torn
from jetspark.broker.fast_batch import FastBatches
from jetspark.broker.features import StreamFeatures
from jetspark.broker.feed import Feed
from jetspark.broker.lifetimes import Lifetimes
from jetspark.broker.mirroring import MirrorFeed, SourceFeed
from jetspark.broker.publish import BATCH_ID, FAST_BATCH_SUFFIX, Publish
from jetspark.broker.schedules import Schedules
from jetspark.broker.source_positions import SourcePositions
from jetspark.broker.transforms import Republisher, SubjectRewriter
from jetspark.store.disk import Commit
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
        or config.allow_batched
        or config.allow_msg_schedules
        or config.mirror is not None
        or bool(config.sources)
    )
    if not is_needed:
        return None
    features = FeatureSet(stream)
    features.start()
    return features


def features_after_update(stream: Stream) -> StreamFeatures | None:
    """The features of a stream whose configuration has changed, with what those it had before know."""
    before = stream.features
    after = features_for(stream)
    if isinstance(after, FeatureSet):
        after.take_over(before if isinstance(before, FeatureSet) else None)
    # Last, so that nobody is ever without a follower in between.
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
        # Without a destination there is nothing to do, though the configuration says so.
        if config.republish is not None and config.republish.dest:
            self.republisher = Republisher(stream, config.republish)
            self.republishes = True
        has_origin = config.mirror is not None or bool(config.sources)
        # Copies may carry lifetimes into a stream that does not take them from clients: `never` counts even there.
        self.lifetimes: Lifetimes | None = Lifetimes(stream) if config.allow_msg_ttl or has_origin else None
        self.counts: bool = config.allow_msg_counter
        self.schedules: Schedules | None = Schedules(stream) if config.allow_msg_schedules else None
        self.atomic_batches: AtomicBatches | None = AtomicBatches(stream) if config.allow_atomic else None
        self.fast_batches: FastBatches | None = FastBatches(stream) if config.allow_batched else None

        self.mirror: MirrorFeed | None = None
        if config.mirror is not None:
            self.mirror = MirrorFeed(stream, config.mirror)
        self.positions: SourcePositions | None = None
        self.sources: list[SourceFeed] = []
        if config.sources:
            self.positions = SourcePositions(stream)
            self.sources = [SourceFeed(stream, source, self.positions) for source in config.sources]

    def start(self) -> None:
        """Begin to copy from origins. Nothing is copied before the next turn."""
        for feed in self._feeds():
            feed.start()

    def _feeds(self) -> list[Feed]:
        feeds: list[Feed] = list(self.sources)
        if self.mirror is not None:
            feeds.append(self.mirror)
        return feeds

    def take_over(self, before: FeatureSet | None) -> None:
        """The configuration changed: keep what the features knew; one that is new looks at what is stored."""
        if not self._take_over_times(before):
            self.scan()
        if self.positions is not None:
            if before is not None and before.positions is not None:
                self.positions.take_over(before.positions)
            else:
                self.positions.recover()
        if before is None:
            return
        if self.republisher is not None and before.republisher is not None:
            self.republisher.take_over(before.republisher)
        if self.atomic_batches is not None and before.atomic_batches is not None:
            self.atomic_batches.take_over(before.atomic_batches)
        if self.fast_batches is not None and before.fast_batches is not None:
            self.fast_batches.take_over(before.fast_batches)

    def _take_over_times(self, before: FeatureSet | None) -> bool:
        """Lifetimes and schedules; False when they have to be read from the messages."""
        if self.lifetimes is not None:
            if before is None or before.lifetimes is None:
                return False
            self.lifetimes.take_over(before.lifetimes)
        if self.schedules is not None:
            if before is None or before.schedules is None:
                return False
            self.schedules.take_over(before.schedules)
        return True

    def transform(self, publish: Publish) -> None:
        if self.rewriter is not None:
            publish.subject = self.rewriter.rewrite(publish.subject) or publish.subject

    def intercept(self, publish: Publish, session: Session | None) -> bool:
        if publish.reply.endswith(FAST_BATCH_SUFFIX):
            if self.fast_batches is not None:
                self.fast_batches.receive(publish)
                return True
        elif self.atomic_batches is not None and publish.asks.get(BATCH_ID):
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

    def collect(self, commit: Commit) -> None:
        if self.lifetimes is not None:
            self.lifetimes.collected()
        if self.schedules is not None:
            self.schedules.collected()
        if self.positions is not None:
            self.positions.collect(commit)

    def visible(self, seq: i64) -> None:
        if self.lifetimes is not None:
            self.lifetimes.settled()
        if self.schedules is not None:
            self.schedules.settled()
        if self.republisher is not None:
            self.republisher.visible(seq)
        if self.positions is not None:
            self.positions.visible(seq)
        for feed in self._feeds():
            feed.visible(seq)

    def rolled_back(self, last_seq: i64) -> None:
        if self.republisher is not None:
            self.republisher.rolled_back(last_seq)
        if self.fast_batches is not None:
            self.fast_batches.end_all()
        if self.lifetimes is not None:
            self.lifetimes.rolled_back(last_seq)
        if self.schedules is not None:
            self.schedules.rolled_back()
        if self.positions is not None:
            self.positions.rolled_back()
        for feed in self._feeds():
            feed.rolled_back()

    def expire(self, view: RecordView) -> bool:
        return self.lifetimes is not None and self.lifetimes.expire(view)

    def removed(self, seq: i64) -> None:
        if self.positions is not None:
            self.positions.removed(seq)

    def purged(self) -> None:
        if self.positions is not None:
            self.positions.purged()

    def recovered(self) -> None:
        if self.atomic_batches is not None:
            remove_torn(self._stream)
        if self.positions is not None:
            self.positions.recover()
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
        if self.fast_batches is not None:
            self.fast_batches.stop()
        for feed in self._feeds():
            feed.stop()

    def mirror_info(self) -> dict[str, Any] | None:
        return self.mirror.info() if self.mirror is not None else None

    def source_infos(self) -> list[dict[str, Any]]:
        return [source.info() for source in self.sources]
