"""/metrics for Prometheus, under the names that dashboards for NATS already use.

Decided here: which figures there are, and that gathering them and writing them are cut into slices between which the
loop does its work. Not on another thread: it would want the interpreter too, and each time the loop wakes up it would
wait five milliseconds for its turn. Names and labels are those of prometheus-nats-exporter (`gnatsd_*`, `jetstream_*`)
and nats-surveyor (`nats_core_*`, `nats_jetstream_*`); `jetspark_*` are our own. docs/metrics.md lists them all.
Not known here: HTTP.
"""

from __future__ import annotations

import asyncio
import collections
import importlib
import itertools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from jetspark.api.timestamps import format_time
from jetspark.server.healthz import healthz
from jetspark.server.jsz import jsz
from jetspark.server.observations import Observations
from jetspark.server.query import Query
from jetspark.server.varz import varz

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.stream import Stream
    from jetspark.server.server import Server

# Streams and consumers between two turns of the loop: half a millisecond.
_SLICE_COUNT: Final = 100
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# What the exporter shows for an account without a limit.
_NO_LIMIT: Final = (1 << 64) - 1

_CONNZ: Final = ("pending_bytes", "subscriptions", "in_bytes", "out_bytes", "in_msgs", "out_msgs")

# What is handed to the socket at once.
_CHUNK_BYTES: Final = 65536

# Values of labels with numbers, and the text of labels with numbers. None stands for what has not happened yet.
Row = tuple[list[str], list[float | None]]
WrittenRow = tuple[str, list[float | None]]


class Gathered:
    """Numbers read at one time, on their way to be written."""

    def __init__(self) -> None:
        self.varz: dict[str, Any] = {}
        self.jsz: dict[str, Any] = {}
        self.is_healthy = True
        self.connz: dict[str, float] = {}
        # Per account: its name, whether it has JetStream, and its figures.
        self.accounts: list[dict[str, Any]] = []
        # "mirror" or "source", with its row.
        self.origins: list[tuple[str, Row]] = []
        self.streams: list[WrittenRow] = []
        self.consumers: list[WrittenRow] = []
        self.consumer_counts: list[tuple[str, float]] = []
        self.commits: tuple[list[tuple[str, float]], float] = ([], 0.0)
        self.syncs: tuple[list[tuple[str, float]], float] = ([], 0.0)
        self.written_bytes = 0
        self.commit_failures = 0
        # Per consumer: labels, the buckets of its acknowledgements, their sum, and four counts.
        self.acks: list[tuple[list[str], list[tuple[str, float]], float, list[float]]] = []


class Metrics:
    """The metrics of one server."""

    def __init__(self, server: Server, observations: Observations) -> None:
        self._server = server
        self._observations = observations

    async def chunks(self, request_counts: dict[str, int]) -> AsyncIterator[bytes]:
        """The text. Its numbers are read before the first chunk comes."""
        # Imported when somebody asks, since most servers are never scraped; and elsewhere, since it takes a while.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, importlib.import_module, "jetspark.server.metrics_families")
        from jetspark.server.metrics_families import families, tables
        from jetspark.server.metrics_text import library_pieces

        gathered = await self._gather(request_counts)
        waiting: list[bytes] = []
        waiting_bytes = 0
        for piece in itertools.chain(library_pieces(families(gathered)), tables(gathered)):
            waiting.append(piece)
            waiting_bytes += len(piece)
            if waiting_bytes >= _CHUNK_BYTES:
                yield b"".join(waiting)
                waiting.clear()
                waiting_bytes = 0
            await asyncio.sleep(0)
        yield b"".join(waiting)

    async def _gather(self, request_counts: dict[str, int]) -> Gathered:
        server, gathered = self._server, Gathered()
        gathered.varz = varz(server, request_counts)
        await asyncio.sleep(0)
        gathered.jsz = jsz(server, Query({}))
        await asyncio.sleep(0)
        gathered.is_healthy = healthz(server, Query({}))[0] == 200
        gathered.connz = self._connz()
        figures = server.commit_figures
        gathered.commits = figures.commits.cumulative(), figures.commits.sum_ns / 1e9
        gathered.syncs = figures.syncs.cumulative(), figures.syncs.sum_ns / 1e9
        gathered.written_bytes = figures.written_bytes
        gathered.commit_failures = server.broker.commit_failures
        traffic = self._traffic()
        for account in list(server.broker.accounts.values()):
            gathered.accounts.append(_account_figures(account, traffic[account.name]))
            await self._gather_streams(account, gathered)
        self._observations.forget_deleted()
        gathered.acks = [
            (
                [consumer.account.name, consumer.stream.name, consumer.name],
                seen.ack_times.cumulative(),
                seen.ack_times.sum_ns / 1e9,
                [seen.deliveries, seen.exhausted_count, seen.terminated_count, seen.refused_count],
            )
            for consumer, seen in self._observations.by_consumer.items()
        ]
        return gathered

    async def _gather_streams(self, account: Account, gathered: Gathered) -> None:
        from jetspark.server.metrics_families import CONSUMER_COUNT_LABELS, CONSUMER_LABELS, STREAM_LABELS
        from jetspark.server.metrics_text import label_writer

        write_stream, write_consumer = label_writer(STREAM_LABELS), label_writer(CONSUMER_LABELS)
        write_count = label_writer(CONSUMER_COUNT_LABELS)
        server, left = self._server, _SLICE_COUNT
        of_server = [server.server_id, server.name, "", server.options.jetstream.domain, "", "true"]
        for stream in list(account.jetstream.streams.values()):
            of_stream = [*of_server, *[account.name] * 3, stream.name, server.name, "true"]
            gathered.streams.append((write_stream(of_stream), _stream_numbers(stream)))
            gathered.origins += _origin_rows(of_stream, stream)
            counted = write_count([account.name, account.name, stream.name, ""])
            gathered.consumer_counts.append((counted, len(stream.consumers)))
            for consumer in list(stream.consumers.values()):
                labels, numbers = _consumer_row(of_stream, consumer, server.name)
                gathered.consumers.append((write_consumer(labels), numbers))
                left -= 1
                if left <= 0:
                    left = _SLICE_COUNT
                    await asyncio.sleep(0)
            left -= 1
            if left <= 0:
                left = _SLICE_COUNT
                await asyncio.sleep(0)

    def _connz(self) -> dict[str, float]:
        sums = dict.fromkeys(_CONNZ, 0.0)
        connections = self._server.edge.connections.values()
        for connection in connections:
            session = connection.session
            sums["pending_bytes"] += int(session.buffered_bytes)
            sums["subscriptions"] += len(session.subscriptions)
            sums["in_bytes"] += int(session.in_bytes)
            sums["out_bytes"] += int(session.out_bytes)
            sums["in_msgs"] += int(session.in_msgs)
            sums["out_msgs"] += int(session.out_msgs)
        sums["num_connections"] = sums["total"] = len(connections)
        return sums

    def _traffic(self) -> dict[str, collections.Counter[str]]:
        """Sums over the open connections of each account."""
        found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for connection in self._server.edge.connections.values():
            session = connection.session
            sums = found[session.account.name]
            sums["conns"] += 1
            sums["in_msgs"] += int(session.in_msgs)
            sums["in_bytes"] += int(session.in_bytes)
            sums["out_msgs"] += int(session.out_msgs)
            sums["out_bytes"] += int(session.out_bytes)
        return found


