"""NATS over WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.server.certificates import Authority
from tests.server.harness import Running, StartServer

CONFIG = "port: -1\nwebsocket { port: -1, host: 127.0.0.1, no_tls: true %s }\n"
HELLO = b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def url(running: Running) -> str:
    return f"http://127.0.0.1:{running.server.websocket_port}/"


async def receive_until(socket: aiohttp.ClientWebSocketResponse, part: bytes) -> bytes:
    """Bytes of as many frames as it takes."""
    data = b""
    async with asyncio.timeout(10):
        while part not in data:
            data += await socket.receive_bytes()
    return data


async def test_info_comes_at_once_and_operations_follow(start_server: StartServer, http: aiohttp.ClientSession) -> None:
    running = await start_server(config=CONFIG % "")

    async with http.ws_connect(url(running)) as socket:
        info = await receive_until(socket, b"\r\n")
        assert json.loads(info.removeprefix(b"INFO "))["server_id"] == running.server.server_id
        await socket.send_bytes(HELLO)
        assert await receive_until(socket, b"PONG\r\n")
        kinds = [connection.session.kind for connection in running.server.edge.connections.values()]
        assert kinds == ["websocket"]


async def test_frames_need_not_be_whole_operations_and_may_be_text(
    start_server: StartServer, http: aiohttp.ClientSession
) -> None:
    running = await start_server(config=CONFIG % "")

    async with http.ws_connect(url(running)) as socket:
        for byte in HELLO:
            await socket.send_bytes(bytes([byte]))
        await receive_until(socket, b"PONG\r\n")
        await socket.send_str("SUB a 1\r\nPUB a 5\r\nhel")
        await socket.send_bytes(b"lo\r\n")

        assert b"MSG a 1 5\r\nhello\r\n" in await receive_until(socket, b"hello\r\n")


async def test_websocket_and_plain_clients_talk(start_server: StartServer, http: aiohttp.ClientSession) -> None:
    running = await start_server(config=CONFIG % ", compression: true")
    plain = await running.login()

    async with http.ws_connect(url(running), compress=15) as socket:
        await socket.send_bytes(HELLO + b"SUB a 1\r\nPING\r\n")
        await receive_until(socket, b"PONG\r\n")
        plain.send("PUB a 300000", "x" * 300_000)

        assert b"MSG a 1 300000\r\n" in await receive_until(socket, b"x\r\n")


async def test_a_client_that_closes_is_gone(start_server: StartServer, http: aiohttp.ClientSession) -> None:
    running = await start_server(config=CONFIG % "")

    async with http.ws_connect(url(running)) as socket:
        await socket.send_bytes(HELLO)
        await receive_until(socket, b"PONG\r\n")

    assert "wid:1" in await running.log.wait_for("Client connection closed: Client Closed")


@pytest.mark.parametrize(
    ("said", "code"),
    [(b"NONSENSE\r\n", aiohttp.WSCloseCode.PROTOCOL_ERROR)],
)
async def test_the_close_code_tells_why(
    start_server: StartServer, http: aiohttp.ClientSession, said: bytes, code: int
) -> None:
    running = await start_server(config=CONFIG % "")

    async with http.ws_connect(url(running)) as socket:
        await socket.send_bytes(said)
        received = [message async for message in socket]

    assert received[-1].data.endswith(b"-ERR 'Unknown Protocol Operation'\r\n")
    assert socket.close_code == code


async def test_stopping_the_server_says_goodbye(start_server: StartServer, http: aiohttp.ClientSession) -> None:
    running = await start_server(config=CONFIG % "")

    async with http.ws_connect(url(running)) as socket:
        await receive_until(socket, b"INFO")
        stopping = asyncio.ensure_future(running.server.stop())
        assert [message async for message in socket] == []
        await stopping

    assert socket.close_code == aiohttp.WSCloseCode.GOING_AWAY


async def test_what_is_no_upgrade_is_refused(start_server: StartServer, http: aiohttp.ClientSession) -> None:
    running = await start_server(config=CONFIG % "")

    async with http.get(url(running)) as response:
        assert response.status == 400
        assert response.headers["Sec-Websocket-Version"] == "13"
    async with http.post(url(running)) as response:
        assert response.status == 405


@pytest.mark.parametrize(
    ("settings", "origin", "is_allowed"),
    [
        ("", "http://evil.example", True),
        (", same_origin: true", "http://evil.example", False),
        (", same_origin: true", "", True),
        (', allowed_origins: ["http://good.example"]', "http://good.example", True),
        (', allowed_origins: ["http://good.example"]', "http://evil.example", False),
    ],
)
async def test_browsers_may_be_kept_to_known_origins(
    start_server: StartServer, http: aiohttp.ClientSession, settings: str, origin: str, is_allowed: bool
) -> None:
    running = await start_server(config=CONFIG % settings)
    headers = {"Origin": origin} if origin else {}

    if is_allowed:
        async with http.ws_connect(url(running), headers=headers) as socket:
            assert await receive_until(socket, b"INFO")
    else:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await http.ws_connect(url(running), headers=headers)


async def test_websocket_may_be_encrypted(
    start_server: StartServer, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("server")
    tls = f'tls {{ cert_file: "{certificate.cert_file}", key_file: "{certificate.key_file}" }}'
    running = await start_server(config=f"port: -1\nwebsocket {{ port: -1, host: 127.0.0.1, {tls} }}\n")

    address = f"https://127.0.0.1:{running.server.websocket_port}/"
    async with http.ws_connect(address, ssl=authority.client_context()) as socket:
        assert await receive_until(socket, b"INFO")
