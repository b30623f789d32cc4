"""One transport of a link, as asyncio sees it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from jetspark.client.errors import ConnectionLostError
from jetspark.client.websocket import WebSocketCodec

if TYPE_CHECKING:
    from jetspark.client.aio.link import Link

# How long a server may read nothing of a connection that is closed, or not answer its goodbye.
GOODBYE_MAX_S = 1.0


class Wire(asyncio.Protocol):
    """One transport of a link. A link has many over its life, one at a time."""

    def __init__(self, link: Link, codec: WebSocketCodec | None) -> None:
        self.link = link
        self.codec = codec
        self.transport: Any = None
        self.paused = False
        self.is_gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self.transport = transport
        self.transport.set_write_buffer_limits(high=256 * 1024)

    def data_received(self, data: bytes) -> None:
        """Bytes from the server."""
        if self.codec is not None:
            data = self.codec.feed(data)
            answer = self.codec.take_output()
            if answer:
                self.transport.write(answer)
            if not data:
                if self.codec.failure is not None:
                    self.link.wire_lost(self, self.codec.failure)
                return
        self.link.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self.is_gone.set()
        self.link.wire_lost(self, exc or ConnectionLostError("the server closed the connection"))

    def pause_writing(self) -> None:
        """The transport has enough to send."""
        self.paused = True

    def resume_writing(self) -> None:
        """The transport has room again."""
        self.paused = False
        self.link.flush_output()

    def write(self, data: bytes) -> None:
        """Hand bytes to the transport, in a frame of their own when it is a websocket."""
        self.transport.write(data if self.codec is None else self.codec.encode(data))

    async def close(self, is_tls: bool) -> None:
        """Send what is left while the server reads it, and close the socket.

        With TLS both sides say goodbye first. A server that does neither is not waited for.
        """
        transport = self.transport
        transport.close()
        left = transport.get_write_buffer_size()
        is_waiting = is_tls or left > 0
        while is_waiting:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.is_gone.wait(), GOODBYE_MAX_S)
            before, left = left, transport.get_write_buffer_size()
            is_waiting = not self.is_gone.is_set() and left < before
        transport.abort()
