"""One socket of a blocking link: TCP, TLS or a websocket, with reads and writes from different threads.

TLS runs over memory buffers: a TLS object must not be used by two threads at once, while the socket under it may.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from jetspark.client.errors import ConnectionLostError
from jetspark.client.websocket import WebSocketCodec

READ_SIZE = 256 * 1024


class TlsCodec:
    """TLS between the wire's bytes and ours."""

    def __init__(self, context: ssl.SSLContext, hostname: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)
        self._lock = threading.Lock()

    def handshake(self, data: bytes) -> tuple[bool, bytes]:
        """(finished, bytes to send) after these bytes from the server."""
        self._incoming.write(data)
        try:
            self._object.do_handshake()
            return True, self._outgoing.read()
        except ssl.SSLWantReadError:
            return False, self._outgoing.read()

    def decode(self, data: bytes) -> bytes:
        """Our bytes in what came."""
        parts: list[bytes] = []
        with self._lock:
            self._incoming.write(data)
            try:
                while part := self._object.read(READ_SIZE):
                    parts.append(part)
            except ssl.SSLWantReadError:
                pass
        return b"".join(parts)

    def encode(self, data: bytes) -> bytes:
        """What to send for ours."""
        with self._lock:
            self._object.write(data)
            return self._outgoing.read()


def readable(*socks: Any, has_poll: bool = hasattr(select, "poll")) -> Callable[[int | None], list[tuple[int, int]]]:
    """Waits up to so many milliseconds for one of these to be readable: their numbers, with what the system said."""
    if has_poll:
        poll = select.poll()
        for sock in socks:
            poll.register(sock, select.POLLIN)
        return poll.poll

    def select_readable(timeout_ms: int | None) -> list[tuple[int, int]]:
        # Windows. Two sockets are too few for its limits to matter.
        try:
            ready, _, _ = select.select(socks, (), (), None if timeout_ms is None else timeout_ms / 1000)
        except ValueError:
            # Closed meanwhile by another thread: reading says so.
            return [(-1, 0)]
        return [(sock.fileno(), 0) for sock in ready]

    return select_readable


class Wire:
    """An open socket and what lies between it and NATS."""

    def __init__(self, sock: Any, codec: WebSocketCodec | None, waked: socket.socket) -> None:
        self.sock = sock
        self.codec = codec
        # Readable when somebody wants the reading thread to look around.
        self._waked = waked
        self.tls: TlsCodec | None = None
        self._write_lock = threading.Lock()
        self._poll = readable(sock, waked)
        self._waked_number = waked.fileno()

    def read(self, timeout_s: float | None) -> bytes:
        """What the server sent; nothing when the time was over or the reader was woken."""
        ready = self._poll(None if timeout_s is None else max(0, int(timeout_s * 1000 + 0.999)))
        is_readable = False
        for number, _ in ready:
            if number == self._waked_number:
                self._waked.recv(4096)
            else:
                is_readable = True
        return self._read_ready() if is_readable else b""

    def _read_ready(self) -> bytes:
        data: bytes = self.sock.recv(READ_SIZE)
        if not data:
            raise ConnectionLostError("the server closed the connection")
        if self.tls is not None:
            data = self.tls.decode(data)
        if self.codec is not None:
            data = self.codec.feed(data)
            answer = self.codec.take_output()
            if answer:
                self.write_raw(answer)
            if self.codec.failure is not None:
                raise self.codec.failure
        return data

    def write(self, data: bytes) -> None:
        """Send, in a frame of its own when it is a websocket."""
        self.write_raw(data if self.codec is None else self.codec.encode(data))

    def write_raw(self, data: bytes) -> None:
        """Send as it is, encrypted when TLS is on."""
        with self._write_lock:
            self.sock.sendall(data if self.tls is None else self.tls.encode(data))

    def start_tls(self, context: ssl.SSLContext, hostname: str, timeout_s: float) -> None:
        """Switch to TLS on the open socket."""
        tls = TlsCodec(context, hostname)
        finished, answer = tls.handshake(b"")
        while True:
            if answer:
                self.sock.sendall(answer)
            if finished:
                break
            self.sock.settimeout(max(0.001, timeout_s))
            data = self.sock.recv(READ_SIZE)
            if not data:
                raise ConnectionLostError("the server closed the connection during the TLS handshake")
            finished, answer = tls.handshake(data)
        self.sock.settimeout(None)
        self.tls = tls

    def close(self) -> None:
        """End both directions, so that a thread blocked on either wakes up."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
