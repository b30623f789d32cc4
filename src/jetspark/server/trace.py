"""The protocol in the log, for `-V`: what each client said and what it was told.

A traced connection reads its bytes a second time with a parser of its own, so that connections that are not traced
pay nothing. Secrets in CONNECT are left out. Not known here: what the operations do.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Final

from jetspark.protocol.parser import OpHandler, Parser
from jetspark.server.connection import Connection
from jetspark.server.describe import describe

if TYPE_CHECKING:
    from jetspark.server.edge import Edge

_SECRETS: Final = re.compile(r'("(?:pass|auth_token|sig|jwt)"\s*:\s*)"(?:[^"\\]|\\.)*"')
# Only limits of memory: the session's own parser enforces the real ones.
_PAYLOAD_MAX: Final = 1 << 30
_LINE_MAX: Final = 1 << 20


class _Listener(OpHandler):
    """Writes every operation a client sends."""

    def __init__(self, connection: TracedConnection) -> None:
        super().__init__()
        self._connection = connection

    def on_pub(self, subject: bytes, reply: bytes, header_size: int, body: bytes) -> None:
        middle = subject + b" " + reply if reply else subject
        self._connection.trace(f"<<- [PUB {_text(middle)} {len(body)}]")
        self._connection.trace_payload("<<-", body, 0)

    def on_hpub(self, subject: bytes, reply: bytes, header_size: int, body: bytes) -> None:
        middle = subject + b" " + reply if reply else subject
        self._connection.trace(f"<<- [HPUB {_text(middle)} {header_size} {len(body)}]")
        self._connection.trace_payload("<<-", body, header_size)

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        words = b" ".join(word for word in (subject, queue, sid) if word)
        self._connection.trace(f"<<- [SUB {_text(words)}]")

    def on_unsub(self, sid: bytes, max_messages: int) -> None:
        limit = f" {max_messages}" if max_messages > 0 else ""
        self._connection.trace(f"<<- [UNSUB {_text(sid)}{limit}]")

    def on_connect(self, document: bytes) -> None:
        shown = _SECRETS.sub(r'\1"[REDACTED]"', _text(document))
        self._connection.trace(f"<<- [CONNECT {shown}]")

    def on_ping(self) -> None:
        self._connection.trace("<<- [PING]")

    def on_pong(self) -> None:
        self._connection.trace("<<- [PONG]")

    def on_violation(self, text: str) -> None:
        self.halted = True


class TracedConnection(Connection):
    """A connection whose traffic is written to the log."""

    __slots__ = ("_headers_only", "_logger", "_parser", "_payload_len_max", "_rest")

    def __init__(self, edge: Edge, payload_len_max: int, *, headers_only: bool = False) -> None:
        super().__init__(edge)
        self._headers_only = headers_only
        self._logger = edge.logger
        self._payload_len_max = payload_len_max
        self._parser = Parser(_Listener(self), _PAYLOAD_MAX, _LINE_MAX)
        self._rest = b""

    def attach(self, transport: asyncio.Transport) -> None:
        super().attach(transport)
        self.write = self._traced_write

    def data_received(self, data: bytes) -> None:
        if not self.session.closing:
            self._parser.feed(data)
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._parser.discard()
        self._rest = b""
        super().connection_lost(error)

    def trace(self, text: str) -> None:
        self._logger.trace(f"{describe(self.session)} - {text}")

    def trace_payload(self, arrow: str, body: bytes, header_size: int) -> None:
        if self._headers_only:
            if header_size == 0:
                return
            body = body[:header_size]
        shown = body[: self._payload_len_max] if self._payload_len_max > 0 else body
        dots = "..." if len(shown) < len(body) else ""
        self.trace(f"{arrow} MSG_PAYLOAD: [{json.dumps(_text(shown), ensure_ascii=False)}{dots}]")

    def _traced_write(self, data: bytes) -> None:
        self.transport.write(data)
        text = self._rest + data
        position = 0
        while (end := text.find(b"\r\n", position)) >= 0:
            line = text[position:end]
            after = end + 2
            if line.startswith((b"MSG ", b"HMSG ")):
                size = int(line.rsplit(b" ", 1)[1])
                if len(text) < after + size + 2:
                    break
                self.trace(f"->> [{_text(line)}]")
                header_size = int(line.split()[-2]) if line.startswith(b"H") else 0
                self.trace_payload("->>", text[after : after + size], header_size)
                after += size + 2
            elif not line.startswith(b"INFO "):
                self.trace(f"->> [{_text(line)}]")
            position = after
        self._rest = text[position:]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
