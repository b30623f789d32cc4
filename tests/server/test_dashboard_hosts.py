"""Under which names the dashboard answers: pages of other sites can point their name here, and must find nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from tests.server.harness import Running, StartServer
from tests.server.visitor import add_stream, options

from jetspark.server.dashboard.hosts import host_of, is_own
from jetspark.server.flags import options_from, parse_command_line
from jetspark.server.options_reader import read_config_file

USERS = """
    http: "127.0.0.1:-1"
    authorization { users: [{ user: ann, password: a }, { user: bob, password: b }] }
"""
ANN = "Authorization: Basic YW5uOmE="


async def ask(running: Running, path: str, host: str, *headers: str, method: str = "GET", body: str = "") -> str:
    """The answer as it comes: clients of HTTP write the Host header themselves, and this is about that header."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.http_port)
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}", *headers]
    writer.write("\r\n".join([*head, "", body]).encode())
    if path.endswith("/events"):
        # A stream without an end.
        answer = await reader.readuntil(b"\r\n")
    else:
        answer = await reader.read()
    writer.close()
    return answer.decode()


def status(answer: str) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("127.0.0.1:8222", True),
        ("192.168.7.9", True),
        ("[::1]:8222", True),
        ("localhost:8222", True),
        ("LOCALHOST.", True),
        ("demo.localhost:80", True),
        ("nats:8222", True),
        ("", True),
        ("allowed.example.com:1", True),
        ("Allowed.Example.Com.", True),
        ("evil.example.com:8222", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8222", False),
        ("127.0.0.1.nip.io", False),
        ("sub.allowed.example.com", False),
        ("[evil.example]:8222", False),
        ("1.2.3.4.5", False),
    ],
)
def test_a_name_that_a_stranger_could_own_is_not_ours(host: str, wanted: bool) -> None:
    assert is_own(host_of(host), {"allowed.example.com"}) is wanted


@pytest.mark.parametrize("path", ["", "app.js", "api/session", "api/streams", "api/streams/S/messages", "api/events"])
async def test_without_users_nothing_of_the_dashboard_is_shown_under_a_strangers_name(
    start_server: StartServer, path: str
) -> None:
    running = await start_server(options())
    await add_stream(running, "S", "s.>")

    assert status(await ask(running, f"/dashboard/{path}", "localhost:8222")) == 200
    assert status(await ask(running, f"/dashboard/{path}", f"{socket.gethostname()}:8222")) == 200
    assert status(await ask(running, f"/dashboard/{path}", "rebind.example.com:8222")) == 421
    # Credentials that nobody checks prove nothing.
    assert status(await ask(running, f"/dashboard/{path}", "rebind.example.com:8222", ANN)) == 421


async def test_the_refusal_names_the_setting(start_server: StartServer) -> None:
    answer = await ask(await start_server(options()), "/dashboard/", "nats.example.com")

    assert 'dashboard { hosts: ["nats.example.com"] }' in answer
    assert "--dashboard_hosts nats.example.com" in answer
    assert "Content-Security-Policy" in answer


@pytest.mark.parametrize("path", ["/", "/varz", "/jsz", "/connz", "/healthz", "/metrics"])
async def test_what_other_tools_ask_for_is_answered_under_any_name(start_server: StartServer, path: str) -> None:
    assert status(await ask(await start_server(options()), path, "nats.monitoring.svc.cluster.local:8222")) == 200


async def test_a_change_needs_a_name_of_ours_and_a_page_of_ours(start_server: StartServer) -> None:
    chosen = options(allow_changes=True)
    chosen.dashboard.hosts = ["nats.example.com"]
    running = await start_server(chosen)
    await add_stream(running, "S", "s.>")
    session = await ask(running, "/dashboard/api/session", "localhost")
    token = "X-Jetspark-Token: " + json.loads(session.partition("\r\n\r\n")[2])["token"]

    async def publish(host: str, *headers: str) -> int:
        form = json.dumps({"subject": "s.1", "data": "x"})
        return status(await ask(running, "/dashboard/api/publish", host, token, *headers, method="POST", body=form))

    assert await publish("rebind.example.com", "Origin: http://rebind.example.com") == 421
    assert await publish("localhost:8222", "Origin: http://rebind.example.com") == 403
    assert await publish("localhost:8222", "Origin: null") == 403
    assert await publish("localhost:8222", "Origin: http://[bad") == 403
    assert await publish("localhost:8222", "Origin: http://localhost:9999") == 403
    assert await publish("localhost:8222", "Origin: http://localhost:8222") == 200
    # A proxy that asks under an address of ours, for visitors of a name the operator allowed.
    assert await publish("127.0.0.1:8222", "Origin: https://nats.example.com") == 200
    assert await publish("nats.example.com", "Origin: https://nats.example.com") == 200


async def test_who_logs_in_may_use_any_name(start_server: StartServer) -> None:
    running = await start_server(config=USERS)

    assert status(await ask(running, "/dashboard/api/session", "nats.example.com")) == 401
    assert status(await ask(running, "/dashboard/api/session", "nats.example.com", ANN)) == 200


async def test_where_one_user_stands_for_the_silent_these_need_a_name_of_ours(start_server: StartServer) -> None:
    running = await start_server(config=f"{USERS}\nno_auth_user: bob\n")

    assert status(await ask(running, "/dashboard/api/session", "rebind.example.com")) == 421
    assert status(await ask(running, "/dashboard/api/session", "localhost")) == 200
    assert status(await ask(running, "/dashboard/api/session", "nats.example.com", ANN)) == 200


def test_the_names_come_from_the_file_or_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text('dashboard { hosts: ["one.example.com", "two.example.com"] }')

    assert read_config_file(str(file))[0].dashboard.hosts == ["one.example.com", "two.example.com"]
    line = parse_command_line(["--dashboard_hosts", "one.example.com, two.example.com"])
    assert options_from(line)[0].dashboard.hosts == ["one.example.com", "two.example.com"]
