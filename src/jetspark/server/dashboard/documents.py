"""What the dashboard's views show, as documents: the server, streams, consumers, connections.

Reads the broker and the sampler's memory; changes nothing. A viewer gets what his account has and what he might have
asked the JetStream API for himself. Not known here: HTTP, and how it looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark import __version__
from jetspark.api.timestamps import format_time
from jetspark.broker.info import consumer_fields, stream_fields, stream_state
from jetspark.broker.options import VERSION
from jetspark.broker.stream import Stream
from jetspark.server.connz import connz
from jetspark.server.dashboard.logins import Viewer
from jetspark.server.dashboard.pinned import pinned_client, waiting_pulls
from jetspark.server.dashboard.sampler import AccountFigures, Sampler
from jetspark.server.dashboard.series import STEP_S, Series
from jetspark.server.histogram import LATENCY_BOUNDS_S, quantile_s
from jetspark.server.query import Query

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.server.server import Server

_ROWS_MAX: Final = 200
_SUMMARY_ROWS_MAX: Final = 20
# Of a stream's subjects, as many as a line has room for.
_SUBJECTS_MAX: Final = 12
_SUBSCRIPTIONS_MAX: Final = 1000
# Ten minutes beside a name.
_SPARK_COUNT: Final = 60
_SERVER_ONLY: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "connections", "stored_bytes")


class Views:
    """The documents of one server."""

    def __init__(self, server: Server, sampler: Sampler) -> None:
        self._server = server
        self._sampler = sampler

    # -- the server --------------------------------------------------------------------------------------------------

    def session(self, viewer: Viewer) -> dict[str, Any]:
        """Who is looking, and what he may do."""
        return {
            "server": self._server.name,
            "version": VERSION,
            "jetspark": __version__,
            "account": viewer.account.name,
            "user": viewer.user,
            "sees_server": viewer.sees_server,
            "allow_changes": self._server.options.dashboard.allow_changes,
            "jetstream": viewer.account.jetstream.enabled and self._server.broker.options.jetstream,
            "max_payload": self._server.broker.options.max_payload,
        }

    def figures(self, viewer: Viewer) -> dict[str, Any]:
        """The numbers at the top of the page, small enough to send with every beat."""
        server, jetstream = self._server, viewer.account.jetstream
        sums = self._sums(viewer)
        document: dict[str, Any] = dict(self._sampler.figures)
        commits = server.commit_figures.commits
        document.update(
            now=format_time(server.clock.now_ns()),
            uptime_s=(server.clock.now_ns() - server.start_ns) // 1_000_000_000,
            streams=sums.streams,
            consumers=sums.consumers,
            messages=sums.messages,
            bytes=sums.bytes,
            storage_used=jetstream.used(False),
            storage_max=_limit(jetstream.max_storage, server.broker.options.max_storage),
            memory_used=jetstream.used(True),
            memory_max=_limit(jetstream.max_memory, server.broker.options.max_memory),
            stored_rate=sums.in_rate,
            commit_p99_ever_ms=1000 * quantile_s(LATENCY_BOUNDS_S, commits.counts, 0.99),
            commit_count=commits.total,
            commit_failures=server.broker.commit_failures,
            disk_error=server.edge.disk_error,
            slow_consumers=server.edge.slow_consumers,
            api_errors=jetstream.api_errors,
            api_total=jetstream.api_total,
        )
        if not viewer.sees_server:
            for name in _SERVER_ONLY:
                del document[name]
            document["connections"] = len(self._sessions(viewer))
        return document

    def overview(self, viewer: Viewer) -> dict[str, Any]:
        """The first view: figures, the last hour, what is busiest and what lags most."""
        sums = self._sums(viewer)
        hidden = () if viewer.sees_server else _SERVER_ONLY
        series = {
            name: ring.until(self._sampler.step)
            for name, ring in self._sampler.server_series.items()
            if name not in hidden
        }
        return {
            "figures": self.figures(viewer),
            "step_s": STEP_S,
            "series": series,
            "commit_buckets": self._commit_buckets(),
            "busiest": [self._stream_row(stream) for stream in sums.busiest if not stream.deleted],
            "lagging": [self._consumer_row(consumer) for consumer in sums.lagging if not consumer.deleted],
        }

    def _sums(self, viewer: Viewer) -> AccountFigures:
        """What the sampler added up; for a viewer who may not see everything, what he may see."""
        known = self._sampler.accounts.get(viewer.account)
        if known is not None and not viewer.is_restricted:
            return known
        sums = AccountFigures()
        for stream in self._streams(viewer):
            sums.add_stream(stream, self._in_rate(stream))
            for consumer in self._consumers(viewer, stream):
                sums.add_consumer(consumer)
        sums.finish()
        return sums

    def _commit_buckets(self) -> list[dict[str, float]]:
        """Every commit since the start by how long it took; the last bucket has no bound."""
        histogram = self._server.commit_figures.commits
        bounds = [*histogram.bounds_s, 0.0]
        return [
            {"below_ms": 1000 * bound, "count": count} for bound, count in zip(bounds, histogram.counts, strict=True)
        ]

    # -- streams -----------------------------------------------------------------------------------------------------

    def _streams(self, viewer: Viewer) -> list[Stream]:
        streams = viewer.account.jetstream.streams.values()
        if not viewer.is_restricted:
            return list(streams)
        return [stream for stream in streams if viewer.may_ask(f"$JS.API.STREAM.INFO.{stream.name}")]

    def stream_of(self, viewer: Viewer, name: str) -> Stream | None:
        stream = viewer.account.jetstream.streams.get(name)
        if stream is None or not viewer.may_ask(f"$JS.API.STREAM.INFO.{name}"):
            return None
        return stream

    def streams(self, viewer: Viewer, text: str, sort: str, offset: int) -> dict[str, Any]:
        """One page of streams whose name or subjects contain a text."""
        wanted = text.lower()
        found = [
            stream
            for stream in self._streams(viewer)
            if wanted in stream.name.lower() or any(wanted in subject.lower() for subject in stream.config.subjects)
        ]
        found.sort(key=lambda stream: stream.name)
        measure = self._measures().get(sort)
        if measure is not None:
            found.sort(key=measure, reverse=True)
        page = found[offset : offset + _ROWS_MAX]
        return {"total": len(found), "offset": offset, "rows": [self._stream_row(stream) for stream in page]}

    def _measures(self) -> dict[str, Callable[[Stream], float]]:
        """What streams can be sorted by, largest first; anything else is by name."""
        return {
            "in_rate": self._in_rate,
            "messages": lambda stream: int(stream.store.message_count),
            "bytes": lambda stream: int(stream.store.byte_count),
            "consumers": lambda stream: len(stream.consumers),
            "lag": _lag,
        }

    def _in_rate(self, stream: Stream) -> float:
        track = self._sampler.streams.get(stream)
        return track.in_rate if track is not None else 0.0

    def _stream_row(self, stream: Stream) -> dict[str, Any]:
        track = self._sampler.streams.get(stream)
        store = stream.store
        series = track.in_series if track is not None else None
        return {
            "name": stream.name,
            "subjects": list(stream.config.subjects[:_SUBJECTS_MAX]),
            "subject_count": len(stream.config.subjects),
            "origins": [source.name for source in [stream.config.mirror, *stream.config.sources] if source is not None],
            "storage": stream.config.storage.value,
            "retention": stream.config.retention.value,
            "messages": int(store.message_count),
            "bytes": int(store.byte_count),
            "first_seq": int(store.first_seq),
            "last_seq": int(store.last_seq),
            "last_time": format_time(store.last_ts_ns) if store.last_ts_ns else "",
            "consumers": len(stream.consumers),
            "lag": _lag(stream),
            "in_rate": track.in_rate if track is not None else 0.0,
            "spark": _spark(series, self._sampler.step),
        }

    def stream(self, viewer: Viewer, stream: Stream) -> dict[str, Any]:
        """One stream: configuration, state, its last hour and its consumers."""
        self._server.edge.enter()
        track = self._sampler.streams.get(stream)
        fields = stream_fields(stream, stream_state(stream))
        return {
            "row": self._stream_row(stream),
            "created": fields["created"],
            "config": stream.config.encode(),
            "state": fields["state"],
            "mirror": fields.get("mirror"),
            "sources": fields.get("sources"),
            "step_s": STEP_S,
            "series": {
                "in": _hour(track.in_series if track is not None else None, self._sampler.step),
                "stored": _hour(track.stored_series if track is not None else None, self._sampler.step),
            },
            # Those with the most to do; all of them have a view of their own.
            "consumers": self.consumers(viewer, stream, "", "lag", 0, _SUMMARY_ROWS_MAX)["rows"],
            "may_read": viewer.may_ask(f"$JS.API.STREAM.MSG.GET.{stream.name}"),
        }

    # -- consumers ---------------------------------------------------------------------------------------------------

    def _consumers(self, viewer: Viewer, stream: Stream) -> list[Consumer]:
        consumers = stream.consumers.values()
        if not viewer.is_restricted:
            return list(consumers)
        return [item for item in consumers if viewer.may_ask(f"$JS.API.CONSUMER.INFO.{stream.name}.{item.name}")]

    def consumers(
        self, viewer: Viewer, stream: Stream, text: str, sort: str, offset: int, count: int = _ROWS_MAX
    ) -> dict[str, Any]:
        """One page of a stream's consumers whose name or filters contain a text."""
        wanted = text.lower()
        found = [
            consumer
            for consumer in self._consumers(viewer, stream)
            if wanted in consumer.name.lower() or any(wanted in subject.lower() for subject in consumer.config.filters)
        ]
        found.sort(key=lambda consumer: consumer.name)
        measure = self._consumer_measures().get(sort)
        if measure is not None:
            found.sort(key=measure, reverse=True)
        page = found[offset : offset + count]
        return {"total": len(found), "offset": offset, "rows": [self._consumer_row(consumer) for consumer in page]}

    def _consumer_measures(self) -> dict[str, Callable[[Consumer], float]]:
        """What consumers can be sorted by, largest first; anything else is by name."""
        tracks = self._sampler.consumers
        return {
            "lag": lambda consumer: int(consumer.num_pending()),
            "out_rate": lambda consumer: tracks[consumer].out_rate if consumer in tracks else 0.0,
            "ack_pending": lambda consumer: len(consumer.state.pending),
            "redelivered": lambda consumer: len(consumer.state.redelivered),
            "waiting": lambda consumer: len(consumer.pulls.waiting),
        }

    def consumer_of(self, viewer: Viewer, stream: Stream, name: str) -> Consumer | None:
        found = stream.consumers.get(name)
        if found is None or not viewer.may_ask(f"$JS.API.CONSUMER.INFO.{stream.name}.{name}"):
            return None
        return found

    def _consumer_row(self, consumer: Consumer) -> dict[str, Any]:
        track = self._sampler.consumers.get(consumer)
        figures = self._sampler.observations.by_consumer.get(consumer)
        state = consumer.state
        times = figures.ack_times if figures is not None and figures.ack_times.sum_ns else None
        return {
            "stream": consumer.stream.name,
            "name": consumer.name,
            "kind": "push" if consumer.is_push else "pull",
            "filters": list(consumer.config.filters),
            "pending": int(consumer.num_pending()),
            "ack_pending": len(state.pending),
            "ack_pending_max": int(consumer.ack_pending_max),
            # With a single delivery nothing is ever delivered again, whatever is remembered about it.
            "redelivered": 0 if consumer.deliveries_max == 1 else len(state.redelivered),
            "waiting": len(consumer.pulls.waiting),
            "delivered_seq": int(state.delivered_stream_seq),
            "ack_floor_seq": int(state.floor_stream_seq),
            "out_rate": track.out_rate if track is not None else 0.0,
            "paused": bool(consumer.lifecycle.is_paused),
            "sampled_percent": int(consumer.sample_percent),
            "ack_ms": track.ack_ms if track is not None else None,
            "ack_p50_ms": _quantile_ms(times.counts, 0.5) if times is not None else None,
            "ack_p99_ms": _quantile_ms(times.counts, 0.99) if times is not None else None,
            "refused": figures.refused_count if figures is not None else 0,
            "terminated": figures.terminated_count if figures is not None else 0,
            "exhausted": figures.exhausted_count if figures is not None else 0,
            "groups": list(consumer.pinning.groups),
            "policy": consumer.config.priority_policy.value,
            "pinned": pinned_client(consumer, track),
            "spark": _spark(track.lag_series if track is not None else None, self._sampler.step),
        }

    def consumer(self, consumer: Consumer) -> dict[str, Any]:
        """One consumer: where it stands, who waits, its last hour."""
        self._server.edge.enter()
        fields = consumer_fields(consumer)
        track = self._sampler.consumers.get(consumer)
        step = self._sampler.step
        return {
            "row": self._consumer_row(consumer),
            "created": fields["created"],
            "config": fields["config"],
            "delivered": fields["delivered"],
            "ack_floor": fields["ack_floor"],
            "last_seq": int(consumer.stream.store.last_seq),
            "push_bound": bool(consumer.is_push and consumer.push.is_bound),
            "waiting": waiting_pulls(consumer),
            "step_s": STEP_S,
            "series": {
                "out": _hour(track.out_series if track is not None else None, step),
                "lag": _hour(track.lag_series if track is not None else None, step),
                "ack_ms": _hour(track.ack_series if track is not None else None, step),
            },
        }

    # -- connections -------------------------------------------------------------------------------------------------

    def _sessions(self, viewer: Viewer) -> list[int]:
        return [
            connection.session.session_id
            for connection in self._server.edge.connections.values()
            if connection.session.account is viewer.account
        ]

    def connections(self, viewer: Viewer, sort: str, state: str) -> dict[str, Any]:
        """The connections of the viewer's account; of his own name only, if he is restricted."""
        query = {**self._own_query(viewer), "limit": str(_ROWS_MAX), "sort": sort, "state": state}
        if viewer.is_restricted:
            query["user"] = viewer.user
        document = connz(self._server, Query(query))
        return {"total": document["total"], "rows": document["connections"] or [], "own": viewer.client.session_id}

    def connection(self, viewer: Viewer, cid: str) -> dict[str, Any] | None:
        """One connection with its subscriptions, which may be many; None when it is not there for this viewer."""
        query = {**self._own_query(viewer), "cid": cid, "subs": "1", "state": "any"}
        rows: list[dict[str, Any]] = connz(self._server, Query(query))["connections"] or []
        if not rows or (viewer.is_restricted and rows[0].get("authorized_user") != viewer.user):
            return None
        subjects = rows[0].pop("subscriptions_list", None) or []
        return {**rows[0], "subjects": subjects[:_SUBSCRIPTIONS_MAX], "subject_count": len(subjects)}

    def _own_query(self, viewer: Viewer) -> dict[str, str]:
        return {"auth": "1"} if viewer.is_operator else {"auth": "1", "acc": viewer.account.name}


def _limit(of_account: int, of_server: int) -> int:
    return of_account if of_account >= 0 else of_server


def _hour(series: Series | None, step: int) -> list[float | None]:
    return series.until(step) if series is not None else []


def _spark(series: Series | None, step: int) -> list[float | None]:
    return series.until(step, _SPARK_COUNT) if series is not None else []


def _lag(stream: Stream) -> int:
    return max((int(consumer.num_pending()) for consumer in stream.consumers.values()), default=0)


def _quantile_ms(counts: list[int], share: float) -> float:
    return 1000 * quantile_s(LATENCY_BOUNDS_S, counts, share)
