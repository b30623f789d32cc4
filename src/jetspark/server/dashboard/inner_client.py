"""A client of this server inside this server: what a form asks for goes the way of every client's request.

Decided here: how to log in, ask and get one answer over a socket pair. So a dashboard user is let in by the server's
own gate, may do what his permissions allow, and everything he does is committed, limited and announced as ever.
Not known here: what is asked, and HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.protocol import headers
from jetspark.protocol.nuid import Nuid
from jetspark.protocol.subjects import is_literal

if TYPE_CHECKING:
    from jetspark.broker.session import Session
    from jetspark.server.server import Server

NAME: Final = "jetspark dashboard"
_LOGIN_TIMEOUT_S: Final = 5.0
_REQUEST_TIMEOUT_S: Final = 10.0
# A line is a subject or an error; a message's bytes are read by count.
_LINE_BYTES_MAX: Final = 1 << 20


class LoginRefused(Exception):
    """The server did not let these credentials in; the text is its reason."""


class RequestFailed(Exception):
    """No answer, or one that says why not."""


class InnerClient:
    """One logged-in connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, nuid: Nuid) -> None:
        self._reader = reader
        self._writer = writer
        self._inbox = f"_INBOX.{nuid.next()}"
        # By inbox: the subject asked, and its answer.
        self._waiting: dict[str, tuple[str, asyncio.Future[tuple[bytes, bytes]]]] = {}
        self._count = 0
        self._last_error = ""
        self._task: asyncio.Task[None] | None = None
        self.session_id = 0
        self.is_closed = False

    @classmethod
    async def login(cls, server: Server, credentials: dict[str, str]) -> InnerClient:
        """Connect and prove who is asking; raises LoginRefused."""
        end = server.connect_socket()
        try:
            end.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=end, limit=_LINE_BYTES_MAX)
        except OSError as error:
            end.close()
            raise LoginRefused(str(error)) from None
        client = cls(reader, writer, server.broker.nuid)
        try:
            async with asyncio.timeout(_LOGIN_TIMEOUT_S):
                await client._introduce(credentials)
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            await client.close()
            raise LoginRefused(str(error) or "the server closed the connection") from None
        except BaseException:
            await client.close()
            raise
        client._task = asyncio.get_running_loop().create_task(client._read())
        return client

    async def _introduce(self, credentials: dict[str, str]) -> None:
        info = await self._reader.readline()
        if not info.startswith(b"INFO "):
            raise LoginRefused(_error_text(info))
        self.session_id = json.loads(info[5:])["client_id"]
        options: dict[str, Any] = {
            **credentials,
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "echo": True,
            "name": NAME,
            "lang": "python",
            "protocol": 0,
        }
        self._writer.write(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        while (line := await self._reader.readline()) != b"PONG\r\n":
            if line.startswith(b"-ERR") or not line:
                raise LoginRefused(_error_text(line))
        self._writer.write(f"SUB {self._inbox}.* 1\r\n".encode())

    def session(self, server: Server) -> Session | None:
        """The server's side of this connection, None once it is gone."""
        connection = server.edge.connections.get(self.session_id)
        return connection.session if connection is not None else None

    async def request(
        self, subject: str, body: bytes = b"", pairs: list[tuple[bytes, bytes]] | None = None
    ) -> tuple[bytes, bytes]:
        """Send a message and wait for its answer: header block and body. Raises RequestFailed."""
        self._count += 1
        reply = f"{self._inbox}.{self._count}"
        answer: asyncio.Future[tuple[bytes, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = subject, answer
        self._last_error = ""
        try:
            self._send(subject, reply, body, pairs)
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                block, payload = await answer
        except TimeoutError:
            raise RequestFailed(self._last_error or f"no answer to {subject}") from None
        except OSError as error:
            raise RequestFailed(str(error)) from None
        finally:
            self._waiting.pop(reply, None)
        if block.startswith(b"NATS/1.0 503"):
            raise RequestFailed(f"nobody answers on {subject}")
        return block, payload

    async def request_json(self, subject: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the JetStream API; an error it answers is raised in its own words."""
        _, payload = await self.request(subject, json.dumps(document).encode() if document else b"")
        answer: dict[str, Any] = json.loads(payload)
        if "error" in answer:
            raise RequestFailed(str(answer["error"].get("description", "refused")))
        return answer

    async def publish(self, subject: str, body: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
        """Send a message to whoever listens; comes back when the server has read it."""
        self._send(subject, "", body, pairs)
        with contextlib.suppress(RequestFailed):
            # Any request will do: messages are read in order.
            await self.request("$SYS.REQ.USER.INFO")
        if self._last_error:
            raise RequestFailed(self._last_error)

    def _send(self, subject: str, reply: str, body: bytes, pairs: list[tuple[bytes, bytes]] | None) -> None:
        if self.is_closed:
            raise RequestFailed("the server closed the connection: try again")
        if not is_literal(subject.encode()):
            # Whatever it is, it must not become part of the protocol.
            raise RequestFailed(f"{subject!r} is not a subject")
        words = f"{subject} {reply}".strip().encode()
        if pairs:
            block = headers.build(pairs)
            size = b" %d %d\r\n" % (len(block), len(block) + len(body))
            self._writer.write(b"HPUB " + words + size + block + body + b"\r\n")
        else:
            self._writer.write(b"PUB " + words + b" %d\r\n" % len(body) + body + b"\r\n")

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                await self._take(line)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            # The other end is this server: it is stopping.
            pass
        finally:
            self.is_closed = True
            self._fail(self._last_error or "the server closed the connection: try again")
            self._writer.close()

    async def _take(self, line: bytes) -> None:
        words = line.split()
        verb = words[0] if words else b""
        if verb == b"PING":
            self._writer.write(b"PONG\r\n")
        elif verb == b"-ERR":
            self._last_error = _error_text(line)
            if "Permissions Violation" in self._last_error:
                # No answer will come to what was not let through; the error names its subject.
                self._fail(self._last_error, lambda subject: f'"{subject}"' in self._last_error)
        elif verb in (b"MSG", b"HMSG"):
            total = int(words[-1])
            header_size = int(words[-2]) if verb == b"HMSG" else 0
            data = (await self._reader.readexactly(total + 2))[:-2]
            # An answer to a direct read comes under the stored subject, but nothing here asks for one.
            _, answer = self._waiting.get(words[1].decode("utf-8", "replace"), ("", None))
            if answer is not None and not answer.done():
                answer.set_result((data[:header_size], data[header_size:]))

    def _fail(self, reason: str, is_meant: Callable[[str], bool] = lambda subject: True) -> None:
        for subject, answer in self._waiting.values():
            if is_meant(subject) and not answer.done():
                answer.set_exception(OSError(reason))

    async def close(self) -> None:
        self.is_closed = True
        self._writer.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def _error_text(line: bytes) -> str:
    return line.removeprefix(b"-ERR").strip().strip(b"'").decode("utf-8", "replace") or "the connection was closed"