def _account_figures(account: Account, traffic: collections.Counter[str]) -> dict[str, Any]:
    jetstream = account.jetstream
    return {
        "name": account.name,
        "enabled": int(jetstream.enabled),
        "memory": jetstream.used(True),
        "storage": jetstream.used(False),
        "reserved_memory": jetstream.reserved(True),
        "reserved_storage": jetstream.reserved(False),
        "max_memory": _NO_LIMIT if jetstream.max_memory < 0 else jetstream.max_memory,
        "max_storage": _NO_LIMIT if jetstream.max_storage < 0 else jetstream.max_storage,
        "streams": len(jetstream.streams),
        "subscriptions": int(account.interest.subscription_count),
        **{key: traffic[key] for key in ("conns", "in_msgs", "in_bytes", "out_msgs", "out_bytes")},
    }


def _origin_rows(of_stream: list[str], stream: Stream) -> list[tuple[str, Row]]:
    features = stream.features
    if features is None:
        return []
    mirror = features.mirror_info()
    found = [("mirror", mirror)] if mirror is not None else []
    found += [("source", source) for source in features.source_infos()]
    rows: list[tuple[str, Row]] = []
    for kind, info in found:
        outside = info.get("external") or {}
        labels = [*of_stream, info["name"], outside.get("api", ""), outside.get("deliver", "")]
        rows.append((kind, (labels, [info["lag"], info["active"]])))
    return rows


def _seconds_since(now_ns: int, then_ns: int) -> float | None:
    return (now_ns - then_ns) / 1e9 if then_ns else None


def _stream_numbers(stream: Stream) -> list[float | None]:
    store, config = stream.store, stream.config
    return [
        int(store.message_count),
        int(store.byte_count),
        int(store.first_seq),
        int(store.last_seq),
        len(stream.consumers),
        len(store.subjects),
        config.max_bytes,
        config.max_msgs,
    ]


def _consumer_row(of_stream: list[str], consumer: Consumer, leader: str) -> Row:
    state = consumer.state
    created = format_time(consumer.created_ns).partition(".")[0] + "Z"
    labels = [*of_stream, consumer.name, leader, "true", consumer.config.description, created]
    now_ns = int(consumer.broker.now_ns)
    numbers: list[float | None] = [
        int(state.delivered_consumer_seq),
        int(state.delivered_stream_seq),
        len(state.pending),
        # With a single delivery nothing is ever delivered again, whatever is remembered about it.
        0 if consumer.deliveries_max == 1 else len(state.redelivered),
        len(consumer.pulls.waiting),
        int(consumer.num_pending()),
        int(state.floor_stream_seq),
        int(state.floor_consumer_seq),
        _seconds_since(now_ns, int(state.last_delivered_ts_ns)),
        _seconds_since(now_ns, int(state.last_ack_ts_ns)),
    ]
    return labels, numbers
