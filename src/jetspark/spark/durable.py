"""Progress of a query mirrored to a durable consumer, after Spark has committed it.

The durable reads nothing for the query. It is there for others: `consumer info` shows where the query is, lag alerts
work, an interest stream keeps what the query has not had, and a work queue forgets what it has. Spark tells of a
commit when it prepares the next batch, so the durable is one batch behind; after a crash it is moved on by the next
commit.

Where the stream keeps everything anyway and the server is young enough, the durable is simply put there (a reset).
Otherwise it really consumes: messages without their payload, acked up to the committed sequence and not beyond.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from jetspark.api.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.api.stream_config import Retention
from jetspark.client.api_errors import ConsumerNotFoundError
from jetspark.client.errors import BadOptionError
from jetspark.client.names import server_is_older
from jetspark.errors import JetsparkError
from jetspark.spark.connections import ask

if TYPE_CHECKING:
    from jetspark.client.sync import Consumer, JetStream
    from jetspark.spark.facts import Facts
    from jetspark.spark.offsets import Offset
    from jetspark.spark.options import Options

log = logging.getLogger("jetspark.spark")

FETCH_ROWS = 10_000
FETCH_WAIT_S = 2.0
_COLUMNS = ("sequence", "reply")


class DurableMirror:
    """The durable consumers of one query, one on each stream."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._name: str = options["durable"]
        self._retention: dict[str, Retention] = {}

    def ensure(self, begins: Mapping[str, int], facts: Mapping[str, Facts]) -> None:
        """Make the durables that are not there yet, standing where the query begins."""
        for stream, begin in begins.items():
            if stream not in self._retention:
                retention = facts[stream].retention
                ask(self._options, partial(self._ensure_one, stream=stream, begin=begin, retention=retention))
                self._retention[stream] = retention

    def _ensure_one(self, jetstream: JetStream, stream: str, begin: int, retention: Retention) -> None:
        handle = jetstream.stream_handle(stream)
        try:
            config = handle.consumer(self._name).cached_info.config
        except ConsumerNotFoundError:
            handle.create_consumer(self._config(begin, retention))
            return
        if config.ack_policy != AckPolicy.EXPLICIT or config.deliver_subject:
            raise BadOptionError(
                f"option durable: consumer {self._name} of stream {stream} is there already, and is not a pull consumer"
                " with explicit acks; choose another name or remove it"
            )
        filters = tuple(config.filter_subjects) or ((config.filter_subject,) if config.filter_subject else ())
        if sorted(filters) != sorted(self._options["subjects"]):
            # What the query reads and the durable does not see would never be acked.
            raise BadOptionError(
                f"option durable: consumer {self._name} of stream {stream} is there already, for other subjects"
                f" ({', '.join(filters) or 'all'}) than option subjects; choose another name or remove it"
            )

    def _config(self, begin: int, retention: Retention) -> ConsumerConfig:
        settings: dict[str, Any] = {"deliver_policy": DeliverPolicy.ALL}
        if retention != Retention.WORKQUEUE and begin > 0:
            settings = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": begin + 1}
        subjects = self._options["subjects"]
        if len(subjects) == 1:
            settings["filter_subject"] = subjects[0]
        elif subjects:
            settings["filter_subjects"] = tuple(subjects)
        return ConsumerConfig(
            durable_name=self._name,
            name=self._name,
            description="progress of a Spark query",
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=-1,
            headers_only=True,
            **settings,
        )

    def move(self, committed: Offset) -> None:
        """Spark has committed: stand there. A failure is told and made good by the next commit."""
        for stream, position in committed.positions.items():
            try:
                ask(self._options, partial(self._move_one, stream=stream, sequence=position.seq))
            except JetsparkError as error:
                log.warning("durable %s of stream %s stays behind until the next commit: %s", self._name, stream, error)

    def _move_one(self, jetstream: JetStream, stream: str, sequence: int) -> None:
        retention = self._retention.get(stream)
        if retention is None:
            retention = jetstream.stream_info(stream).config.retention
        try:
            consumer = jetstream.consumer(stream, self._name)
        except ConsumerNotFoundError:
            # Made again by whoever wants it; a commit is no time to begin.
            self._retention.pop(stream, None)
            return
        if consumer.cached_info.ack_floor.stream_seq >= sequence:
            return
        is_young = not server_is_older(jetstream.connection.server_version, 2, 14)
        if retention == Retention.LIMITS and is_young:
            consumer.reset(sequence + 1)
        else:
            self._consume(consumer, sequence)

    def _consume(self, consumer: Consumer, sequence: int) -> None:
        """Ack everything up to a sequence, and give back what came beyond it."""
        seen = consumer.cached_info.ack_floor.stream_seq
        while seen < sequence:
            # No more messages than sequences can be waiting, so without gaps nothing is taken from beyond.
            rows = min(FETCH_ROWS, sequence - seen)
            batch = consumer.fetch_arrow(rows, expires=FETCH_WAIT_S, no_wait=True, columns=_COLUMNS)
            if not batch.num_rows:
                break
            is_done = pc.less_equal(batch.column("sequence"), sequence)
            consumer.ack_arrow(batch.filter(is_done))
            beyond = batch.filter(pc.invert(is_done))
            for reply in beyond.column("reply").to_pylist():
                consumer.stream.jetstream.connection.publish(reply, b"-NAK")
            seen = max(seen, pc.max(batch.column("sequence")).as_py())
        consumer.stream.jetstream.connection.flush()
