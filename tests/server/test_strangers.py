"""What somebody may send who has not logged in, and what is left of it when the connection has ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from tests.server.harness import Running, StartServer, WireClient, until

from jetspark.broker.interest import Subscription
from jetspark.broker.session import Session
from jetspark.server.closed import ClosedConnection, ClosedConnections
from jetspark.testing.processes import ServerProcess, server_command

PASSWORD = "a secret that is in no other test"
OPEN = "port: -1\n"
LOCKED = f'port: -1\nauthorization {{ user: u, password: "{PASSWORD}", timeout: 10 }}\n'
SERVERS = ["jetspark", pytest.param("nats-server", marks=pytest.mark.oracle)]
MEGABYTE = 1024 * 1024
STRANGERS = 60

# What is not the beginning of CONNECT, whole and cut short.
NOT_CONNECT = {
    "publish": b"PUB x 2\r\nhi\r\n",
    "publish begun": b"PUB x 1048576\r\n" + b"x" * 100,
    "publish too large": b"PUB x 99999999\r\n",
    "publish with headers": b"HPUB x 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    "subscribe": b"SUB x 1\r\n",
    "unsubscribe": b"UNSUB 1\r\n",
    "ping": b"PING\r\n",
    "pong": b"PONG\r\n",
    "ok": b"+OK\r\n",
    "error": b"-ERR 'x'\r\n",
    "info": b"INFO {}\r\n",
    "garbage": b"GARBAGE\r\n",
    "an empty line": b"\r\n",
    "a space": b" CONNECT {}\r\n",
    "one letter": b"P",
    "an argument begun": b"PUB x",
    "a zero": b"\0",
}
# What a server without users answers.
TAKEN = {
    "publish": b"PUB x 2\r\nhi\r\n",
    "subscribe": b"SUB x 1\r\n",
    "unsubscribe": b"UNSUB 1\r\n",
    "ping": b"PING\r\n",
    "pong": b"PONG\r\n",
    "ok": b"+OK\r\n",
    "info": b"INFO {}\r\n",
}
TAKEN_ANSWERS = {"publish": ["+OK"], "subscribe": ["+OK"], "unsubscribe": ["+OK"], "ping": ["PONG"]}


@contextlib.asynccontextmanager
async def process(name: str, config_text: str) -> AsyncIterator[ServerProcess]:
    command = server_command(name)
    if command is None:
        pytest.skip("nats-server is not installed: nothing to compare with")
    server = ServerProcess(command, config_text=config_text, jetstream=False)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)
        server.discard()


async def connect(port: int) -> WireClient:
    client = WireClient(*await asyncio.open_connection("127.0.0.1", port))
    await client.read_info()
    return client


@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
async def test_who_has_to_log_in_begins_with_connect_or_goes(name: str) -> None:
    async with process(name, LOCKED) as server:
        answers = {}
        for what, data in NOT_CONNECT.items():
            client = await connect(server.port)
            client.writer.write(data)
            answers[what] = await client.rest()
            await client.close()

    assert answers == {what: ["-ERR 'Authorization Violation'"] for what in NOT_CONNECT}


@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
async def test_a_connect_may_come_in_pieces(name: str) -> None:
    async with process(name, LOCKED) as server:
        client = await connect(server.port)
        line = b'connect {"verbose":false,"user":"u","pass":"%b"}\r\n' % PASSWORD.encode()
        for position in range(0, len(line), 7):
            client.writer.write(line[position : position + 7])
            await client.writer.drain()

        assert await client.until_pong() == []
        await client.close()


@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
async def test_a_connect_that_never_ends_is_cut_off(name: str) -> None:
    async with process(name, LOCKED) as server:
        client = await connect(server.port)
        client.writer.write(b'CONNECT {"name":"' + b"x" * 5000)

        assert await client.rest() == ["-ERR 'maximum control line exceeded'"]
        await client.close()


@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
async def test_without_users_nobody_has_to_say_connect(name: str) -> None:
    async with process(name, OPEN) as server:
        answers = {}
        for what, data in TAKEN.items():
            client = await connect(server.port)
            client.writer.write(data)
            answers[what] = await client.until_pong()
            await client.close()

    # until_pong stops at the first PONG, which for a PING is its own.
    assert answers == {what: [line for line in TAKEN_ANSWERS.get(what, []) if line != "PONG"] for what in TAKEN}


# -- what is left ---------------------------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def leave(port: int, data: bytes, how: str) -> None:
    """Connect, send, and hang up in one of the ways there are."""
    with socket.create_connection(("127.0.0.1", port), 10) as stranger:
        stranger.recv(65536)
        with contextlib.suppress(OSError):
            stranger.sendall(data)
        if how == "half":
            with contextlib.suppress(OSError):
                stranger.shutdown(socket.SHUT_WR)
                stranger.recv(65536)
        elif how == "reset":
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def leave_often(port: int, data: bytes) -> None:
    for number in range(STRANGERS):
        leave(port, data, ("close", "half", "reset")[number % 3])


@pytest.mark.long
@pytest.mark.parametrize("config_text", [OPEN, LOCKED], ids=["open", "locked"])
@pytest.mark.parametrize("begin", [b"PUB x 1048576\r\n", b'CONNECT {"name":"'], ids=["publish", "connect"])
async def test_strangers_that_leave_cost_no_memory(config_text: str, begin: bytes) -> None:
    async with process("jetspark", config_text) as server:
        await asyncio.to_thread(leave, server.port, begin + b"x" * 1000, "close")
        before = await asyncio.to_thread(resident_bytes, server.pid)

        await asyncio.to_thread(leave_often, server.port, begin + b"x" * (MEGABYTE - 1000))

        client = await connect(server.port)
        if config_text == OPEN:
            await client.until_pong()
        after = await asyncio.to_thread(resident_bytes, server.pid)
        await client.close()
    assert after - before < STRANGERS * MEGABYTE // 3


def sessions_of(running: Running) -> list[Session]:
    gc.collect()
    broker = running.server.broker
    return [each for each in gc.get_objects() if isinstance(each, Session) and each.broker is broker]


async def closed_document(running: Running, count: int) -> list[dict[str, Any]]:
    await until(lambda: len(running.server.edge.closed) == count)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.http_port)
    writer.write(b"GET /connz?state=closed&subs=detail&auth=1 HTTP/1.0\r\n\r\n")
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    connections: list[dict[str, Any]] = json.loads(body)["connections"]
    return connections


@pytest.mark.long
async def test_a_closed_connection_is_known_and_nothing_of_it_is_kept(start_server: StartServer) -> None:
    running = await start_server(config=LOCKED + "http_port: -1\n")
    client = await running.login(user="u", **{"pass": PASSWORD}, name="n", lang="l", version="v")
    client.send("SUB a.b q 7", "UNSUB 7 5", "PUB a.b 2", "hi")
    await client.until_pong()
    client.writer.write(b"PUB a.b 1000000\r\n" + b"x" * 900_000)
    await client.writer.drain()
    await client.close()

    [shown] = await closed_document(running, 1)

    assert shown["reason"] == "Client Closed"
    assert (shown["name"], shown["lang"], shown["version"]) == ("n", "l", "v")
    assert (shown["in_msgs"], shown["out_msgs"], shown["subscriptions"]) == (1, 1, 1)
    assert shown["authorized_user"] == "u"
    [detail] = shown["subscriptions_list_detail"]
    assert (detail["subject"], detail["qgroup"], detail["sid"], detail["msgs"], detail["max"], detail["cid"]) == (
        "a.b",
        "q",
        "7",
        1,
        5,
        shown["cid"],
    )
    await until(lambda: sessions_of(running) == [])


@pytest.mark.long
async def test_a_session_that_ended_holds_nothing_even_if_somebody_holds_it(start_server: StartServer) -> None:
    running = await start_server(config=LOCKED)
    client = await running.login(user="u", **{"pass": PASSWORD})
    [session] = sessions_of(running)
    client.writer.write(b"PUB a.b 1000000\r\n" + b"x" * 900_000)
    await until(lambda: not session.parser.is_empty())

    await client.close()
    await until(lambda: session.closed)

    assert session.parser.is_empty()
    assert session.connect_options == {}
    assert session.out.size == session.held.size == 0


@pytest.mark.long
async def test_nothing_is_read_while_a_password_is_being_checked(start_server: StartServer) -> None:
    stored = bcrypt.hashpw(b"secret", bcrypt.gensalt(11)).decode()
    running = await start_server(config=f'port: -1, authorization {{ user: u, password: "{stored}", timeout: 10 }}')
    client = await running.connect()
    [connection] = running.server.edge.connections.values()

    client.connect(user="u", **{"pass": "secret"})
    for _ in range(8):
        client.writer.write(b"PUB x 1000000\r\n" + b"x" * 1_000_000 + b"\r\n")
    await until(lambda: not connection.transport.is_reading())
    client.send("PING")

    assert await client.line() == "PONG"
    assert connection.session.in_msgs == 8
    assert connection.transport.is_reading()


# -- the list of those that ended -----------------------------------------------------------------------------------


async def session_with(running: Running, subjects: int, name: str) -> Session:
    session = running.server.broker.open_session("nats", "127.0.0.1", 1)
    session.name = name
    session.subscriptions = {
        b"%d" % number: Subscription(session, b"subject.%d" % number, b"", b"%d" % number) for number in range(subjects)
    }
    return session


async def test_the_list_is_bounded_by_number_and_by_size(start_server: StartServer) -> None:
    running = await start_server()
    closed = ClosedConnections(3, bytes_max=100_000)

    for number in range(5):
        closed.add(ClosedConnection(await session_with(running, 1, f"small {number}"), number))
    assert [each.name for each in closed] == ["small 2", "small 3", "small 4"]

    closed.add(ClosedConnection(await session_with(running, 250, "large"), 6))
    assert [each.name for each in closed] == ["small 3", "small 4", "large"]

    closed.add(ClosedConnection(await session_with(running, 250, "large, too"), 7))
    assert [each.name for each in closed] == ["large, too"]

    closed.add(ClosedConnection(await session_with(running, 5000, "huge"), 8))
    assert [(each.name, each.subscription_count, len(each.subscriptions)) for each in closed][-1] == ("huge", 5000, 0)
    assert closed.size_bytes <= 100_000

    closed.limit(0)
    assert list(closed) == []
    assert closed.size_bytes == 0
