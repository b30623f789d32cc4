"""The metric families of /metrics, made from gathered numbers.

Decided here: the names, the words that explain them, and their labels. Streams and consumers may be thousands, each
with the same long labels on eight lines: theirs is the one text not written by the library. Counters under other
projects' names are written untyped, because the library adds `_total` to a counter's name and theirs have none.
Runs on a thread of its own and touches nothing but what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UntypedMetricFamily,
)

from jetspark import __version__

if TYPE_CHECKING:
    from jetspark.server.metrics import Gathered, Row

SERVER_LABELS: Final = ("server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader")
STREAM_LABELS: Final = (*SERVER_LABELS, "account", "account_id", "stream_name", "stream_leader", "is_stream_leader")
CONSUMER_LABELS: Final = (
    *STREAM_LABELS,
    "consumer_name",
    "consumer_leader",
    "is_consumer_leader",
    "consumer_desc",
    "consumer_created",
)
_ACK_LABELS: Final = ("account", "stream", "consumer")

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
)
_ACK_COUNTS: Final = (
    ("nats_jetstream_acknowledgement_deliveries", "Deliveries that sampled acknowledgements took"),
    ("nats_jetstream_delivery_exceeded_count", "Messages delivered as often as their consumer allows"),
    ("nats_jetstream_delivery_terminated_count", "Messages a client terminated"),
    ("nats_jetstream_consumer_nak", "Messages a client sent back"),
)
# Of /varz the exporter shows these words as labels, and every number.
_WORDS: Final = ("server_id", "server_name", "version")
# name, key of /varz, explanation, is it a counter?
_CORE: Final = (
    ("mem_bytes", "mem", "Memory of the server", False),
    ("core_count", "cores", "Cores of the machine", False),
    ("cpu_percentage", "cpu", "Processor time of the server", False),
    ("connection_count", "connections", "Connections", False),
    ("total_connection_count", "total_connections", "Connections since the start", True),
    ("subs_count", "subscriptions", "Subscriptions", False),
    ("sent_msgs_count", "out_msgs", "Messages sent", True),
    ("sent_bytes", "out_bytes", "Bytes sent", True),
    ("recv_msgs_count", "in_msgs", "Messages received", True),
    ("recv_bytes", "in_bytes", "Bytes received", True),
    ("slow_consumer_count", "slow_consumers", "Clients cut off for being slow", False),
)


def families(gathered: Gathered) -> Iterator[Metric]:
    """Everything, in the order it is written."""
    server_id, name = gathered.varz["server_id"], gathered.varz["server_name"]
    domain = gathered.jsz["config"].get("domain", "")
    server = [server_id, name, "", domain, "", "true"]
    yield from _varz(gathered.varz, server_id)
    yield _gauge(
        "gnatsd_healthz_status", "0 when healthy", ("server_id",), [([server_id], 0 if gathered.is_healthy else 1)]
    )
    for key, value in gathered.connz.items():
        yield _gauge(f"gnatsd_connz_{key}", f"{key} of the open connections", ("server_id",), [([server_id], value)])
    yield from _jetstream_server(gathered.jsz, server)
    yield from _surveyor(gathered)
    yield from _acknowledgements(gathered)
    yield from _own(gathered, server_id, name)


def _gauge(name: str, words: str, labels: Sequence[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _untyped(name: str, words: str, labels: Sequence[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = UntypedMetricFamily(name, words, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _varz(varz: dict[str, Any], server_id: str) -> Iterator[Metric]:
    for key, value in varz.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield _gauge(f"gnatsd_varz_{key}", key, ("server_id",), [([server_id], value)])
        elif key in _WORDS:
            yield _gauge(f"gnatsd_varz_{key}", key, ("server_id", "value"), [([server_id, value], 1)])


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
        yield _gauge(f"jetstream_server_{name}", words, SERVER_LABELS, [(labels, value)])


def _surveyor(gathered: Gathered) -> Iterator[Metric]:
    varz, jsz = gathered.varz, gathered.jsz
    labels, values = ("server_cluster", "server_name", "server_id"), ["", varz["server_name"], varz["server_id"]]
    for name, key, words, is_counter in _CORE:
        make = _untyped if is_counter else _gauge
        yield make(f"nats_core_{name}", words, labels, [(values, varz[key])])
    store = ("server_id", "server_name", "cluster_name"), [varz["server_id"], varz["server_name"], ""]
    figures = {
        "enabled": ("1 when JetStream is on", 0 if jsz.get("disabled") else 1),
        "filestore_size_bytes": ("The most disk streams may have", jsz["config"]["max_storage"]),
        "memstore_size_bytes": ("The most memory streams may have", jsz["config"]["max_memory"]),
        "filestore_used_bytes": ("Disk that streams have", jsz["storage"]),
        "filestore_reserved_bytes": ("Disk promised to streams", jsz["reserved_storage"]),
        "memstore_used_bytes": ("Memory that streams have", jsz["memory"]),
        "memstore_reserved_bytes": ("Memory promised to streams", jsz["reserved_memory"]),
        "accounts": ("Accounts with JetStream", jsz["accounts"]),
    }
    for name, (words, value) in figures.items():
        yield _gauge(f"nats_core_jetstream_{name}", words, store[0], [(store[1], value)])
    for name, key in (("api_requests", "total"), ("api_errors", "errors")):
        yield _untyped(f"nats_core_jetstream_{name}", f"JetStream API {key}", store[0], [(store[1], jsz["api"][key])])


def _acknowledgements(gathered: Gathered) -> Iterator[Metric]:
    words = "Seconds from delivery to acknowledgement, where the consumer is sampled"
    times = HistogramMetricFamily("nats_jetstream_acknowledgement_duration", words, labels=_ACK_LABELS)
    for labels, buckets, sum_s, _ in gathered.acks:
        if buckets[-1][1]:
            times.add_metric(labels, buckets=buckets, sum_value=sum_s)
    yield times
    for position, (name, explanation) in enumerate(_ACK_COUNTS):
        rows = [(labels, counts[position]) for labels, _, _, counts in gathered.acks if counts[position]]
        yield _untyped(name, explanation, _ACK_LABELS, rows)


def _own(gathered: Gathered, server_id: str, name: str) -> Iterator[Metric]:
    labels, values = ("server_id", "server_name"), [server_id, name]
    for metric, words, (buckets, sum_s) in (
        (
            "jetspark_commit_duration_seconds",
            "A commit, from its first write to the end of its last sync",
            gathered.commits,
        ),
        ("jetspark_sync_duration_seconds", "One fdatasync", gathered.syncs),
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
    yield _gauge(
        "jetspark_build_info", "Always 1; the version is a label", (*labels, "version"), [([*values, __version__], 1)]
    )


def tables(gathered: Gathered) -> str:
    """The figures of streams and consumers, in the library's form, with the labels of each written once."""
    return _table(STREAM_FIGURES, STREAM_LABELS, gathered.streams) + _table(
        CONSUMER_FIGURES, CONSUMER_LABELS, gathered.consumers
    )


def _table(figures: Sequence[tuple[str, str]], names: Sequence[str], rows: list[Row]) -> str:
    labelled = [(_label_text(names, values), numbers) for values, numbers in rows]
    lines: list[str] = []
    for position, (name, words) in enumerate(figures):
        lines.append(f"# HELP {name} {words}\n# TYPE {name} gauge\n")
        lines.extend(f"{name}{{{labels}}} {float(numbers[position])}\n" for labels, numbers in labelled)
    return "".join(lines)


def _label_text(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = sorted(zip(names, values, strict=True))
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
