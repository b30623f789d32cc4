"""What goes wrong for one connection ends that connection: the others are served as if nothing had happened."""

from __future__ import annotations

import asyncio
from typing import Any

import bcrypt
import pytest
from tests.server.harness import FakeTransport, Running, StartServer, WireClient, until
from tests.server.test_edge import HeldDisk, request, with_stream

from jetspark.broker.session import Session
from jetspark.broker.system import SystemServices
from jetspark.server.connection import Connection
from jetspark.store import disk
from jetspark.store.disk import DiskOp


class Broken(Exception):
    """What the broken parts of these tests raise."""


class BrokenTransport(FakeTransport):
    """Works until it is told which of its methods is broken."""

    broken: frozenset[str] = frozenset()

    def _use(self, name: str) -> None:
        if name in self.broken:
            raise Broken(name)

    def write(self, data: Any) -> None:
        self._use("write")
        super().write(data)

    def close(self) -> None:
        self._use("close")
        super().close()

    def abort(self) -> None:
        super().abort()
        self._use("abort")

    def pause_reading(self) -> None:
        self._use("pause_reading")

    def resume_reading(self) -> None:
        self._use("resume_reading")


class BrokenServices(SystemServices):
    """The system account's side of a server, broken where it hears of one client by name."""

    def connected(self, session: Session) -> None:
        if session.name == "victim":
            raise Broken("connected")

    def disconnected(self, session: Session) -> None:
        if session.name == "leaver":
            raise Broken("disconnected")


class BrokenDict(dict[bytes, Any]):
    """Takes nothing."""

    def __setitem__(self, key: bytes, value: Any) -> None:
        raise Broken("a dictionary")


class BrokenText:
    """Cannot be read."""

    def __str__(self) -> str:
        raise Broken("a text")


def plug_in(running: Running, *broken: str) -> tuple[Connection, BrokenTransport]:
    """A logged-in connection whose transport breaks from now on."""
    running.expects_failures = True
    connection = Connection(running.server.edge)
    transport = BrokenTransport()
    connection.connection_made(transport)
    connection.data_received(b'CONNECT {"verbose":false}\r\nSUB x 1\r\n')
    transport.broken = frozenset(broken)
    return connection, transport


def is_gone(running: Running, connection: Connection) -> bool:
    connection.connection_lost(None)
    return connection.session.session_id not in running.server.edge.connections


async def test_a_write_that_raises_ends_one_connection_and_the_others_hear(start_server: StartServer) -> None:
    running = await start_server()
    listeners = [await running.login() for _ in range(2)]
    listeners[0].send("SUB x 1")
    await listeners[0].until_pong()
    broken, transport = plug_in(running, "write")
    listeners[1].send("SUB x 1")
    await listeners[1].until_pong()

    publisher = await running.login()
    for _ in range(3):
        publisher.send("PUB x 2", "hi")
        await publisher.until_pong()

    for listener in listeners:
        assert await listener.until_pong() == ["MSG x 1 2", "hi"] * 3
    assert transport.is_closed
    assert broken.session.close_reason == "Internal Error"
    assert "Traceback" in await running.log.wait_for("mistake in this server")
    assert is_gone(running, broken)


async def test_what_a_client_says_and_breaks_something_ends_that_client(start_server: StartServer) -> None:
    running = await start_server()
    running.expects_failures = True
    other = await running.login()
    running.server.broker.system = BrokenServices()

    victim = await running.connect()
    victim.connect(name="victim")

    assert "PONG" not in await victim.rest()
    assert await other.until_pong() == []
    assert "connected" in await running.log.wait_for("mistake in this server")


async def test_the_login_of_a_bcrypt_user_that_breaks_something_ends_that_client(start_server: StartServer) -> None:
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    running = await start_server(config=f'port: -1, authorization {{ user: u, password: "{password}" }}')
    running.expects_failures = True
    running.server.broker.system = BrokenServices()
    victim = await running.connect()

    victim.connect(user="u", **{"pass": "secret"}, name="victim")

    assert await victim.rest() == []
    other = await running.login(user="u", **{"pass": "secret"})
    assert await other.until_pong() == []


async def test_a_client_that_leaves_takes_its_subscriptions_along_whatever_breaks(start_server: StartServer) -> None:
    running = await start_server()
    running.expects_failures = True
    leaver = await running.login(name="leaver")
    leaver.send("SUB a 1", "SUB b 2")
    await leaver.until_pong()
    running.server.broker.system = BrokenServices()

    await leaver.close()
    await running.log.wait_for("Client connection closed")

    assert running.server.broker.accounts["$G"].interest.subscription_count == 0
    assert running.server.edge.connections == {}


