"""Monitoring over HTTP: the documents, and that their fields are nats-server's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import nats
import pytest
from tests.server.harness import Running, StartServer

from jetspark.server.describe import uptime
from jetspark.server.embedded import embedded_options
from jetspark.testing.processes import ServerProcess, nats_server_command


class Browser:
    """Asks a monitoring port."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def text(self, path: str) -> tuple[int, str, str]:
        async with self._session.get(self._base + path) as response:
            return response.status, response.content_type, await response.text()

    async def document(self, path: str) -> dict[str, Any]:
        status, content_type, text = await self.text(path)
        assert (status, content_type) == (200, "application/json"), text
        document: dict[str, Any] = json.loads(text)
        return document


@pytest.fixture
async def monitored(start_server: StartServer) -> Running:
    running: Running = await start_server(embedded_options(http_port=0))
    return running


@pytest.fixture
async def browser(monitored: Running) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession() as session:
        yield Browser(session, monitored.server.monitor_url)


async def test_varz_counts_traffic_of_clients_here_and_gone(monitored: Running, browser: Browser) -> None:
    one, two = await monitored.login(), await monitored.login()
    one.send("SUB a 1")
    await one.until_pong()
    two.send("PUB a 5", "hello")
    assert await one.line() == "MSG a 1 5"
    await two.close()
    await monitored.log.wait_for("Client connection closed")

    document = await browser.document("/varz")

    assert (document["connections"], document["total_connections"]) == (1, 2)
    assert (document["in_msgs"], document["in_bytes"]) == (1, 5)
    assert (document["out_msgs"], document["out_bytes"]) == (1, 5)
    assert document["subscriptions"] == 1
    assert document["port"] == monitored.server.port
    assert document["mem"] > 1_000_000
    assert document["http_req_stats"] == {"/varz": 1}


async def test_connz_shows_connections_and_on_request_their_subscriptions(monitored: Running, browser: Browser) -> None:
    client = await monitored.login(name="app", lang="test", version="9")
    client.send("SUB a.* 1", "SUB b workers 2")
    await client.until_pong()

    plain = (await browser.document("/connz"))["connections"][0]
    listed = (await browser.document("/connz?subs=1"))["connections"][0]
    detailed = (await browser.document("/connz?subs=detail"))["connections"][0]

    assert (plain["cid"], plain["name"], plain["lang"], plain["version"]) == (1, "app", "test", "9")
    assert plain["subscriptions"] == 2
    assert "subscriptions_list" not in plain
    assert listed["subscriptions_list"] == ["a.*", "b"]
    assert detailed["subscriptions_list_detail"][1] == {
        "subject": "b",
        "qgroup": "workers",
        "sid": "2",
        "msgs": 0,
        "cid": 1,
    }


async def test_connz_sorts_cuts_and_finds(monitored: Running, browser: Browser) -> None:
    first, second, third = [await monitored.login(name=name) for name in ("a", "b", "c")]
    second.send("PUB x 0", "", "PUB x 0", "")
    third.send("PUB x 0", "")
    await second.until_pong()
    await third.until_pong()
    await first.close()
    await monitored.log.wait_for("Client connection closed")

    busiest = await browser.document("/connz?sort=msgs_from&limit=1")
    paged = await browser.document("/connz?offset=1")
    one = await browser.document("/connz?cid=3")
    closed = await browser.document("/connz?state=closed")
    everything = await browser.document("/connz?state=any")

    assert [item["name"] for item in busiest["connections"]] == ["b"]
    assert (busiest["num_connections"], busiest["total"], busiest["limit"]) == (1, 2, 1)
    assert [item["name"] for item in paged["connections"]] == ["c"]
    assert [item["name"] for item in one["connections"]] == ["c"]
    assert [item["reason"] for item in closed["connections"]] == ["Client Closed"]
    assert "stop" in closed["connections"][0]
    assert everything["total"] == 3


async def test_a_negative_limit_is_none(monitored: Running, browser: Browser) -> None:
    for name in ("a", "b"):
        client = await monitored.login(name=name)
        client.send("SUB x 1")
        await client.until_pong()

    connections = await browser.document("/connz?limit=-1")
    subscriptions = await browser.document("/subsz?subs=1&limit=-1")
    accounts = await browser.document("/jsz?accounts=1&limit=-1")

    assert (connections["num_connections"], connections["limit"]) == (2, 1024)
    assert (len(subscriptions["subscriptions_list"]), subscriptions["limit"]) == (2, 1024)
    assert len(accounts["account_details"]) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connz?sort=bogus", "invalid sorting option: bogus"),
        ("/connz?state=bogus", "Error decoding state for bogus"),
        ("/connz?limit=abc", "Error decoding int for 'limit': strconv.Atoi: parsing \"abc\": invalid syntax"),
        ("/connz?subs=2", "Error decoding boolean for 'subs': strconv.ParseBool: parsing \"2\": invalid syntax"),
        ("/subsz?test=a..b", "invalid test subject, must be valid publish subject: a..b"),
        ("/accountz?acc=nope", "Account nope does not exist"),
        (
            "/healthz?js-enabled-only=x",
            "Error decoding boolean for 'js-enabled-only': strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
    ],
)
async def test_a_wrong_parameter_is_answered_in_nats_servers_words(browser: Browser, path: str, message: str) -> None:
    assert await browser.text(path) == (400, "text/plain", message)


async def test_subsz_lists_and_tests_subscriptions(monitored: Running, browser: Browser) -> None:
    client = await monitored.login()
    client.send("SUB a.> 1", "SUB b 2")
    await client.until_pong()

    document = await browser.document("/subsz?subs=1&test=a.x")

    assert document["num_subscriptions"] == 2
    assert [item["subject"] for item in document["subscriptions_list"]] == ["a.>"]
    assert document["total"] == 1


