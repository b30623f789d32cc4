"""A peer that says exactly what a test tells it to, where the exact bytes matter."""

from __future__ import annotations

import asyncio

from tests.client.waiting import give_way

INFO = (
    b'INFO {"server_id":"peer","version":"2.15.1","proto":1,"headers":true,"max_payload":1048576,"jetstream":true}\r\n'
)


class ScriptedPeer:
    """Accepts connections, answers CONNECT and PING, and remembers every line it was sent."""

    def __init__(self) -> None:
        self.answers_pings = True
        # Said instead of the next PONG, once.
        self.next_pong = b""
        self.lines: list[bytes] = []
        self.connection_count = 0
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._news = asyncio.Event()
        self._taken = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        # Whoever was accepted just now becomes a connection first: as a bare socket it would be left to the collector.
        await give_way()
        for writer in list(self._writers):
            writer.transport.abort()
        await give_way()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._writers.add(writer)
        self.connection_count += 1
        writer.write(INFO)
        try:
            while line := await reader.readline():
                if line.startswith((b"PUB ", b"HPUB ")):
                    line += await reader.readexactly(int(line.split()[-1]) + 2)
                self.lines.append(line)
                self._news.set()
                if line == b"PING\r\n" and self.answers_pings:
                    writer.write(self.next_pong or b"PONG\r\n")
                    self.next_pong = b""
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def send(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)

    def cut(self) -> None:
        """Break the current connection."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def expect(self, start: bytes, timeout_s: float = 5.0) -> bytes:
        """The next line that starts so; earlier lines are passed over."""
        async with asyncio.timeout(timeout_s):
            while True:
                while self._taken < len(self.lines):
                    line = self.lines[self._taken]
                    self._taken += 1
                    if line.startswith(start):
                        return line
                self._news.clear()
                await self._news.wait()

    def message(self, subject: str, sid: bytes, data: bytes = b"", *, reply: str = "", header: bytes = b"") -> None:
        """Deliver one message."""
        name = subject.encode() + b" " + sid + (b" " + reply.encode() if reply else b"")
        if header:
            self.send(b"HMSG %b %d %d\r\n%b%b\r\n" % (name, len(header), len(header) + len(data), header, data))
        else:
            self.send(b"MSG %b %d\r\n%b\r\n" % (name, len(data), data))
