"""NATS inside a websocket: the upgrade and the frames, without I/O.

Frame boundaries mean nothing to NATS, so a codec turns bytes into bytes. Only what a NATS server uses is spoken:
binary frames, ping, close; no extensions.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Final

from jetspark.client.core.server_pool import ServerAddress
from jetspark.client.errors import ConnectionLostError, ProtocolError

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY: Final = 2
_CLOSE: Final = 8
_PING: Final = 9
_PONG: Final = 10
_UPGRADE_SIZE_MAX: Final = 16 * 1024
_FRAME_SIZE_MAX: Final = 128 * 1024 * 1024


def mask(data: bytes, key: bytes) -> bytes:
    """XOR with a repeating key, over one large integer instead of byte by byte."""
    size = len(data)
    repeated = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")).to_bytes(size, "little")


class WebSocketCodec:
    """One websocket: feed it what the socket had, send what it gives."""

    def __init__(
        self, address: ServerAddress, headers: dict[str, str] | None, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._random_bytes = random_bytes
        key = base64.b64encode(random_bytes(16))
        self._accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
        self._buffer = b""
        self._upgraded = False
        self.failure: Exception | None = None
        lines = [
            f"GET {address.path or '/'} HTTP/1.1",
            f"Host: {address.host}:{address.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key.decode()}",
            "Sec-WebSocket-Version: 13",
        ]
        for name, value in (headers or {}).items():
            if any(c in name + value for c in "\r\n"):
                raise ProtocolError(f"websocket header {name!r} would break the line")
            lines.append(f"{name}: {value}")
        self._output = ("\r\n".join(lines) + "\r\n\r\n").encode()

    def take_output(self) -> bytes:
        """What must be sent beside the user's own data: the upgrade, pongs."""
        output, self._output = self._output, b""
        return output

    def encode(self, data: bytes) -> bytes:
        """One binary frame."""
        return self._frame(_BINARY, data)

    def _frame(self, opcode: int, data: bytes) -> bytes:
        size = len(data)
        key = self._random_bytes(4)
        if size < 126:
            head = bytes([0x80 | opcode, 0x80 | size])
        elif size < 65536:
            head = bytes([0x80 | opcode, 0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([0x80 | opcode, 0x80 | 127]) + size.to_bytes(8, "big")
        return head + key + mask(data, key)

    def feed(self, data: bytes) -> bytes:
        """The NATS bytes among what came; `failure` is set when the socket is of no more use."""
        self._buffer += data
        if not self._upgraded and not self._finish_upgrade():
            return b""
        parts: list[bytes] = []
        while self.failure is None:
            frame = self._next_frame()
            if frame is None:
                break
            opcode, payload = frame
            if opcode <= _BINARY:
                parts.append(payload)
            elif opcode == _PING:
                self._output += self._frame(_PONG, payload)
            elif opcode == _CLOSE:
                self.failure = ConnectionLostError("the server closed the websocket")
        return b"".join(parts)

    def _finish_upgrade(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _UPGRADE_SIZE_MAX:
                self.failure = ProtocolError("the answer to the websocket upgrade is too long")
            return False
        lines = self._buffer[:end].split(b"\r\n")
        answers = {line.partition(b":")[0].strip().lower(): line.partition(b":")[2].strip() for line in lines[1:]}
        if b" 101 " not in lines[0] + b" " or answers.get(b"sec-websocket-accept") != self._accept:
            self.failure = ProtocolError(f"no websocket here: {lines[0][:80].decode('latin-1')}")
            return False
        self._buffer = self._buffer[end + 4 :]
        self._upgraded = True
        return True

    def _next_frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size = buffer[1] & 127
        start = 2
        if size == 126:
            size = int.from_bytes(buffer[2:4], "big")
            start = 4
        elif size == 127:
            size = int.from_bytes(buffer[2:10], "big")
            start = 10
        if buffer[1] & 128 or size > _FRAME_SIZE_MAX:
            self.failure = ProtocolError("not a websocket frame from a server")
            return None
        if len(buffer) < start + size or len(buffer) < start:
            return None
        self._buffer = buffer[start + size :]
        return buffer[0] & 15, buffer[start : start + size]
