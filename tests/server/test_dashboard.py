"""The dashboard's addresses: who gets in, what he sees, what a change must prove."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import bcrypt
import pytest
from tests.server.harness import StartServer
from tests.server.visitor import Visitor, add_stream, api, options, publish

from jetspark.server.dashboard.inner_client import InnerClient, RequestFailed

ACCOUNTS = """
    http: "127.0.0.1:-1"
    jetstream { }
    dashboard { allow_changes: true }
    accounts {
        EU { jetstream: enabled, users: [
            { user: eve, password: eu }
            { user: narrow, password: eu, permissions: { publish: [
                "$JS.API.STREAM.INFO.OPEN", "$JS.API.CONSUMER.INFO.OPEN.*", "open.>"
            ] } }
        ] }
        US { jetstream: enabled, users: [{ user: sam, password: us }] }
    }
"""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


# -- who gets in -------------------------------------------------------------------------------------------------------


async def test_without_users_everybody_who_reaches_the_port_sees_the_page(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    visitor = Visitor(session, await start_server(options()))

    status, page = await visitor.get("")

    assert status == 200
    assert "<title>Jetspark</title>" in page
    assert (await visitor.get("api/session"))[1]["account"] == "$G"


@pytest.mark.long
@pytest.mark.parametrize("path", ["", "app.js", "api/session", "api/streams", "api/events"])
async def test_with_users_nothing_is_shown_to_a_stranger(
    start_server: StartServer, session: aiohttp.ClientSession, path: str
) -> None:
    visitor = Visitor(session, await start_server(config=ACCOUNTS))

    assert (await visitor.get(path))[0] == 401
    assert (await visitor.get(path, "eve", "us"))[0] == 401
    assert (await visitor.get(path, "nobody", "eu"))[0] == 401
    assert "Basic" in (await visitor.headers(path))["WWW-Authenticate"]


@pytest.mark.long
async def test_a_password_kept_as_a_hash_a_single_user_and_a_token_let_in(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    for config, login in (
        (f'authorization {{ users: [{{ user: ann, password: "{hashed}" }}] }}', ("ann", "secret")),
        ("authorization { user: ann, password: secret }", ("ann", "secret")),
        ("authorization { token: secret }", ("anything", "secret")),
    ):
        running = await start_server(config=f'http: "127.0.0.1:-1"\n{config}\n')
        visitor = Visitor(session, running)

        assert (await visitor.get("api/session", *login))[0] == 200, config
        assert (await visitor.get("api/session", login[0], "wrong"))[0] == 401, config


async def test_a_user_without_a_password_cannot_come_in_by_http(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    # Such users prove themselves by a certificate, which nobody has shown here.
    config = 'http: "127.0.0.1:-1"\nauthorization { users: [{ user: "CN=ann", password: "" }] }\n'
    visitor = Visitor(session, await start_server(config=config))

    assert (await visitor.get("api/session", "CN=ann", ""))[0] == 401
    assert (await visitor.get("api/session"))[0] == 401


async def test_where_silent_users_are_let_in_so_is_the_page_and_one_can_still_log_in(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    config = ACCOUNTS + "no_auth_user: sam\n"
    visitor = Visitor(session, await start_server(config=config))

    assert (await visitor.get("api/session"))[1]["user"] == "sam"
    assert (await visitor.get("login"))[0] == 401
    assert (await visitor.get("login", "eve", "eu"))[0] == 302
    assert (await visitor.get("api/session", "eve", "eu"))[1]["user"] == "eve"


@pytest.mark.long
async def test_users_that_a_reload_removes_are_out(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    running = await start_server(config='http: "127.0.0.1:-1"\nauthorization { user: ann, password: old }\n')
    visitor = Visitor(session, running)
    assert (await visitor.get("api/session", "ann", "old"))[0] == 200

    running.server.options.password = "new"
    running.server.reload(running.server.options)

    assert (await visitor.get("api/session", "ann", "old"))[0] == 401
    assert (await visitor.get("api/session", "ann", "new"))[0] == 200


# -- what is seen ------------------------------------------------------------------------------------------------------


async def test_a_viewer_sees_his_own_account_only(start_server: StartServer, session: aiohttp.ClientSession) -> None:
    running = await start_server(config=ACCOUNTS)
    visitor = Visitor(session, running)
    await add_stream(running, "EUROPE", "e.>", user="eve", password="eu")
    await add_stream(running, "STATES", "s.>", user="sam", password="us")

    streams = (await visitor.get("api/streams", "eve", "eu"))[1]["rows"]
    connections = (await visitor.get("api/connections", "eve", "eu"))[1]["rows"]
    figures = (await visitor.get("api/overview", "eve", "eu"))[1]

    assert [row["name"] for row in streams] == ["EUROPE"]
    assert {row["account"] for row in connections} == {"EU"}
    assert (await visitor.get("api/streams/STATES", "eve", "eu"))[0] == 404
    assert (await visitor.get("api/streams/STATES/messages", "eve", "eu"))[0] == 404
    assert "in_msgs" not in figures["figures"]
    assert "in_msgs" not in figures["series"]


async def test_a_viewer_with_permissions_sees_what_he_may_ask_for(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config=ACCOUNTS)
    visitor = Visitor(session, running)
    await add_stream(running, "OPEN", "open.>", user="eve", password="eu")
    await add_stream(running, "SHUT", "shut.>", user="eve", password="eu")

    rows = (await visitor.get("api/streams", "narrow", "eu"))[1]["rows"]
    detail = (await visitor.get("api/streams/OPEN", "narrow", "eu"))[1]
    messages = await visitor.get("api/streams/OPEN/messages", "narrow", "eu")
    names = {row["authorized_user"] for row in (await visitor.get("api/connections", "narrow", "eu"))[1]["rows"]}

    assert [row["name"] for row in rows] == ["OPEN"]
    assert not detail["may_read"]
    assert messages == (404, {"error": "narrow may not read messages of OPEN."})
    assert (await visitor.get("api/streams/SHUT", "narrow", "eu"))[0] == 404
    assert names == {"narrow"}


async def test_messages_are_found_newest_and_oldest_first_by_subject(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")
    for number in range(30):
        await publish(running, f"s.{number % 2}", b"%d" % number)

    newest = (await visitor.get("api/streams/S/messages?subject=s.1"))[1]
    rest = (await visitor.get(f"api/streams/S/messages?seq={newest['rows'][-1]['seq'] - 1}"))[1]
    oldest = (await visitor.get("api/streams/S/messages?order=oldest&seq=10"))[1]

    assert [row["text"] for row in newest["rows"]][:3] == ["29", "27", "25"]
    assert len(newest["rows"]) == 15
    assert newest["next_seq"] == 0
    assert [row["seq"] for row in rest["rows"]] == [1]
    assert [row["seq"] for row in oldest["rows"]] == list(range(10, 31))


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("api/streams/NOPE", 404, "There is no stream NOPE in account $G."),
        ("api/streams/S/consumers/NOPE", 404, "There is no consumer NOPE of stream S."),
        ("api/streams/S/messages/99", 404, "There is no message 99 (any more)."),
        ("api/streams/S/messages?seq=x", 400, "'x' is not a number"),
        ("api/streams/S/messages?subject=a..b", 400, "'a..b' is not a subject: use words between dots"),
    ],
)
async def test_what_is_not_there_and_what_makes_no_sense_is_said(
    start_server: StartServer, session: aiohttp.ClientSession, path: str, status: int, words: str
) -> None:
    running = await start_server(options())
    await add_stream(running, "S", "s.>")

    found, answer = await Visitor(session, running).get(path)

    assert found == status
    assert answer["error"].startswith(words)


async def test_a_report_of_a_pipeline_is_shown_with_its_lag_and_rubbish_is_not(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")
    await add_stream(running, "KV_jetspark_pipelines", "$KV.jetspark_pipelines.>")
    await publish(running, "s.x", *[b"x"] * 5)
    report = {
        "state": "running",
        "batch": 3,
        "sources": [{"stream": "S", "end_seq": 2}, "odd"],
        "batch_duration_ms": "9",
    }
    await publish(running, "$KV.jetspark_pipelines.archive", json.dumps(report).encode())
    await publish(running, "$KV.jetspark_pipelines.rubbish", b"{")

    rows = (await visitor.get("api/pipelines"))[1]["rows"]

    assert [(row["name"], row["state"], row["batch"], row["batch_duration_ms"]) for row in rows] == [
        ("archive", "running", 3, None)
    ]
    assert rows[0]["sources"] == [{"stream": "S", "end_seq": 2, "first_seq": 1, "last_seq": 5, "lag": 3}]


# -- changes -----------------------------------------------------------------------------------------------------------


async def test_the_dashboard_is_read_only_unless_the_operator_allows_more(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")

    for path, form in (
        ("publish", {"subject": "s.x"}),
        ("streams/S/purge", {}),
        ("streams/S/delete", {"confirm": "S"}),
    ):
        status, answer = await visitor.change(path, form)
        assert (status, "read-only" in answer["error"]) == (403, True)
    running.server.options.dashboard.allow_changes = True

    assert (await visitor.change("publish", {"subject": "s.x"}))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Jetspark-Token": "guess"},
        {"X-Jetspark-Token": "right", "Origin": "http://evil.example"},
        {"X-Jetspark-Token": "right", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=["no token", "a wrong token", "another origin", "another site"],
)
async def test_a_change_asked_for_by_another_page_is_refused(
    start_server: StartServer, session: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    running = await start_server(options(allow_changes=True))
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")
    if headers.get("X-Jetspark-Token") == "right":
        headers = {**headers, "X-Jetspark-Token": (await visitor.get("api/session"))[1]["token"]}

    status, _ = await visitor.post("streams/S/delete", {"confirm": "S"}, **headers)

    assert status == 403
    assert "S" in running.server.broker.account("$G").jetstream.streams


async def test_changes_are_made_as_the_viewers_own_client_would_make_them(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options(allow_changes=True))
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")
    await api(
        running,
        "CONSUMER.CREATE.S.C",
        {"stream_name": "S", "config": {"name": "C", "durable_name": "C", "ack_policy": "explicit"}},
    )
    streams = running.server.broker.account("$G").jetstream.streams

    stored = await visitor.change("publish", {"subject": "s.a", "body": "hi", "headers": [["Nats-Msg-Id", "1"]]})
    again = await visitor.change("publish", {"subject": "s.a", "body": "hi", "headers": [["Nats-Msg-Id", "1"]]})
    nowhere = await visitor.change("publish", {"subject": "other", "body": "hi"})
    await visitor.change("publish", {"subject": "s.b"})
    removed = await visitor.change("streams/S/messages/1/delete", {})
    purged = await visitor.change("streams/S/purge", {"filter": "s.b"})
    gone = await visitor.change("streams/S/consumers/C/delete", {"confirm": "C"})

    assert stored == (200, {"stored": True, "message": "Stored.", "ack": {"stream": "S", "seq": 1}})
    assert again[1]["ack"] == {"stream": "S", "seq": 1, "duplicate": True}
    assert nowhere[1]["stored"] is False
    assert (removed[0], purged[1]["purged"], gone[0]) == (200, 1, 200)
    assert streams["S"].store.message_count == 0
    assert not streams["S"].consumers
    assert (await visitor.change("streams/S/delete", {"confirm": "S"}))[0] == 200
    assert not streams
    assert await running.log.wait_for("Dashboard: anonymous: /dashboard/api/streams/S/delete: Stream S deleted.")


@pytest.mark.parametrize(
    ("path", "form", "status", "words"),
    [
        ("publish", {"subject": "a b"}, 400, "is not a subject to publish to"),
        ("publish", {"subject": "a.*"}, 400, "is not a subject to publish to"),
        ("publish", {"subject": "a\r\nPUB x 0\r\n"}, 400, "is not a subject to publish to"),
        ("publish", {"subject": "$JS.API.STREAM.DELETE.S"}, 400, "one of the server's own subjects"),
        ("publish", {"subject": "s.a", "headers": [["a b", "c"]]}, 400, "is not a header's name"),
        ("publish", {"subject": "s.a", "headers": [["a", "b\r\nc: d"]]}, 400, "has a line break in it"),
        ("publish", {}, 400, "subject is missing"),
        ("publish", [], 400, "a form is a JSON object"),
        ("streams/S/purge", {"keep": -1}, 400, "keep is a whole number above 0"),
        ("streams/S/purge", {"keep": 1, "seq": 1}, 400, "not both"),
        ("streams/S/delete", {"confirm": "s"}, 400, "type S to confirm"),
        ("streams/NOPE/purge", {}, 404, "There is no stream NOPE"),
        ("streams/S%20X%0D%0APUB/purge", {}, 404, "There is no stream"),
        ("streams/S/consumers/NOPE/delete", {"confirm": "NOPE"}, 404, "There is no consumer NOPE"),
        ("streams/S/messages/7/delete", {}, 409, "stream store EOF"),
    ],
)
async def test_a_form_that_makes_no_sense_is_refused_with_its_reason(
    start_server: StartServer, session: aiohttp.ClientSession, path: str, form: Any, status: int, words: str
) -> None:
    running = await start_server(options(allow_changes=True))
    await add_stream(running, "S", "s.>")

    found, answer = await Visitor(session, running).change(path, form)

    assert found == status
    assert words in answer["error"]


async def test_a_viewer_cannot_do_what_his_permissions_deny(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config=ACCOUNTS)
    await add_stream(running, "OPEN", "open.>", user="eve", password="eu")
    viewer = await InnerClient.login(running.server, {"user": "narrow", "pass": "eu"})

    with pytest.raises(RequestFailed, match="Permissions Violation for Publish"):
        await viewer.publish("shut.x", b"", [])
    await viewer.close()


# -- manners -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "app.css", "api/session", "api/streams/NOPE"])
async def test_every_answer_forbids_the_browser_what_the_page_does_not_need(
    start_server: StartServer, session: aiohttp.ClientSession, path: str
) -> None:
    headers = await Visitor(session, await start_server(options())).headers(path)

    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in headers


async def test_the_beat_brings_figures_until_the_server_stops(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    visitor = Visitor(session, running)
    async with session.get(f"{visitor.base}api/events") as response:
        assert response.content_type == "text/event-stream"
        lines = [await response.content.readline() for _ in range(6)]
        stopping = asyncio.create_task(running.server.stop())
        rest = await response.content.read()
        await stopping

    beats = [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]
    assert [beat["connections"] for beat in beats][-1] == 1
    assert b"event: beat" in lines[0]
    assert rest.count(b"event: ") < 3


async def test_a_dashboard_that_is_turned_off_is_not_there(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config='http: "127.0.0.1:-1"\ndashboard: false\n')

    assert (await Visitor(session, running).get(""))[0] == 404
    async with session.get(running.server.monitor_url) as response:
        assert "dashboard" not in await response.text()


async def test_the_index_leads_to_the_dashboard_below_a_base_path_too(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config='http: "127.0.0.1:-1"\nhttp_base_path: "/nats"\n')
    base = f"{running.server.monitor_url}/nats"

    async with session.get(f"{base}/") as response:
        assert 'href="./dashboard/"' in await response.text()
    async with session.get(f"{base}/dashboard") as response:
        assert str(response.url) == f"{base}/dashboard/"
        assert "<title>Jetspark</title>" in await response.text()
