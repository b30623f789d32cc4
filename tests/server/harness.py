"""A server, its log and raw clients, for the tests of this room."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from jetspark.server.server import Server

TIMEOUT_S = 10.0


class MemorySink:
    """Log lines kept in memory; a test may wait for one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = asyncio.Event()

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")
        self._changed.set()

    def reopen(self) -> None:
        self.lines.append("reopened")

    def close(self) -> None:
        """Nothing to close."""

    async def wait_for(self, part: str) -> str:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                for line in self.lines:
                    if part in line:
                        return line
                self._changed.clear()
                await self._changed.wait()


class WireClient:
    """A client that speaks bytes: what is sent and received is exactly what the test says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.info: dict[str, Any] = {}

    async def read_info(self) -> dict[str, Any]:
        line = await self.line()
        assert line.startswith("INFO "), line
        self.info = json.loads(line.removeprefix("INFO "))
        return self.info

    def send(self, *lines: str) -> None:
        self.writer.write("".join(f"{line}\r\n" for line in lines).encode())

    def connect(self, **options: Any) -> None:
        self.send("CONNECT " + json.dumps({"verbose": False, "pedantic": False, **options}))

    async def line(self) -> str:
        async with asyncio.timeout(TIMEOUT_S):
            return (await self.reader.readline()).decode().removesuffix("\r\n")

    async def until_pong(self) -> list[str]:
        """Send a PING; the lines that came before its PONG."""
        self.send("PING")
        lines: list[str] = []
        while (line := await self.line()) != "PONG":
            assert line or not self.reader.at_eof(), f"closed after {lines}"
            lines.append(line)
        return lines

    async def rest(self) -> list[str]:
        """Everything until the server closes."""
        async with asyncio.timeout(TIMEOUT_S):
            return (await self.reader.read()).decode().split("\r\n")[:-1]

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class FakeTransport(asyncio.Transport):
    """What a server writes, kept in order; the test plays the network."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def take(self) -> bytes:
        data, self.written = self.written, b""
        return data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The buffer never fills."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.001, turn.set_result, None)
            await turn


class Running:
    """A server of one test, its log, and a way to connect to it."""

    def __init__(self, server: Server, sink: MemorySink) -> None:
        self.server = server
        self.log = sink
        self._clients: list[WireClient] = []
        # A test that makes the server fail says so; otherwise no failure may be in the log at the end.
        self.expects_failures = False

    async def connect(self, **kwargs: Any) -> WireClient:
        """A client that has read INFO and said nothing yet."""
        client = await self.connect_silently(**kwargs)
        await client.read_info()
        return client

    async def connect_silently(self, **kwargs: Any) -> WireClient:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 26, **kwargs)
        client = WireClient(reader, writer)
        self._clients.append(client)
        return client

    async def login(self, **options: Any) -> WireClient:
        """A client that is connected and known."""
        client = await self.connect()
        client.connect(**options)
        await client.until_pong()
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await self.server.stop()
        if not self.expects_failures:
            assert not [line for line in self.log.lines if "mistake in this server" in line]


StartServer = Callable[..., Any]
