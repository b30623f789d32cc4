"""The metric families of /metrics, made from gathered numbers.

Decided here: the names, the words that explain them, and their labels. Streams and consumers may be thousands, each
with the same long labels on ten lines: theirs is the one text not written by the library. Counters under other
projects' names are written untyped, because the library adds `_total` to a counter's name and theirs have none.
What nats-surveyor shows of the server and its accounts is in `metrics_surveyor`. Touches nothing but what it was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

from jetspark import __version__
from jetspark.api.timestamps import parse_time
from jetspark.server.metrics_surveyor import gauge, surveyor
from jetspark.server.metrics_text import head, label_writer, line_pieces, table_pieces

if TYPE_CHECKING:
    from jetspark.server.metrics import Gathered

SERVER_LABELS: Final = ("server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader")
ACCOUNT_LABELS: Final = (*SERVER_LABELS, "account", "account_name", "account_id")
STREAM_LABELS: Final = (*ACCOUNT_LABELS, "stream_name", "stream_leader", "is_stream_leader")
CONSUMER_LABELS: Final = (
    *STREAM_LABELS,
    "consumer_name",
    "consumer_leader",
    "is_consumer_leader",
    "consumer_desc",
    "consumer_created",
)
_ACK_LABELS: Final = ("account", "stream", "consumer")
CONSUMER_COUNT_LABELS: Final = ("account", "account_name", "stream", "raft_group")
_CONSUMER_COUNT: Final = "nats_core_account_jetstream_consumer_count"
_ACCOUNT_FIGURES: Final = (
    ("jetstream_account_max_memory", "The most memory an account's streams may have"),
    ("jetstream_account_max_storage", "The most disk an account's streams may have"),
    ("jetstream_account_memory_used", "Memory that an account's streams have"),
    ("jetstream_account_storage_used", "Disk that an account's streams have"),
)
_ORIGIN_FIGURES: Final = (
    ("lag", "Messages that the origin has and the stream does not have yet"),
    ("active_duration_ns", "Nanoseconds since something was heard of the origin, -1 before"),
)

# In the order in which `metrics` gathers the numbers.
STREAM_FIGURES: Final = (
    ("jetstream_stream_total_messages", "Messages in a stream"),
    ("jetstream_stream_total_bytes", "Bytes in a stream"),
    ("jetstream_stream_first_seq", "First sequence of a stream"),
    ("jetstream_stream_last_seq", "Last sequence of a stream"),
    ("jetstream_stream_consumer_count", "Consumers of a stream"),
    ("jetstream_stream_subject_count", "Subjects in a stream"),
    ("jetstream_stream_limit_bytes", "The most bytes a stream may have, -1 without a limit"),
    ("jetstream_stream_limit_messages", "The most messages a stream may have, -1 without a limit"),
)
CONSUMER_FIGURES: Final = (
    ("jetstream_consumer_delivered_consumer_seq", "Deliveries of a consumer"),
    ("jetstream_consumer_delivered_stream_seq", "Last sequence a consumer delivered"),
    ("jetstream_consumer_num_ack_pending", "Messages delivered and not acknowledged"),
    ("jetstream_consumer_num_redelivered", "Messages delivered more than once and not acknowledged"),
    ("jetstream_consumer_num_waiting", "Pull requests that wait"),
    ("jetstream_consumer_num_pending", "Messages not delivered yet"),
    ("jetstream_consumer_ack_floor_stream_seq", "Every message up to this sequence is acknowledged"),
    ("jetstream_consumer_ack_floor_consumer_seq", "Every delivery up to this one is acknowledged"),
    ("jetstream_consumer_last_delivery_seconds", "Seconds since the last delivery"),
    ("jetstream_consumer_last_ack_seconds", "Seconds since the last acknowledgement"),
)
_ACK_COUNTS: Final = (
    ("nats_jetstream_acknowledgement_deliveries", "Deliveries that sampled acknowledgements took"),
    ("nats_jetstream_delivery_exceeded_count", "Messages delivered as often as their consumer allows"),
    ("nats_jetstream_delivery_terminated_count", "Messages a client terminated"),
    ("nats_jetstream_consumer_nak", "Messages a client sent back"),
)
# Of /varz the exporter shows these words as labels, these times as milliseconds, and every number.
_WORDS: Final = ("server_id", "server_name", "version", "domain", "leader", "name")
_TIMES: Final = ("start", "config_load_time")


def families(gathered: Gathered) -> Iterator[Metric]:
    """Everything, in the order it is written."""
    server_id, name = gathered.varz["server_id"], gathered.varz["server_name"]
    domain = gathered.jsz["config"].get("domain", "")
    server = [server_id, name, "", domain, "", "true"]
    yield from _varz(gathered.varz, server_id)
    yield gauge(
        "gnatsd_healthz_status", "0 when healthy", ("server_id",), [([server_id], 0 if gathered.is_healthy else 1)]
    )
    status = "ok" if gathered.is_healthy else "unavailable"
    yield gauge(
        "gnatsd_healthz_status_value",
        "1 when healthy; the word is a label",
        ("server_id", "value"),
        [([server_id, status], 1 if gathered.is_healthy else 0)],
    )
    for key, value in gathered.connz.items():
        yield gauge(f"gnatsd_connz_{key}", f"{key} of the open connections", ("server_id",), [([server_id], value)])
    yield from _jetstream_server(gathered.jsz, server)
    yield from _jetstream_accounts(gathered, server)
    yield from surveyor(gathered)
    yield from _own(gathered, server_id, name)


def _varz(document: dict[str, Any], server_id: str, path: str = "") -> Iterator[Metric]:
    """Every number, of the documents inside it too, named by the way to it."""
    for key, value in document.items():
        place = f"{path}_{key}".replace("/", "_")
        name = re.sub("_+", "_", f"gnatsd_varz_{place}").rstrip("_")
        if isinstance(value, dict):
            yield from _varz(value, server_id, place)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield gauge(name, key, ("server_id",), [([server_id], value)])
        elif key in _TIMES:
            yield gauge(name, key, ("server_id",), [([server_id], parse_time(value).unix_ns // 1_000_000)])
        elif key in _WORDS:
            yield gauge(name, key, ("server_id", "value"), [([server_id, value], 1)])


def _jetstream_server(jsz: dict[str, Any], labels: list[str]) -> Iterator[Metric]:
    figures = {
        "jetstream_disabled": ("1 when JetStream is off", 1 if jsz.get("disabled") else 0),
        "total_streams": ("Streams", jsz["streams"]),
        "total_consumers": ("Consumers", jsz["consumers"]),
        "total_messages": ("Messages stored", jsz["messages"]),
        "total_message_bytes": ("Bytes stored", jsz["bytes"]),
        "max_memory": ("The most memory streams may have", jsz["config"]["max_memory"]),
        "max_storage": ("The most disk streams may have", jsz["config"]["max_storage"]),
    }
    for name, (words, value) in figures.items():
        yield gauge(f"jetstream_server_{name}", words, SERVER_LABELS, [(labels, value)])


def _jetstream_accounts(gathered: Gathered, server: list[str]) -> Iterator[Metric]:
    accounts = [account for account in gathered.accounts if account["enabled"]]
    keys = ("max_memory", "max_storage", "memory", "storage")
    for (name, words), key in zip(_ACCOUNT_FIGURES, keys, strict=True):
        rows = [([*server, *[account["name"]] * 3], account[key]) for account in accounts]
        yield gauge(name, words, ACCOUNT_LABELS, rows)


def _own(gathered: Gathered, server_id: str, name: str) -> Iterator[Metric]:
    labels, values = ("server_id", "server_name"), [server_id, name]
    for metric, words, (buckets, sum_s) in (
        (
            "jetspark_commit_duration_seconds",
            "A commit, from its first write to the end of its last sync",
            gathered.commits,
        ),
        ("jetspark_sync_duration_seconds", "One sync of a file", gathered.syncs),
    ):
        family = HistogramMetricFamily(metric, words, labels=labels)
        family.add_metric(values, buckets=buckets, sum_value=sum_s)
        yield family
    for metric, words, value in (
        ("jetspark_commit_written_bytes", "Bytes written by commits", gathered.written_bytes),
        ("jetspark_commit_failures", "Commits that failed", gathered.commit_failures),
    ):
        counter = CounterMetricFamily(metric, words, labels=labels)
        counter.add_metric(values, value)
        yield counter
    yield gauge(
        "jetspark_build_info", "Always 1; the version is a label", (*labels, "version"), [([*values, __version__], 1)]
    )


# -- what there may be thousands of ------------------------------------------------------------------------------------


def tables(gathered: Gathered) -> Iterator[bytes]:
    """The figures of streams and consumers."""
    yield from table_pieces(STREAM_FIGURES, gathered.streams)
    yield from table_pieces(CONSUMER_FIGURES, gathered.consumers)
    yield head(_CONSUMER_COUNT, "Consumers of a stream", "gauge")
    yield from line_pieces(_CONSUMER_COUNT, gathered.consumer_counts)
    yield from _origins(gathered)
    yield from _acknowledgements(gathered)


def _origins(gathered: Gathered) -> Iterator[bytes]:
    """How far behind mirrors and sourcing streams are."""
    for kind in ("mirror", "source"):
        write_labels = label_writer((*STREAM_LABELS, f"{kind}_name", f"{kind}_api", f"{kind}_deliver"))
        rows = [(write_labels(values), counts) for found, (values, counts) in gathered.origins if found == kind]
        figures = [(f"jetstream_stream_{kind}_{name}", words) for name, words in _ORIGIN_FIGURES]
        yield from table_pieces(figures, rows)


def _acknowledgements(gathered: Gathered) -> Iterator[bytes]:
    write_labels, write_bucket = label_writer(_ACK_LABELS), label_writer((*_ACK_LABELS, "le"))
    name = "nats_jetstream_acknowledgement_duration"
    yield head(name, "Seconds from delivery to acknowledgement, where the consumer is sampled", "histogram")
    for labels, buckets, sum_s, _ in gathered.acks:
        if buckets[-1][1]:
            text = write_labels(labels)
            yield from line_pieces(f"{name}_bucket", ((write_bucket([*labels, le]), count) for le, count in buckets))
            yield from line_pieces(f"{name}_count", [(text, buckets[-1][1])])
            yield from line_pieces(f"{name}_sum", [(text, sum_s)])
    rows = [(write_labels(labels), [count or None for count in counts]) for labels, _, _, counts in gathered.acks]
    yield from table_pieces(_ACK_COUNTS, rows, "untyped")
