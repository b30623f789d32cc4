"""/metrics: the names and labels that others' dashboards use, and numbers that are true."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import nats
import pytest
from nats.js.api import ConsumerConfig, StreamSource
from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from tests.server.harness import Running, StartServer

from jetspark.server.dashboard.inner_client import InnerClient
from jetspark.server.embedded import embedded_options
from jetspark.server.metrics import Metrics
from jetspark.server.metrics_text import label_writer, library_pieces, table_pieces
from jetspark.server.observations import Observations

ROOT = Path(__file__).parent.parent.parent

# As prometheus-nats-exporter has them, started with -varz, -connz, -healthz and -jsz=all.
EXPORTER = {
    "gnatsd_varz_in_msgs": {"server_id"},
    "gnatsd_varz_out_bytes": {"server_id"},
    "gnatsd_varz_mem": {"server_id"},
    "gnatsd_varz_slow_consumers": {"server_id"},
    "gnatsd_varz_subscriptions": {"server_id"},
    "gnatsd_varz_version": {"server_id", "value"},
    # What is inside other documents of /varz, by the path to it.
    "gnatsd_varz_jetstream_config_max_memory": {"server_id"},
    "gnatsd_varz_jetstream_config_max_storage": {"server_id"},
    "gnatsd_varz_jetstream_stats_memory": {"server_id"},
    "gnatsd_varz_jetstream_stats_storage": {"server_id"},
    "gnatsd_varz_jetstream_stats_api_total": {"server_id"},
    "gnatsd_varz_slow_consumer_stats_clients": {"server_id"},
    "gnatsd_varz_http_req_stats_metrics": {"server_id"},
    # Times are numbers.
    "gnatsd_varz_start": {"server_id"},
    "gnatsd_varz_config_load_time": {"server_id"},
    "gnatsd_healthz_status_value": {"server_id", "value"},
    "gnatsd_connz_num_connections": {"server_id"},
    "gnatsd_connz_pending_bytes": {"server_id"},
    "gnatsd_healthz_status": {"server_id"},
}
SERVER = {"server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader"}
ACCOUNT = SERVER | {"account", "account_name", "account_id"}
STREAM = ACCOUNT | {"stream_name", "stream_leader", "is_stream_leader"}
CONSUMER = STREAM | {"consumer_name", "consumer_leader", "is_consumer_leader", "consumer_desc", "consumer_created"}
JETSTREAM = {
    **{
        f"jetstream_server_{name}": SERVER
        for name in (
            "jetstream_disabled",
            "total_streams",
            "total_consumers",
            "total_messages",
            "total_message_bytes",
            "max_memory",
            "max_storage",
        )
    },
    **{
        f"jetstream_stream_{name}": STREAM
        for name in (
            "total_messages",
            "total_bytes",
            "first_seq",
            "last_seq",
            "consumer_count",
            "subject_count",
            "limit_bytes",
            "limit_messages",
        )
    },
    **{f"jetstream_account_{name}": ACCOUNT for name in ("max_memory", "max_storage", "memory_used", "storage_used")},
    **{
        f"jetstream_stream_{kind}_{name}": STREAM | {f"{kind}_name", f"{kind}_api", f"{kind}_deliver"}
        for kind in ("mirror", "source")
        for name in ("lag", "active_duration_ns")
    },
    **{
        f"jetstream_consumer_{name}": CONSUMER
        for name in (
            "delivered_consumer_seq",
            "delivered_stream_seq",
            "num_ack_pending",
            "num_redelivered",
            "num_waiting",
            "num_pending",
            "ack_floor_stream_seq",
            "ack_floor_consumer_seq",
            "last_delivery_seconds",
            "last_ack_seconds",
        )
    },
}
# As nats-surveyor has them.
CORE = {"server_cluster", "server_name", "server_id"}
SURVEYOR = {
    **{
        f"nats_core_{name}": CORE
        for name in (
            "mem_bytes",
            "cpu_percentage",
            "connection_count",
            "sent_msgs_count",
            "recv_bytes",
            "subs_count",
            "start_time",
            "uptime",
            "active_account_count",
            "route_count",
            "gateway_count",
        )
    },
    "nats_core_info": CORE | {"server_version"},
    "nats_core_jetstream_info": {
        *("server_name", "server_host", "server_id", "server_cluster", "server_domain", "server_version"),
        "server_jetstream",
    },
    **{
        f"nats_core_jetstream_{name}": {"server_id", "server_name", "cluster_name"}
        for name in (
            "filestore_used_bytes",
            "api_requests",
            "ha_assets",
            "server_jetstream_disabled",
            "server_total_streams",
            "server_total_consumers",
            "server_total_stream_leaders",
            "server_total_consumer_leaders",
            "server_total_messages",
            "server_total_message_bytes",
            "server_max_memory",
            "server_max_storage",
        )
    },
    **{
        f"nats_core_account_{name}": CORE | {"account", "account_name"}
        for name in ("conn_count", "sub_count", "bytes_sent", "msgs_recv")
    },
    **{
        f"nats_core_account_jetstream_{name}": {"account", "account_name"}
        for name in ("enabled", "memory_used", "storage_used", "memory_reserved", "storage_reserved", "stream_count")
    },
    "nats_core_account_jetstream_consumer_count": {"account", "account_name", "stream", "raft_group"},
    "nats_jetstream_acknowledgement_duration_bucket": {"account", "stream", "consumer", "le"},
    "nats_jetstream_acknowledgement_deliveries": {"account", "stream", "consumer"},
    "nats_jetstream_consumer_nak": {"account", "stream", "consumer"},
    "nats_jetstream_delivery_terminated_count": {"account", "stream", "consumer"},
    "nats_jetstream_delivery_exceeded_count": {"account", "stream", "consumer"},
}
OURS = {
    "jetspark_commit_duration_seconds_bucket": {"server_id", "server_name", "le"},
    "jetspark_sync_duration_seconds_bucket": {"server_id", "server_name", "le"},
    "jetspark_commit_written_bytes_total": {"server_id", "server_name"},
    "jetspark_commit_failures_total": {"server_id", "server_name"},
    "jetspark_build_info": {"server_id", "server_name", "version"},
}


class Scrape:
    """What one request to /metrics brought."""

    def __init__(self, text: str) -> None:
        self.families: list[Metric] = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def labels(self, name: str) -> set[str]:
        return next((set(sample.labels) for sample in self.samples if sample.name == name), set())

    def value(self, name: str, **labels: str) -> float:
        found = [
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) == 1, (name, labels, found)
        return found[0]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def scrape(session: aiohttp.ClientSession, running: Running) -> Scrape:
    async with session.get(f"{running.server.monitor_url}/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return Scrape(await response.text())


async def live(running: Running) -> None:
    """Ten stored, six acknowledged, one sent back, one terminated, one delivered as often as allowed."""
    client = await nats.connect(running.server.client_url)
    stream = client.jetstream()
    await stream.add_stream(name="ORDERS", subjects=["orders.*"])
    for number in range(10):
        await stream.publish("orders.new", b"%d" % number)
    config = ConsumerConfig(durable_name="work", sample_freq="100", max_deliver=1)
    reader = await stream.pull_subscribe("orders.*", "work", config=config)
    for number, message in enumerate(await reader.fetch(9)):
        if number < 6:
            await message.ack_sync()
        elif number == 6:
            await message.nak()
        elif number == 7:
            await message.term()
    await reader.fetch(1)
    await stream.add_stream(name="COPY", mirror=StreamSource(name="ORDERS"))
    await stream.add_stream(name="GATHERED", sources=[StreamSource(name="ORDERS")])
    await client.close()


async def test_the_names_and_labels_are_those_of_the_exporter_and_the_surveyor(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(embedded_options(http_port=0))
    await live(running)

    found = await scrape(session, running)

    for name, labels in {**EXPORTER, **JETSTREAM, **SURVEYOR, **OURS}.items():
        assert found.labels(name) == labels, name
    assert found.value("nats_up") == 1
    assert found.value("nats_core_account_count") == len(running.server.broker.accounts)


async def test_the_numbers_are_true(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    running = await start_server(embedded_options(http_port=0))
    await live(running)

    found = await scrape(session, running)

    assert found.value("jetstream_stream_total_messages", stream_name="ORDERS", account="$G") == 10
    assert found.value("jetstream_consumer_delivered_stream_seq", consumer_name="work") == 10
    assert found.value("jetstream_consumer_ack_floor_stream_seq", consumer_name="work") >= 6
    assert found.value("jetstream_server_total_consumers") == 1
    assert found.value("nats_jetstream_acknowledgement_duration_count", consumer="work", stream="ORDERS") == 6
    assert found.value("nats_jetstream_acknowledgement_deliveries", consumer="work") == 6
    assert found.value("nats_jetstream_consumer_nak", consumer="work") == 1
    assert found.value("nats_jetstream_delivery_terminated_count", consumer="work") == 1
    assert found.value("nats_jetstream_delivery_exceeded_count", consumer="work") == 1
    assert found.value("gnatsd_healthz_status") == 0
    assert found.value("gnatsd_varz_in_msgs") == found.value("nats_core_recv_msgs_count")


async def test_commits_and_syncs_are_counted_by_how_long_they_took(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(embedded_options(http_port=0))
    await live(running)

    found = await scrape(session, running)
    buckets = [sample.value for sample in found.samples if sample.name == "jetspark_commit_duration_seconds_bucket"]

    # Each of the ten publishes waited for the commit before it.
    assert found.value("jetspark_commit_duration_seconds_count") >= 10
    assert found.value("jetspark_sync_duration_seconds_count") >= 10
    assert found.value("jetspark_commit_duration_seconds_sum") >= found.value("jetspark_sync_duration_seconds_sum") > 0
    assert buckets == sorted(buckets)
    assert buckets[-1] == found.value("jetspark_commit_duration_seconds_count")
    assert found.value("jetspark_commit_written_bytes_total") > 10
    assert found.value("jetspark_commit_failures_total") == 0


async def test_names_that_need_escaping_are_escaped(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    running = await start_server(embedded_options(http_port=0))
    client = await nats.connect(running.server.client_url)
    await client.jetstream().add_stream(name='A"B', subjects=["a"])
    await client.jetstream().add_consumer('A"B', ConsumerConfig(durable_name="c", description='x\\y"\nz'))
    await client.close()

    found = await scrape(session, running)

    assert found.value("jetstream_consumer_num_pending", stream_name='A"B', consumer_desc='x\\y"\nz') == 0


async def test_a_server_without_jetstream_says_so(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    found = await scrape(session, await start_server(embedded_options(http_port=0, jetstream=False)))

    assert found.value("jetstream_server_jetstream_disabled") == 1
    assert found.value("nats_core_jetstream_enabled") == 0


async def test_figures_of_a_deleted_consumer_are_gone(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(embedded_options(http_port=0))
    await live(running)
    client = await nats.connect(running.server.client_url)
    await client.jetstream().delete_consumer("ORDERS", "work")
    await client.close()

    found = await scrape(session, running)

    assert found.labels("nats_jetstream_acknowledgement_duration_bucket") == set()
    assert found.labels("jetstream_consumer_num_pending") == set()


async def test_every_metric_is_described_and_the_grafana_file_uses_only_what_is_there(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(embedded_options(http_port=0))
    await live(running)
    found = await scrape(session, running)
    page = (ROOT / "docs" / "metrics.md").read_text()
    board = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    sample_names = {sample.name for sample in found.samples}

    missing = [family.name for family in found.families if not is_described(family.name, page)]
    family_names = {family.name for family in found.families}
    absent = [name for name in described(page) if name not in sample_names | family_names]
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    expressions += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    used = {name for text in expressions for name in re.findall(r"\b(?:gnatsd|jetstream|nats|jetspark)_\w+", text)}

    assert missing == []
    assert absent == []
    assert len(expressions) >= 10
    assert used - sample_names == set()


def test_the_grafana_file_asks_which_prometheus_to_use_and_every_panel_uses_it() -> None:
    board = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    variables = {one["name"]: one for one in board["templating"]["list"]}
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]

    assert board["schemaVersion"] >= 36
    assert "id" not in board or board["id"] is None
    assert variables["datasource"]["type"] == "datasource"
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    names = set(re.findall(r"\$(\w+)", json.dumps([panel["targets"] for panel in panels])))
    assert names - set(variables) == {"__rate_interval"}


def described(page: str) -> set[str]:
    """Every whole name on the page; a family of names is written with a star."""
    return set(re.findall(r"\b(?:gnatsd|jetstream|nats|jetspark)_\w+\b(?!\*)", page)) - {
        "gnatsd_varz_",
        "gnatsd_connz_",
    }


def is_described(name: str, page: str) -> bool:
    """Named on the page; the numbers of /varz and /connz are described as a whole."""
    return f"`{name}`" in page or f"`{name}_total`" in page or name.startswith(("gnatsd_varz_", "gnatsd_connz_"))


def test_the_rows_of_many_are_written_in_short_pieces_as_the_library_would_write_them() -> None:
    names = ("stream_name", "account", "a_third")
    rows = [([f'S{number}"\\', "A\nB", "a%sb"], [number, None if number % 2 else number / 3]) for number in range(700)]
    figures = [("one", "The first"), ("two", "The second, which not every row has")]
    families = [GaugeMetricFamily(name, words, labels=names) for name, words in figures]
    for values, numbers in rows:
        for family, number in zip(families, numbers, strict=True):
            if number is not None:
                family.add_metric(values, number)
    write = label_writer(names)

    pieces = list(table_pieces(figures, [(write(values), numbers) for values, numbers in rows]))

    assert max(piece.count(b"\n") for piece in pieces) == 250
    # The library writes whole numbers with a point.
    theirs = b"".join(library_pieces(iter(families))).replace(b".0\n", b"\n")
    assert b"".join(pieces).replace(b".0\n", b"\n") == theirs


async def test_the_loop_turns_while_the_text_is_made(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    running = await start_server(embedded_options(http_port=0))
    client = await InnerClient.login(running.server, {})
    for number in range(120):
        config = {"name": f"S{number}", "subjects": [f"s.{number}"], "storage": "memory"}
        await client.request_json(f"$JS.API.STREAM.CREATE.S{number}", config)
    await client.close()
    metrics = Metrics(running.server, Observations())
    turn_count, is_over = 0, False

    def turn() -> None:
        nonlocal turn_count
        turn_count += 1
        if not is_over:
            asyncio.get_running_loop().call_soon(turn)

    turn()
    size = sum([len(chunk) async for chunk in metrics.chunks({})])
    is_over = True

    # A piece for each figure of the streams at least, and some before them.
    assert size > 120 * 8 * 100
    assert turn_count > 8 + 10


async def test_asking_for_the_head_of_the_metrics_gives_no_text(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(embedded_options(http_port=0))

    async with session.head(f"{running.server.monitor_url}/metrics") as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        assert await response.read() == b""
    # The connection is not left with bytes of an answer that nobody expects.
    async with session.get(f"{running.server.monitor_url}/healthz") as response:
        assert (await response.json())["status"] == "ok"
