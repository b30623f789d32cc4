"""A client that starts its TLS handshake at once, before it has read INFO: it is served, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.certificates import Authority
from tests.server.harness import FakeTransport, StartServer, WireClient, until

from jetspark.server.connection import Connection
from jetspark.server.secure import SecureLayer
from jetspark.testing.processes import ServerProcess, server_command

CLIENTS = 6
HELLOS = 150
TIMEOUT_S = 15.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def config(authority: Authority, more: str = "") -> str:
    certificate = authority.issue("server")
    return f"""
    port: -1
    tls {{ cert_file: "{certificate.cert_file}", key_file: "{certificate.key_file}", timeout: 5
           {more} }}
    """


class Handshake:
    """The client's side of TLS, run on buffers so that the test decides when each byte is sent."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self.is_done = False

    def step(self, data: bytes = b"") -> bytes:
        """Take what the server sent; give what it is to be sent."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
            self.is_done = True
        except ssl.SSLWantReadError:
            self.is_done = False
        return self._outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        plain = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while part := self._tls.read(65536):
                plain += part
        return plain


def secure_layer(running: Any) -> SecureLayer:
    layer = running.server._new_protocol()()
    assert isinstance(layer, SecureLayer)
    return layer


async def test_info_leaves_before_the_first_byte_is_read(start_server: StartServer, authority: Authority) -> None:
    running = await start_server(config=config(authority))
    wire, layer, client = FakeTransport(), secure_layer(running), Handshake(authority.client_context())

    # In one turn of the loop, as a fast event loop does it.
    layer.connection_made(wire)
    layer.data_received(client.step())

    info, _, answer = wire.take().partition(b"\r\n")
    assert info.startswith(b"INFO {")
    layer.data_received(client.step(answer))
    assert client.is_done
    layer.data_received(client.encrypt(b'CONNECT {"verbose":false}\r\nPING\r\n'))
    answers = b""
    async with asyncio.timeout(TIMEOUT_S):
        while b"PONG\r\n" not in answers:
            await until(lambda: bool(wire.written))
            answers += client.decrypt(wire.take())
    layer.connection_lost(None)


async def test_the_fallback_says_info_before_it_reads_on(start_server: StartServer, authority: Authority) -> None:
    running = await start_server(config=config(authority, 'handshake_first: "10ms"'))
    wire, layer, client = FakeTransport(), secure_layer(running), Handshake(authority.client_context())
    layer.connection_made(wire)
    # The timer's turn, and the hello in the same one.
    layer._say_info_in_clear()

    layer.data_received(client.step())

    info, _, answer = wire.take().partition(b"\r\n")
    assert info.startswith(b"INFO {")
    layer.data_received(client.step(answer))
    assert client.is_done
    layer.connection_lost(None)


async def test_what_is_said_during_a_handshake_waits_for_its_end(
    start_server: StartServer, authority: Authority
) -> None:
    running = await start_server(config=config(authority))
    wire, layer, client = FakeTransport(), secure_layer(running), Handshake(authority.client_context())
    layer.connection_made(wire)
    layer.data_received(client.step())
    answer = wire.take().partition(b"\r\n")[2]
    connection = next(iter(running.server.edge.connections.values()))
    assert isinstance(connection, Connection)

    connection.session.send(b"PING\r\n")
    running.server.edge.perform()

    assert wire.take() == b""
    layer.data_received(client.step(answer))
    assert client.decrypt(wire.take()) == b"PING\r\n"
    layer.connection_lost(None)


# -- a whole server -------------------------------------------------------------------------------------------------


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


async def secure_client(port: int, context: ssl.SSLContext) -> WireClient:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = WireClient(reader, writer)
    await client.read_info()
    await writer.start_tls(context, server_hostname="127.0.0.1")
    client.connect()
    await client.until_pong()
    return client


async def busy(client: WireClient, is_over: asyncio.Event) -> int:
    """Publish and ask for an answer, until told to stop and once more after that; how often it was answered."""
    count, is_last = 0, False
    while not is_last:
        is_last = is_over.is_set()
        client.send("PUB x 5", "hello")
        await client.until_pong()
        count += 1
    return count


def early_hellos(port: int, context: ssl.SSLContext, count: int) -> int:
    """Connect and send a hello at once, one after another; how many were answered."""
    sockets = []
    for _ in range(count):
        connected = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        connected.sendall(Handshake(context).step())
        sockets.append(connected)
    answered = 0
    for connected in sockets:
        with connected, contextlib.suppress(OSError):
            answered += bool(connected.recv(1))
    return answered


async def early_login(port: int, context: ssl.SSLContext) -> bytes:
    """The server's first word to a client whose hello comes at once; the client logs in after it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = Handshake(context)
    writer.write(client.step())
    first = await reader.readuntil(b"\r\n")
    while not client.is_done:
        writer.write(client.step(await reader.read(65536)))
    writer.write(client.encrypt(b'CONNECT {"verbose":false}\r\nPING\r\n'))
    answers = b""
    while b"PONG\r\n" not in answers:
        data = await reader.read(65536)
        assert data, f"closed after {answers!r}"
        answers += client.decrypt(data)
    writer.close()
    return first[:5]


@pytest.mark.long
@pytest.mark.parametrize("name", ["jetspark", pytest.param("nats-server", marks=pytest.mark.oracle)])
async def test_early_hellos_of_a_stranger_silence_nobody(name: str, authority: Authority, tmp_path: Path) -> None:
    context = authority.client_context()
    async with process(name, config(authority)) as server, asyncio.timeout(45):
        clients = [await secure_client(server.port, context) for _ in range(CLIENTS)]
        is_over = asyncio.Event()
        loops = [asyncio.ensure_future(busy(client, is_over)) for client in clients]

        answered = [await asyncio.to_thread(early_hellos, server.port, context, HELLOS // 10) for _ in range(10)]
        first = await early_login(server.port, context)
        is_over.set()

        assert sum(answered) == HELLOS
        assert first == b"INFO "
        assert all(count > 0 for count in await asyncio.gather(*loops))
        for client in clients:
            await client.close()
    assert not [line for line in server.log if "Traceback" in line or "SSLWantRead" in line]
