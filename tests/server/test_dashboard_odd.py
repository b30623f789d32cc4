"""The dashboard's addresses and odd input: names, credentials, forms, reports and streams that nobody planned for."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from tests.server.harness import Running, StartServer
from tests.server.visitor import Visitor, add_stream, api, options, publish
from yarl import URL

from jetspark.server.dashboard.inner_client import InnerClient
from jetspark.server.dashboard.logins import GUESSES_MAX

ODD_NAMES = ("a{b}", "100%", "a%2Fb", "a?b#c&d=e", '"it\'s"', "<img", "Üñí日本")
READER = """
    http: "127.0.0.1:-1"
    jetstream { }
    dashboard { allow_changes: true }
    authorization { users: [
        { user: owner, password: own }
        { user: reader, password: read, permissions: { publish: ["$JS.API.STREAM.INFO.>"] } }
        { user: pipes, password: pipes, permissions: { publish: ["$JS.API.STREAM.*.KV_jetspark_pipelines",
            "$JS.API.STREAM.MSG.GET.KV_jetspark_pipelines"] } }
    ] }
"""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def raw(running: Running, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """What the monitoring port answers to these bytes: status, headers, body."""
    url = URL(running.server.monitor_url)
    assert url.host is not None
    assert url.port is not None
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


# -- names and credentials ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_a_stream_and_a_consumer_are_found_under_any_name_they_may_have(
    start_server: StartServer, session: aiohttp.ClientSession, name: str
) -> None:
    running = await start_server(options(allow_changes=True))
    await add_stream(running, name, "s.>")
    config = {"name": name, "durable_name": name, "ack_policy": "explicit"}
    await api(running, f"CONSUMER.CREATE.{name}.{name}", {"stream_name": name, "config": config})
    visitor, place = Visitor(session, running), f"streams/{quote(name, safe='')}"

    for path in ("", "/messages", "/subjects", f"/consumers/{quote(name, safe='')}"):
        async with session.get(URL(f"{visitor.base}api/{place}{path}", encoded=True)) as response:
            assert response.status == 200, path
    token = (await visitor.get("api/session"))[1]["token"]
    target = URL(f"{visitor.base}api/{place}/delete", encoded=True)
    async with session.post(target, json={"confirm": name}, headers={"X-Jetspark-Token": token}) as response:
        assert response.status == 200

    assert name not in running.server.broker.account("$G").jetstream.streams


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "header", "status"),
    [
        ("GET /dashboard/", b"Authorization: Basic \xff\xfe", 401),
        ("GET /dashboard/api/session", b"Authorization: \xff", 401),
        ("POST /dashboard/api/publish", b"Authorization: Basic b3duZXI6b3du\r\nX-Jetspark-Token: \xff", 403),
    ],
)
async def test_credentials_that_are_no_text_are_refused_and_nothing_worse(
    start_server: StartServer, line: str, header: bytes, status: int
) -> None:
    running = await start_server(config=READER)

    found, headers, _ = await raw(
        running, line.encode() + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + header + b"\r\n\r\n"
    )

    assert found == status
    assert "Content-Security-Policy" in headers


@pytest.mark.long
async def test_who_guesses_passwords_is_slowed_down_and_then_turned_away(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config=READER)
    visitor = Visitor(session, running)
    assert (await visitor.get("api/session", "owner", "own"))[0] == 200

    guesses = [asyncio.create_task(visitor.get("api/session", "owner", f"guess {number}")) for number in range(20)]
    first, _ = await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
    # Somebody who is already in notices nothing.
    while_guessing = (await visitor.get("api/session", "owner", "own"))[0]
    statuses = sorted([(await guess)[0] for guess in guesses])

    assert {guess.result()[0] for guess in first} == {429}
    assert while_guessing == 200
    assert statuses == [401] * GUESSES_MAX + [429] * (20 - GUESSES_MAX)
    assert (await visitor.get("api/session", "reader", "read"))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nope", 404),
        ("GET", "%2e%2e/%2e%2e/routes.py", 404),
        ("GET", "..%2froutes.py", 404),
        ("GET", "api/streams/S/nope", 404),
        ("POST", "api/streams", 405),
        ("DELETE", "api/streams/S", 405),
        ("OPTIONS", "", 405),
        ("GET", "api/publish", 405),
    ],
)
async def test_what_is_not_there_and_wrong_methods_are_answered_under_the_same_policy(
    start_server: StartServer, session: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    running = await start_server(options())
    await add_stream(running, "S", "s.>")
    target = URL(f"{running.server.monitor_url}/dashboard/{path}", encoded=True)

    async with session.request(method, target) as response:
        assert response.status == status
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert response.headers["X-Frame-Options"] == "DENY"


async def test_a_file_of_the_page_that_did_not_change_is_not_sent_again(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    visitor = Visitor(session, await start_server(options()))
    async with session.get(f"{visitor.base}app.js") as response:
        tag = response.headers["ETag"]

    async with session.get(f"{visitor.base}app.js", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")
        assert "Content-Security-Policy" in response.headers
    async with session.get(f"{visitor.base}app.js", headers={"If-None-Match": '"another"'}) as response:
        assert response.status == 200


# -- forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"[" * 200_000, "application/json", "cannot be read"),
        (b"{", "application/json", "cannot be read"),
        (b"\xff", "application/json", "cannot be read"),
        (b"{}", "application/json; charset=nope", "subject is missing"),
        (b'{"subject": "s.x", "body": "\\ud800"}', "application/json", "cannot be written as UTF-8"),
        (b'{"subject": "s.\\ud800"}', "application/json", "cannot be written as UTF-8"),
        (b'{"subject": "s.x", "headers": [["A", "\\ud800"]]}', "application/json", "cannot be written as UTF-8"),
    ],
    ids=["too deep", "cut off", "no text", "unknown charset", "half a character", "in a subject", "in a header"],
)
async def test_a_form_that_cannot_be_read_is_refused_with_its_reason(
    start_server: StartServer, session: aiohttp.ClientSession, body: bytes, content_type: str, words: str
) -> None:
    running = await start_server(options(allow_changes=True))
    visitor = Visitor(session, running)
    headers = {"X-Jetspark-Token": (await visitor.get("api/session"))[1]["token"], "Content-Type": content_type}

    async with session.post(f"{visitor.base}api/publish", data=body, headers=headers) as response:
        assert response.status == 400
        assert words in (await response.json())["error"]


@pytest.mark.parametrize(
    ("size", "status"), [(1024 * 1024 + 1, 400), (5 * 1024 * 1024, 413)], ids=["a little", "far too much"]
)
async def test_a_message_that_is_too_large_is_refused_with_the_limit(
    start_server: StartServer, session: aiohttp.ClientSession, size: int, status: int
) -> None:
    running = await start_server(options(allow_changes=True))
    visitor = Visitor(session, running)
    await add_stream(running, "S", "s.>")

    headers = {"X-Jetspark-Token": (await visitor.get("api/session"))[1]["token"]}
    body = io.BytesIO(json.dumps({"subject": "s.x", "body": "x" * size}).encode())

    async with session.post(f"{visitor.base}api/publish", data=body, headers=headers) as response:
        assert response.status == status
        assert "1,048,576 bytes" in (await response.json())["error"]

    assert running.server.broker.account("$G").jetstream.streams["S"].store.message_count == 0


async def test_when_the_server_closes_the_connection_its_reason_is_told(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options(allow_changes=True))

    _, answer = await Visitor(session, running).change("publish", {"subject": f"s.{'x' * 5000}", "body": ""})

    assert answer["error"] == "maximum control line exceeded"


async def test_a_message_for_a_stream_that_answers_nobody_is_stored_and_said_to_be(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options(allow_changes=True))
    await api(running, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "no_ack": True})

    async with asyncio.timeout(5):
        status, answer = await Visitor(session, running).change("publish", {"subject": "s.x", "body": "x"})

    assert (status, answer["message"]) == (200, "Sent to stream S, which acknowledges nothing.")
    assert running.server.broker.account("$G").jetstream.streams["S"].store.message_count == 1


async def test_a_change_that_permissions_deny_is_refused_at_once(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config=READER)
    await add_stream(running, "S", "s.>", user="owner", password="own")
    visitor = Visitor(session, running)
    headers = {"Authorization": f"Basic {base64.b64encode(b'reader:read').decode()}"}
    async with session.get(f"{visitor.base}api/session", headers=headers) as response:
        headers["X-Jetspark-Token"] = (await response.json())["token"]

    async with asyncio.timeout(5):
        answers = [
            await visitor.post("streams/S/purge", {}, **headers),
            await visitor.post("publish", {"subject": "s.x", "body": ""}, **headers),
        ]

    assert [status for status, _ in answers] == [409, 409]
    assert all("Permissions Violation" in answer["error"] for _, answer in answers)


async def test_a_purge_by_something_that_is_no_subject_is_refused(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options(allow_changes=True))
    await add_stream(running, "S", "s.>")

    status, answer = await Visitor(session, running).change("streams/S/purge", {"filter": "s..x"})

    assert (status, answer["error"]) == (
        400,
        "'s..x' is not a subject: use words between dots, * for one word, > for all that follow",
    )


# -- reports of pipelines ----------------------------------------------------------------------------------------------


async def test_numbers_that_are_none_and_nesting_without_end_do_not_hide_the_other_reports(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(options())
    await add_stream(running, "KV_jetspark_pipelines", "$KV.jetspark_pipelines.>")
    await publish(running, "$KV.jetspark_pipelines.deep", b"[" * 100_000)
    await publish(
        running, "$KV.jetspark_pipelines.odd", b'{"batch": NaN, "input_rows": 1e999, "batch_duration_ms": -1}'
    )
    sound = {"batch": 3, "sources": [{"stream": "S", "end_seq": True}]}
    await publish(running, "$KV.jetspark_pipelines.sound", json.dumps(sound).encode())

    def no_constant(word: str) -> Any:
        raise AssertionError(word)

    async with session.get(f"{Visitor(session, running).base}api/pipelines") as response:
        rows = json.loads(await response.text(), parse_constant=no_constant)["rows"]

    assert [(row["name"], row["batch"], row["input_rows"]) for row in rows] == [("odd", None, None), ("sound", 3, None)]
    assert rows[1]["sources"] == [{"stream": "S", "end_seq": None}]


async def test_a_pipeline_tells_nobody_how_long_a_stream_is_that_he_may_not_ask_for(
    start_server: StartServer, session: aiohttp.ClientSession
) -> None:
    running = await start_server(config=READER)
    owner = {"user": "owner", "password": "own"}
    await add_stream(running, "SHUT", "shut.>", **owner)
    await add_stream(running, "KV_jetspark_pipelines", "$KV.jetspark_pipelines.>", **owner)
    client = await InnerClient.login(running.server, {"user": "owner", "pass": "own"})
    report = {"sources": [{"stream": "SHUT", "end_seq": 1}]}
    await client.request("$KV.jetspark_pipelines.p", json.dumps(report).encode())
    await client.close()
    visitor = Visitor(session, running)

    sources = [
        (await visitor.get("api/pipelines", *login))[1]["rows"][0]["sources"][0]
        for login in (("owner", "own"), ("pipes", "pipes"))
    ]

    assert "last_seq" in sources[0]
    assert sources[1] == {"stream": "SHUT", "end_seq": 1}
