"""The metric families of nats-surveyor, made from gathered numbers: the server, its JetStream, its accounts.

Decided here: the names, the words that explain them, and their labels. Touches nothing but what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric, UntypedMetricFamily

from jetspark.api.timestamps import parse_time

if TYPE_CHECKING:
    from jetspark.server.metrics import Gathered

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
    ("route_count", "routes", "Routes to other servers", False),
    ("slow_consumer_count", "slow_consumers", "Clients cut off for being slow", False),
)
_JETSTREAM_INFO: Final = (
    *("server_name", "server_host", "server_id", "server_cluster", "server_domain", "server_version"),
    "server_jetstream",
)
# The same of an account.
_ACCOUNT: Final = (
    ("conn_count", "conns", "Connections of an account", False),
    ("total_conn_count", "conns", "Connections of an account, of clients and of leaf nodes", False),
    ("sub_count", "subscriptions", "Subscriptions of an account", False),
    ("bytes_sent", "out_bytes", "Bytes sent to an account's open connections", True),
    ("bytes_recv", "in_bytes", "Bytes received from an account's open connections", True),
    ("msgs_sent", "out_msgs", "Messages sent to an account's open connections", True),
    ("msgs_recv", "in_msgs", "Messages received from an account's open connections", True),
)
_ACCOUNT_JETSTREAM: Final = (
    ("enabled", "enabled", "1 when an account has JetStream"),
    ("memory_used", "memory", "Memory that an account's streams have"),
    ("storage_used", "storage", "Disk that an account's streams have"),
    ("memory_reserved", "reserved_memory", "Memory promised to an account's streams"),
    ("storage_reserved", "reserved_storage", "Disk promised to an account's streams"),
    ("stream_count", "streams", "Streams of an account"),
)


def gauge(name: str, words: str, labels: Sequence[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def untyped(name: str, words: str, labels: Sequence[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = UntypedMetricFamily(name, words, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def surveyor(gathered: Gathered) -> Iterator[Metric]:
    """Everything nats-surveyor says of one server."""
    varz, jsz = gathered.varz, gathered.jsz
    yield gauge("nats_up", "Always 1: the server answers for itself", (), [([], 1)])
    yield from _information(gathered)
    labels, values = ("server_cluster", "server_name", "server_id"), ["", varz["server_name"], varz["server_id"]]
    for name, key, words, is_counter in _CORE:
        make = untyped if is_counter else gauge
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
        "ha_assets": ("Streams and consumers with replicas, of which there are none", jsz["ha_assets"]),
        "server_jetstream_disabled": ("1 when JetStream is off", 1 if jsz.get("disabled") else 0),
        "server_total_streams": ("Streams", jsz["streams"]),
        "server_total_consumers": ("Consumers", jsz["consumers"]),
        "server_total_stream_leaders": ("Streams", jsz["streams"]),
        "server_total_consumer_leaders": ("Consumers", jsz["consumers"]),
        "server_total_messages": ("Messages stored", jsz["messages"]),
        "server_total_message_bytes": ("Bytes stored", jsz["bytes"]),
        "server_max_memory": ("The most memory streams may have", jsz["config"]["max_memory"]),
        "server_max_storage": ("The most disk streams may have", jsz["config"]["max_storage"]),
    }
    for name, (words, value) in figures.items():
        yield gauge(f"nats_core_jetstream_{name}", words, store[0], [(store[1], value)])
    for name, key in (("api_requests", "total"), ("api_errors", "errors")):
        yield untyped(f"nats_core_jetstream_{name}", f"JetStream API {key}", store[0], [(store[1], jsz["api"][key])])
    yield from _accounts(gathered)


def _information(gathered: Gathered) -> Iterator[Metric]:
    """Words as labels, times, and what a server that stands alone has none of."""
    varz = gathered.varz
    server_id, name, version = varz["server_id"], varz["server_name"], varz["version"]
    labels, values = ("server_cluster", "server_name", "server_id"), ["", name, server_id]
    has_jetstream = "false" if gathered.jsz.get("disabled") else "true"
    yield gauge("nats_core_info", "Always 1", (*labels, "server_version"), [([*values, version], 1)])
    domain = gathered.jsz["config"].get("domain", "")
    yield gauge(
        "nats_core_jetstream_info",
        "Always 1",
        _JETSTREAM_INFO,
        [([name, varz["host"], server_id, "", domain, version, has_jetstream], 1)],
    )
    start_ns = parse_time(varz["start"]).unix_ns
    for figure, words, value in (
        ("start_time", "Start of the server, nanoseconds since 1970", start_ns),
        ("uptime", "Seconds since the start", (parse_time(varz["now"]).unix_ns - start_ns) / 1e9),
        ("active_account_count", "Accounts with connections", sum(1 for one in gathered.accounts if one["conns"])),
        ("gateway_count", "Gateways to other clusters", 0),
    ):
        yield gauge(f"nats_core_{figure}", words, labels, [(values, value)])


def _accounts(gathered: Gathered) -> Iterator[Metric]:
    varz, accounts = gathered.varz, gathered.accounts
    yield gauge("nats_core_account_count", "Accounts", (), [([], len(accounts))])
    labels = ("server_cluster", "server_name", "server_id", "account", "account_name")
    for name, key, words, is_counter in _ACCOUNT:
        make = untyped if is_counter else gauge
        rows = [
            (["", varz["server_name"], varz["server_id"], account["name"], account["name"]], account[key])
            for account in accounts
        ]
        yield make(f"nats_core_account_{name}", words, labels, rows)
    for name, key, words in _ACCOUNT_JETSTREAM:
        numbers = [([account["name"], account["name"]], account[key]) for account in accounts]
        yield gauge(f"nats_core_account_jetstream_{name}", words, ("account", "account_name"), numbers)
