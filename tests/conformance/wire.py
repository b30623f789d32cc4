"""A raw NATS client for conformance tests: what the server wrote is kept byte for byte.

It decides nothing: no reconnect, no retries, no interpretation of JetStream. Frames are kept in arrival
order and handed out by subscription, so that a transcript does not depend on how two subscriptions interleave.
"""

from __future__ import annotations

import collections
import json
import socket
import time
from dataclasses import dataclass
from typing import Any

DEFAULT_TIMEOUT_S = 4.0
Headers = list[tuple[str, str]]


class NoFrame(Exception):
    """Nothing arrived in time."""


@dataclass(slots=True)
class Frame:
    """One thing the server sent. `line` is the control line without its CRLF."""

    op: str
    line: bytes
    subject: str = ""
    sid: str = ""
    reply: str = ""
    header_block: bytes = b""
    payload: bytes = b""

    @property
    def status(self) -> str:
        """What follows `NATS/1.0` on the first header line: "" for an ordinary message."""
        first = self.header_block.split(b"\r\n", 1)[0]
        return first[len(b"NATS/1.0") :].decode("utf-8", "replace").strip()

    @property
    def headers(self) -> Headers:
        lines = self.header_block.split(b"\r\n")[1:]
        pairs = []
        for line in lines:
            if line:
                key, _, value = line.decode("utf-8", "replace").partition(":")
                pairs.append((key, value.removeprefix(" ")))
        return pairs

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> Any:
        return json.loads(self.payload)


def header_block(headers: Headers, status: str = "") -> bytes:
    """The header block for the given pairs, as a client writes it."""
    first = f"NATS/1.0 {status}".rstrip()
    return ("\r\n".join([first, *(f"{key}: {value}" for key, value in headers)]) + "\r\n\r\n").encode()


class WireClient:
    """One connection. Give `options=None` to send no CONNECT at all."""

    def __init__(
        self,
        host: str,
        port: int,
        options: dict[str, Any] | None,
        *,
        inbox_prefix: str = "_INBOX.c",
        answer_pings: bool = True,
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout=DEFAULT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.control: collections.deque[Frame] = collections.deque()
        self.messages: dict[str, collections.deque[Frame]] = collections.defaultdict(collections.deque)
        self.history: list[Frame] = []
        self.closed = False
        self._buffer = bytearray()
        self._answer_pings = answer_pings
        self._inbox_prefix = inbox_prefix
        self._next_sid = 0
        self._next_inbox = 0
        self._next_request = 0
        self._mux_sid = ""
        self.info: dict[str, Any] = {}
        info = self.next_control()
        if info.op == "INFO":
            self.info = json.loads(info.line[5:])
        if options is not None:
            self.send(b"CONNECT " + json.dumps(options).encode() + b"\r\n")

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            self._mark_closed()

    def subscribe(self, subject: str, queue: str = "") -> str:
        self._next_sid += 1
        sid = str(self._next_sid)
        self.send(f"SUB {subject} {queue + ' ' if queue else ''}{sid}\r\n".encode())
        return sid

    def unsubscribe(self, sid: str, max_messages: int | None = None) -> None:
        self.send(f"UNSUB {sid}{'' if max_messages is None else f' {max_messages}'}\r\n".encode())

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", block: bytes = b"") -> None:
        target = f"{subject} {reply}" if reply else subject
        if block:
            line = f"HPUB {target} {len(block)} {len(block) + len(payload)}\r\n"
        else:
            line = f"PUB {target} {len(payload)}\r\n"
        self.send(line.encode() + block + payload + b"\r\n")

    def new_inbox(self) -> str:
        self._next_inbox += 1
        return f"{self._inbox_prefix}.{self._next_inbox}"

    def request(
        self, subject: str, payload: bytes = b"", *, block: bytes = b"", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Frame:
        """Publish with a fresh reply subject and wait for one answer."""
        if not self._mux_sid:
            self._mux_sid = self.subscribe(f"{self._inbox_prefix}.m.*")
        self._next_request += 1
        inbox = f"{self._inbox_prefix}.m.{self._next_request}"
        self.publish(subject, payload, reply=inbox, block=block)
        deadline_s = time.monotonic() + timeout_s
        while True:
            frame = self.next_message(self._mux_sid, timeout_s=deadline_s - time.monotonic())
            if frame.subject == inbox:
                return frame

    def flush(self) -> None:
        """PING and wait for its PONG: everything sent before has been read by the server."""
        self.send(b"PING\r\n")
        while self.next_control().op != "PONG":
            pass

    def next_message(self, sid: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Frame:
        queue = self.messages[sid]
        self._read_until(lambda: bool(queue), timeout_s, f"message on subscription {sid}")
        return queue.popleft()

    def next_control(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> Frame:
        """The next frame that is not a message; closing of the connection is the frame `EOF`."""
        self._read_until(lambda: bool(self.control), timeout_s, "control frame")
        return self.control.popleft()

    def drain_arrived(self, duration_s: float) -> None:
        """Read whatever arrives within the duration: for saying that nothing comes."""
        try:
            self._read_until(lambda: False, duration_s, "")
        except NoFrame:
            return

    def _read_until(self, done: Any, timeout_s: float, what: str) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not done():
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0 or self.closed:
                raise NoFrame(f"no {what} within {timeout_s:g} s" + (" (connection closed)" if self.closed else ""))
            self.socket.settimeout(remaining_s)
            try:
                chunk = self.socket.recv(1 << 18)
            except TimeoutError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                self._mark_closed()
                continue
            self._buffer += chunk
            self._parse()

    def _mark_closed(self) -> None:
        if not self.closed:
            self.closed = True
            self._keep(Frame("EOF", b""))

    def _keep(self, frame: Frame) -> None:
        self.history.append(frame)
        if frame.sid:
            self.messages[frame.sid].append(frame)
        else:
            self.control.append(frame)

    def _parse(self) -> None:
        buffer = self._buffer
        while True:
            end = buffer.find(b"\r\n")
            if end < 0:
                return
            line = bytes(buffer[:end])
            op = line.split(b" ", 1)[0].decode("latin-1")
            if op not in ("MSG", "HMSG"):
                del buffer[: end + 2]
                if op == "PING" and self._answer_pings:
                    self.send(b"PONG\r\n")
                else:
                    self._keep(Frame(op, line))
                continue
            words = line.decode("utf-8", "replace").split()
            total = int(words[-1])
            if len(buffer) < end + 2 + total + 2:
                return
            body = bytes(buffer[end + 2 : end + 2 + total])
            del buffer[: end + 2 + total + 2]
            header_size = int(words[-2]) if op == "HMSG" else 0
            size_words = 2 if op == "HMSG" else 1
            reply = words[3] if len(words) == 4 + size_words else ""
            self._keep(Frame(op, line, words[1], words[2], reply, body[:header_size], body[header_size:]))
