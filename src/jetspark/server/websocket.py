"""NATS over WebSocket: the same byte stream, carried in frames. aiohttp speaks HTTP and frames.

Decided here: who may upgrade (origin), how frames and the connection's bytes meet, and which close code an ending
gets. Frame boundaries mean nothing to NATS. Not known here: what the bytes say.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, WSMsgType, web

from jetspark.broker.session import REASON_CLIENT, REASON_SHUTDOWN, REASON_STALE
from jetspark.server.listener import join_host_port, open_socket
from jetspark.server.options import OptionsError, WebsocketOptions
from jetspark.server.tls import ssl_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from jetspark.server.connection import Connection
    from jetspark.server.edge import Edge
    from jetspark.server.log import Logger

# One frame to a client is at most this large, so that a slow one holds back no more than it must.
_FRAME_BYTES_MAX: Final = 1024 * 1024
_STOP_TIMEOUT_S: Final = 1.0
_CLOSE_CODES: Final = {
    REASON_CLIENT: WSCloseCode.OK,
    REASON_SHUTDOWN: WSCloseCode.GOING_AWAY,
    REASON_STALE: WSCloseCode.GOING_AWAY,
    "Protocol Violation": WSCloseCode.PROTOCOL_ERROR,
    "Maximum Message Payload Exceeded": WSCloseCode.MESSAGE_TOO_BIG,
}


class WebsocketTransport(asyncio.Transport):
    """What a connection writes to; a task of its own sends the frames."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, connection: Connection) -> None:
        super().__init__()
        self._socket = socket
        self._request = request
        self._connection = connection
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._has_work = asyncio.Event()
        self._is_closing = False
        self._is_protocol_paused = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._high, self._low = 64 * 1024, 16 * 1024

    async def send_frames(self) -> None:
        """Send what was written until the transport is closed and empty."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._waiting:
                data = b"".join(self._waiting)
                self._waiting = []
                for start in range(0, len(data), _FRAME_BYTES_MAX):
                    frame = data[start : start + _FRAME_BYTES_MAX]
                    await self._socket.send_bytes(frame)
                    self._waiting_bytes -= len(frame)
                    self._resume_if_low()
            if self._is_closing:
                return

    async def may_read(self) -> None:
        await self._may_read.wait()

    def _resume_if_low(self) -> None:
        if self._is_protocol_paused and self._waiting_bytes <= self._low:
            self._is_protocol_paused = False
            self._connection.resume_writing()

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        self._waiting.append(bytes(data))
        self._waiting_bytes += len(data)
        self._has_work.set()
        if not self._is_protocol_paused and self._waiting_bytes > self._high:
            self._is_protocol_paused = True
            self._connection.pause_writing()

    def close(self) -> None:
        self._is_closing = True
        self._has_work.set()

    def abort(self) -> None:
        self._is_closing = True
        self._waiting = []
        self._waiting_bytes = 0
        self._has_work.set()
        if self._request.transport is not None:
            self._request.transport.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = self._high if high is None else high
        self._low = self._low if low is None else low

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        transport = self._request.transport
        return default if transport is None else transport.get_extra_info(name, default)


class WebsocketListener:
    """The websocket port of one server."""

    def __init__(
        self, edge: Edge, options: WebsocketOptions, factory: Callable[[], Connection], logger: Logger
    ) -> None:
        self._edge = edge
        self._options = options
        self._factory = factory
        self._logger = logger
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.secure_context: ssl.SSLContext | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_TIMEOUT_S)
        await self._runner.setup()
        try:
            listening = open_socket(self._options.host, self._options.port)
        except OSError as error:
            raise OptionsError(f"Unable to listen for websocket connections: {error}") from None
        self.port = listening.getsockname()[1]
        context = self.secure_context = ssl_context(self._options.tls) if self._options.tls is not None else None
        self._site = web.SockSite(self._runner, listening, ssl_context=context)
        await self._site.start()
        scheme = "wss" if context is not None else "ws"
        address = join_host_port(self._options.host, self.port)
        self._logger.info(f"Listening for websocket clients on {scheme}://{address}")
        if context is None:
            self._logger.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    async def refuse_new(self) -> None:
        """Accept nobody from now on."""
        if self._runner is not None:
            await self._site.stop()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return web.Response(status=405, text="request method must be GET")
        if not self._is_origin_allowed(request):
            return web.Response(status=403, text="origin not allowed")
        socket = web.WebSocketResponse(
            compress=self._options.compression, max_msg_size=0, autoclose=True, autoping=True, heartbeat=None
        )
        if not socket.can_prepare(request).ok:
            return web.Response(
                status=400, text="invalid value for header 'Upgrade'", headers={"Sec-Websocket-Version": "13"}
            )
        socket.headers.extend(self._options.headers)
        await socket.prepare(request)
        await self._serve(socket, request)
        return socket

    def _is_origin_allowed(self, request: web.Request) -> bool:
        options = self._options
        origin = request.headers.get("Origin", "")
        if not origin or not (options.same_origin or options.allowed_origins):
            return True
        url = urlsplit(origin)
        if options.same_origin and url.netloc != request.headers.get("Host", ""):
            return False
        return not options.allowed_origins or origin in options.allowed_origins

    async def _serve(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        connection = self._factory()
        transport = WebsocketTransport(socket, request, connection)
        connection.attach(transport)
        self._edge.opened(connection, "websocket")
        self._edge.say_info(connection)
        self._edge.start_clocks(connection)
        sender = asyncio.ensure_future(transport.send_frames())
        reader = asyncio.ensure_future(_read_frames(socket, transport, connection))
        await asyncio.wait((sender, reader), return_when=asyncio.FIRST_COMPLETED)
        transport.close()
        if sender.done() and not reader.done():
            reason = connection.session.close_reason
            await socket.close(code=_CLOSE_CODES.get(reason, WSCloseCode.POLICY_VIOLATION))
        for task in (sender, reader):
            task.cancel()
        results = await asyncio.gather(sender, reader, return_exceptions=True)
        errors = [result for result in results if isinstance(result, OSError)]
        connection.connection_lost(errors[0] if errors else None)


async def _read_frames(socket: web.WebSocketResponse, transport: WebsocketTransport, connection: Connection) -> None:
    async for message in socket:
        if message.type == WSMsgType.BINARY:
            connection.data_received(message.data)
        elif message.type == WSMsgType.TEXT:
            connection.data_received(message.data.encode())
        await transport.may_read()