async def test_jsz_shows_streams_and_consumers(monitored: Running, browser: Browser) -> None:
    client = await nats.connect(monitored.server.client_url)
    stream = client.jetstream()
    await stream.add_stream(name="ORDERS", subjects=["orders.>"])
    await stream.publish("orders.1", b"x")
    await stream.pull_subscribe("orders.>", durable="worker")
    try:
        short = await browser.document("/jsz")
        long = await browser.document("/jsz?consumers=true&config=true")
    finally:
        await client.close()

    assert (short["streams"], short["consumers"], short["messages"]) == (1, 1, 1)
    assert "account_details" not in short
    detail = long["account_details"][0]["stream_detail"][0]
    assert detail["config"]["subjects"] == ["orders.>"]
    assert detail["state"]["messages"] == 1
    assert detail["consumer_detail"][0]["name"] == "worker"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, '{"status":"ok"}'),
        ("/healthz?js-enabled-only=true", 200, '{"status":"ok"}'),
        (
            "/healthz?account=$G&stream=NOPE",
            404,
            '{"status":"unavailable","error":"JetStream stream \\"NOPE\\" not found on account \\"$G\\""}',
        ),
        ("/healthz?account=X", 404, '{"status":"unavailable","error":"JetStream account \\"X\\" not found"}'),
        (
            "/healthz?stream=S",
            400,
            '{"status":"error","error":"\\"account\\" must not be empty when checking stream health"}',
        ),
    ],
)
async def test_healthz_answers_as_nats_server_does(browser: Browser, path: str, status: int, body: str) -> None:
    assert await browser.text(path) == (status, "application/json", body)


async def test_healthz_is_well_without_jetstream_where_none_was_configured(start_server: StartServer) -> None:
    running = await start_server(embedded_options(http_port=0, jetstream=False))
    async with aiohttp.ClientSession() as session:
        browser = Browser(session, running.server.monitor_url)

        assert (await browser.text("/healthz"))[0] == 200
        assert (await browser.text("/healthz?js-enabled-only=1"))[0] == 200


async def test_a_base_path_stands_before_every_endpoint(start_server: StartServer) -> None:
    options = embedded_options(http_port=0, jetstream=False)
    options.http_base_path = "/nats"
    running = await start_server(options)
    async with aiohttp.ClientSession() as session:
        browser = Browser(session, running.server.monitor_url)

        assert (await browser.text("/nats/varz"))[0] == 200
        assert (await browser.text("/nats/"))[1] == "text/html"
        assert (await browser.text("/varz"))[0] == 404


async def test_the_index_links_to_every_document(browser: Browser) -> None:
    _, content_type, page = await browser.text("/")

    assert content_type == "text/html"
    assert all(name in page for name in ("varz", "connz", "subsz", "jsz", "healthz"))


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0, "0s"), (59, "59s"), (1005, "16m45s"), (7205, "2h0m5s"), (273605, "3d4h0m5s"), (31536000, "1y0d0h0m0s")],
)
def test_uptime_is_written_in_years_days_hours_minutes_seconds(duration_s: int, text: str) -> None:
    assert uptime(duration_s * 1_000_000_000) == text


def field_names(value: object, prefix: str = "") -> set[str]:
    """Every path of keys in a document; list items share one path."""
    names: set[str] = set()
    if isinstance(value, dict):
        for key, item in value.items():
            names |= {f"{prefix}{key}"} | field_names(item, f"{prefix}{key}.")
    elif isinstance(value, list):
        for item in value:
            names |= field_names(item, prefix)
    return names


# Said only here: that every acknowledgement waits for the disk is this server's default, not nats-server's.
OURS_ONLY = {"config.sync_always", "jetstream.config.sync_always"}


async def describe_all(url: str, monitor_url: str, paths: list[str]) -> dict[str, set[str]]:
    """Give a server something to show, and read the names of all fields."""
    client = await nats.connect(url, name="app")
    stream = client.jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    await stream.publish("s.1", b"x")
    await stream.pull_subscribe("s.>", durable="D")
    await client.subscribe("b", queue="q")
    gone = await nats.connect(url)
    await gone.close()
    await client.flush()
    async with aiohttp.ClientSession() as session:
        browser = Browser(session, monitor_url)
        result = {path: field_names(await browser.document(path)) for path in paths}
    await client.close()
    return result


@pytest.mark.oracle
async def test_the_fields_are_those_of_nats_server(monitored: Running) -> None:
    command = nats_server_command()
    if command is None:
        pytest.skip("nats-server is not installed")
    paths = [
        "/varz",
        "/connz",
        "/connz?subs=1&auth=1",
        "/connz?subs=detail",
        "/connz?state=closed",
        "/subsz",
        "/subsz?subs=1",
        "/jsz",
        "/jsz?accounts=1",
        "/jsz?consumers=1&config=1",
        "/accountz",
        "/accstatz",
        "/routez",
        "/gatewayz",
        "/leafz",
    ]
    reference = ServerProcess(command, monitoring=True)
    await asyncio.to_thread(reference.start)
    try:
        theirs = await describe_all(
            f"nats://127.0.0.1:{reference.port}", f"http://127.0.0.1:{reference.monitor_port}", paths
        )
    finally:
        await asyncio.to_thread(reference.stop)
    ours = await describe_all(monitored.server.client_url, monitored.server.monitor_url, paths)

    for path in paths:
        assert ours[path] - OURS_ONLY == theirs[path], path