async def test_a_delivery_that_raises_ends_the_listener_and_not_the_publisher(start_server: StartServer) -> None:
    running = await start_server(
        config="""
        port: -1
        authorization { users: [ { user: a, password: a, permissions: { allow_responses: true, subscribe: "x" } }
                                 { user: b, password: b } ] }
        """
    )
    running.expects_failures = True
    victim = await running.login(user="a", **{"pass": "a"})
    victim.send("SUB x 1")
    await victim.until_pong()
    listener, publisher = [await running.login(user="b", **{"pass": "b"}) for _ in range(2)]
    listener.send("SUB x 1")
    await listener.until_pong()
    next(iter(running.server.broker.sessions.values())).allowed_replies = BrokenDict()

    publisher.send("PUB x r 2", "hi")

    assert await publisher.until_pong() == []
    assert await listener.until_pong() == ["MSG x 1 r 2", "hi"]
    assert await victim.rest() == []


async def test_a_reload_that_cannot_judge_one_client_ends_it_and_judges_the_others(start_server: StartServer) -> None:
    running = await start_server(config="port: -1, authorization { user: u, password: p }")
    running.expects_failures = True
    first, second = [await running.login(user="u", **{"pass": "p"}) for _ in range(2)]
    next(iter(running.server.broker.sessions.values())).connect_options = {"user": BrokenText()}

    running.server.reload(running.server.options)

    assert await first.rest() == []
    assert await second.until_pong() == []
    assert await running.log.wait_for("Reloaded server configuration")


async def test_reading_goes_on_for_all_but_the_one_that_cannot(start_server: StartServer) -> None:
    held = HeldDisk()
    running = await start_server(jetstream=True, disk=held)
    client = await with_stream(running)
    running.server.edge.uncommitted_bytes_max = 1000
    broken, transport = plug_in(running, "resume_reading")
    held.gate.clear()

    client.send("PUB s.1 _INBOX.1 1", "x")
    await client.until_pong()
    broken.data_received(b"PUB y 2000\r\n" + b"y" * 2000 + b"\r\n")
    client.send("PUB s.1 _INBOX.1 2000", "x" * 2000)
    honest = running.server.edge.connections[1]
    await until(lambda: honest.is_read_paused)
    held.gate.set()

    for _ in range(2):
        assert (await client.line()).startswith("MSG _INBOX.1 1 ")
        await client.line()
    assert await client.until_pong() == []
    assert transport.is_closed
    assert is_gone(running, broken)


@pytest.mark.parametrize("method", ["pause_reading", "close", "abort", "write"])
async def test_a_server_stops_whatever_one_connection_does(start_server: StartServer, method: str) -> None:
    running = await start_server()
    client = await running.login()
    broken, _ = plug_in(running, method)
    asyncio.get_running_loop().call_later(0.1, broken.connection_lost, None)

    async with asyncio.timeout(10):
        await running.server.stop()

    assert await client.rest() == []


async def test_a_lame_duck_lets_everybody_go_whatever_one_connection_does(start_server: StartServer) -> None:
    running = await start_server(config='port: -1, lame_duck_duration: "30s", lame_duck_grace_period: "1ms"')
    running.server.options.lame_duck_duration_ns = 10_000_000
    broken, _ = plug_in(running, "write", "close")
    client = await running.login(protocol=1)
    asyncio.get_running_loop().call_later(0.1, broken.connection_lost, None)

    running.server.enter_lame_duck()

    assert any('"ldm": true' in line or '"ldm":true' in line for line in await client.rest())
    async with asyncio.timeout(10):
        await running.server.wait_stopped()


@pytest.mark.long
async def test_a_commit_that_raises_is_refused_and_the_next_one_is_made(start_server: StartServer) -> None:
    class BrokenDisk(HeldDisk):
        is_broken = False

        def perform(self, op: DiskOp) -> None:
            if self.is_broken and op.kind == disk.APPEND:
                raise Broken("a disk")
            super().perform(op)

    broken = BrokenDisk()
    running = await start_server(jetstream=True, disk=broken)
    running.expects_failures = True
    client = await with_stream(running)

    broken.is_broken = True
    refused = await request(client, "s.1", {})
    broken.is_broken = False

    assert "internal error" in refused["error"]["description"]
    assert await running.log.wait_for("A commit failed because of a mistake")
    assert await accepted(client) == 1


async def accepted(client: WireClient) -> int:
    """The stream holds off for a moment after a failure."""
    async with asyncio.timeout(10):
        while "error" in (answer := await request(client, "s.1", {})):
            pass
    return int(answer["seq"])
