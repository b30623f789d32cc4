"""Long lists on the dashboard: messages that are searched for, consumers, subjects, subscriptions."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.server.harness import Running, StartServer
from tests.server.visitor import Visitor, add_stream, api, options, publish

from jetspark.broker.stream import Stream
from jetspark.server.dashboard import browse
from jetspark.server.dashboard.inner_client import InnerClient

MANY = 50_000
ACCOUNTS = """
    http: "127.0.0.1:-1"
    jetstream { }
    accounts {
        EU { jetstream: enabled, users: [
            { user: eve, password: eu }
            { user: narrow, password: eu, permissions: { publish: ["$JS.API.STREAM.INFO.>"] } }
        ] }
        US { jetstream: enabled, users: [{ user: sam, password: us }] }
    }
"""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def rare_among_many(running: Running) -> Stream:
    """A rare message, many common ones, another rare one, many common ones."""
    await api(running, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory"})
    stream = running.server.broker.account("$G").jetstream.streams["S"]
    now_ns = running.server.clock.now_ns()
    for subject in (b"s.rare.a", b"s.rare.b"):
        stream.store.append(subject, 0, b"", now_ns)
        for _ in range(MANY):
            stream.store.append(b"s.common", 0, b"", now_ns)
    stream.store.committed(stream.store.last_seq)
    return stream


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "seqs"),
    [
        ("subject=s.rare.a", [1]),
        ("subject=s.rare.b", [MANY + 2]),
        ("subject=s.rare.*", [MANY + 2, 1]),
        ("subject=s.rare.*&order=oldest", [1, MANY + 2]),
        ("subject=s.none", []),
    ],
)
async def test_rare_messages_among_many_are_found_by_one_request(
    start_server: StartServer, session: aiohttp.ClientSession, query: str, seqs: list[int]
) -> None:
    running = await start_server(options())
    await rare_among_many(running)

    found = (await Visitor(session, running).get(f"api/streams/S/messages?{query}"))[1]

    assert [row["seq"] for row in found["rows"]] == seqs
    assert found["next_seq"] == 0


@pytest.mark.long
async def test_a_wide_gap_between_messages_is_stepped_over(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    await rare_among_many(running)
    await api(running, "STREAM.PURGE.S", {"filter": "s.common"})
    visitor = Visitor(session, running)

    newest = (await visitor.get("api/streams/S/messages"))[1]
    oldest = (await visitor.get("api/streams/S/messages?order=oldest"))[1]

    assert [row["seq"] for row in newest["rows"]] == [MANY + 2, 1]
    assert [row["seq"] for row in oldest["rows"]] == [1, MANY + 2]


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_search_that_takes_long_stops_and_can_go_on(start_server: StartServer, newest_first: bool) -> None:
    running = await start_server(options())
    stream = await rare_among_many(running)
    # Each look at the clock finds a quarter of the time gone.
    times = itertools.count(0, browse.SEARCH_NS // 4)

    found: list[int] = []
    start_seq = requests = 0
    while start_seq or not requests:
        page = await browse.page(
            stream, "s.rare.*", start_seq, newest_first=newest_first, monotonic_ns=lambda: next(times)
        )
        found += [row["seq"] for row in page["rows"]]
        start_seq = page["next_seq"]
        requests += 1

    assert found == ([MANY + 2, 1] if newest_first else [1, MANY + 2])
    assert requests > 2


async def test_a_page_goes_on_where_the_one_before_it_ended(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")
    for number in range(70):
        await publish(running, f"s.{number % 2}", b"")

    for query, wanted in (
        ("subject=s.1", list(range(70, 0, -2))),
        ("order=oldest", list(range(1, 71))),
        ("order=newest", list(range(70, 0, -1))),
    ):
        found: list[int] = []
        seq = 0
        while True:
            page = (await visitor.get(f"api/streams/S/messages?{query}&seq={seq}"))[1]
            found += [row["seq"] for row in page["rows"]]
            seq = page["next_seq"]
            if not seq:
                break
        assert found == wanted, query


async def test_a_message_of_a_megabyte_is_shown_whole_and_bytes_say_when_they_are_not(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    await add_stream(running, "S", "s.>")
    await publish(running, "s.text", b"x" * (1024 * 1024))
    await publish(running, "s.bytes", b"\0" * 5000)
    await publish(running, "s.few", b"\0" * 4096)
    visitor = Visitor(session, running)

    text, data, few = [(await visitor.get(f"api/streams/S/messages/{seq}"))[1] for seq in (1, 2, 3)]

    assert (len(text["text"]), text["truncated"]) == (1024 * 1024, False)
    assert (data["shown"], data["truncated"]) == (4096, True)
    assert (few["shown"], few["truncated"]) == (4096, False)


# -- consumers, subjects, subscriptions --------------------------------------------------------------------------------


async def test_consumers_are_found_sorted_and_paged(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)
    await api(running, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory"})
    await publish(running, "s.a", b"")
    client = await InnerClient.login(running.server, {})
    for number in range(250):
        config = {"name": f"c{number:03}", "ack_policy": "explicit", "inactive_threshold": 60_000_000_000}
        config["filter_subject"] = "s.a" if number == 249 else "s.b"
        verb = f"CONSUMER.CREATE.S.c{number:03}.{config['filter_subject']}"
        await client.request_json(f"$JS.API.{verb}", {"stream_name": "S", "config": config})
    await client.close()

    first = (await visitor.get("api/streams/S/consumers"))[1]
    second = (await visitor.get("api/streams/S/consumers?offset=200"))[1]
    named = (await visitor.get("api/streams/S/consumers?filter=C01"))[1]
    filtered = (await visitor.get("api/streams/S/consumers?filter=s.a"))[1]
    behind = (await visitor.get("api/streams/S/consumers?sort=lag"))[1]
    summary = (await visitor.get("api/streams/S"))[1]

    assert (first["total"], len(first["rows"]), first["rows"][0]["name"]) == (250, 200, "c000")
    assert [row["name"] for row in second["rows"]] == [f"c{number}" for number in range(200, 250)]
    assert [row["name"] for row in named["rows"]] == [f"c01{digit}" for digit in range(10)]
    assert [row["name"] for row in filtered["rows"]] == ["c249"]
    assert behind["rows"][0]["name"] == summary["consumers"][0]["name"] == "c249"
    assert len(summary["consumers"]) == 20


async def test_of_many_subjects_a_few_and_their_number_are_shown(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    subjects = [f"s.{number}.>" for number in range(300)]
    await api(running, "STREAM.CREATE.S", {"name": "S", "subjects": subjects})
    await add_stream(running, "OTHER", "other")
    await api(running, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
    await api(running, "STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S"}, {"name": "OTHER"}]})
    visitor = Visitor(session, running)

    mirror, _, stream, sourcing = (await visitor.get("api/streams"))[1]["rows"]

    assert (stream["subjects"], stream["subject_count"], stream["origins"]) == (subjects[:12], 300, [])
    assert (mirror["subjects"], mirror["origins"]) == ([], ["S"])
    assert sourcing["origins"] == ["S", "OTHER"]
    assert [row["name"] for row in (await visitor.get("api/streams?filter=s.299"))[1]["rows"]] == ["S"]


async def test_subscriptions_are_told_of_one_connection_when_asked_for(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)

    row = (await visitor.get("api/connections"))[1]["rows"][0]
    one = (await visitor.get(f"api/connections/{row['cid']}"))[1]
    status, answer = await visitor.get("api/connections/9999999999999999999")

    assert "subscriptions_list" not in row
    assert (one["cid"], one["subject_count"], len(one["subjects"])) == (row["cid"], 1, 1)
    assert (status, answer["error"]) == (404, "There is no connection 9999999999999999999 (any more).")


async def test_a_connection_of_another_account_or_of_another_user_is_not_told_of(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config=ACCOUNTS)
    visitor = Visitor(session, running)
    client = await InnerClient.login(running.server, {"user": "eve", "pass": "eu"})

    path = f"api/connections/{client.session_id}"
    statuses = [(await visitor.get(path, *login))[0] for login in (("eve", "eu"), ("narrow", "eu"), ("sam", "us"))]
    await client.close()

    assert statuses == [200, 404, 404]
