"""A whole broker in one process, without sockets, files or a clock: for tests and for the simulator.

`BrokerDriver` plays the edge: it performs commits on the disk it was given, moves virtual time and fires timers.
`FakeConnection` plays a client: what is sent is fed to the session, what comes back is parsed into messages.
Nothing waits: after each step everything that can happen now has happened.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetspark.broker.broker import Broker
from jetspark.broker.gate import Gate
from jetspark.broker.options import BrokerOptions
from jetspark.broker.pending_commit import PendingCommit
from jetspark.broker.session import Session
from jetspark.store.disk import Disk
from jetspark.testing.memory_disk import MemoryDisk

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Received:
    """One message as a client got it."""

    subject: str
    sid: str
    reply: str
    header: bytes
    data: bytes

    @property
    def status(self) -> str:
        """`404 No Messages` and the like; empty for a message without a status."""
        return self.header.split(b"\r\n")[0].removeprefix(b"NATS/1.0").strip().decode()

    @property
    def headers(self) -> dict[str, str]:
        """The header lines, the last of each name."""
        lines = [line.partition(b":") for line in self.header.split(b"\r\n")[1:] if line]
        return {name.decode(): value.strip().decode() for name, _, value in lines}

    def json(self) -> Any:
        """The data as a document."""
        return json.loads(self.data)


class BrokerDriver:
    """A broker with everything around it that an edge would be."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        store_dir: str = "/store",
        configure: Callable[[BrokerOptions], None] | None = None,
        gate: Gate | None = None,
        now_ns: int = START_NS,
        seed: int = 1,
    ) -> None:
        self.disk = disk if disk is not None else MemoryDisk(seed)
        self.options = BrokerOptions()
        self.options.server_name = "driver"
        self.options.server_id = "DRIVER"
        self.options.jetstream = True
        self.options.store_dir = store_dir
        if configure is not None:
            configure(self.options)
        self.gate = gate if gate is not None else Gate()
        self.now_ns = now_ns
        self._chance = random.Random(seed)
        self.connections: dict[int, FakeConnection] = {}
        # While True, commits are gathered but not performed, as on a disk that takes its time.
        self.holds_commits = False
        # While False, what the broker noted as a mistake of its own is raised.
        self.expects_failures = False
        self._commit: PendingCommit | None = None
        self.broker = self._start()

    def _start(self) -> Broker:
        broker = Broker(self.options, self.disk, self._chance.randbytes, self.now_ns, self.gate)
        broker.recover()
        return broker

    # -- clients -----------------------------------------------------------------------------------------------------

    def connect(self, **options: Any) -> FakeConnection:
        """A client that has said CONNECT, with headers and no-responders unless told otherwise."""
        connection = FakeConnection(self)
        connect = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
            "lang": "test",
            "version": "0",
            **options,
        }
        connection.send(b"CONNECT " + json.dumps(connect).encode() + b"\r\n")
        return connection

    # -- steps -------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that can happen without time passing."""
        broker = self.broker
        broker.now_ns = self.now_ns
        is_quiet = False
        while not is_quiet:
            is_quiet = True
            broker.settle()
            if self._commit is None:
                self._commit = broker.commit_ready()
            if self._commit is not None and not self.holds_commits:
                self.finish_commit()
                is_quiet = False
            if self._drain():
                is_quiet = False
        if broker.failures and not self.expects_failures:
            raise broker.failures[0].error

    def _drain(self) -> bool:
        """Give output to its connections; True when there was some."""
        broker = self.broker
        if not broker.dirty_sessions:
            return False
        dirty = broker.dirty_sessions
        broker.dirty_sessions = []
        for session in dirty:
            connection = self.connections.get(session.session_id)
            output = session.take_output()
            if connection is not None:
                connection.take(output)
                if session.closing:
                    connection.close()
        return True

    @property
    def is_committing(self) -> bool:
        """Is a commit waiting for `finish_commit`?"""
        return self._commit is not None

    def finish_commit(self, error: str = "") -> None:
        """Perform the commit that is under way, or fail it as a whole without performing any of it."""
        commit = self._commit
        assert commit is not None, "no commit is under way"
        self._commit = None
        if not error:
            try:
                for op in commit.ops:
                    self.disk.perform(op)
                    commit.performed_count += 1
            except OSError as failure:
                error = f"{failure.strerror}: {failure.filename}"
        self.broker.now_ns = self.now_ns
        self.broker.commit_done(commit, error)

    def advance(self, seconds: float) -> None:
        """Let time pass, firing every timer at its moment."""
        target_ns = self.now_ns + round(seconds * SECOND_NS)
        self.settle()
        while True:
            due_ns = self.broker.next_wake_ns()
            if due_ns == 0 or due_ns > target_ns:
                break
            self.now_ns = max(self.now_ns, due_ns)
            self.broker.now_ns = self.now_ns
            self.broker.wake()
            self.settle()
        self.now_ns = target_ns
        self.settle()

    # -- life --------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """A clean end: pulls are told, the last commit is performed, connections are closed."""
        self.holds_commits = False
        self.broker.shutdown()
        self.settle()
        self.broker.close_all_sessions()
        self.settle()

    def restart(self) -> None:
        """Stop cleanly and start again on the same disk; clients must connect again."""
        self.stop()
        self._forget_connections()
        self.broker = self._start()

    def crash(self) -> None:
        """Start again with what the disk has; a commit that is under way is never performed."""
        self._commit = None
        self._forget_connections()
        self.broker = self._start()

    def _forget_connections(self) -> None:
        for connection in list(self.connections.values()):
            connection.is_closed = True
        self.connections.clear()


class FakeConnection:
    """One client. Every sending method lets the broker settle, so replies are there when it returns."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.driver = driver
        broker = driver.broker
        broker.now_ns = driver.now_ns
        self.session: Session = broker.open_session("nats", "127.0.0.1", 40000)
        driver.connections[self.session.session_id] = self
        self.messages: list[Received] = []
        self.infos: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.pongs = 0
        self.oks = 0
        self.is_closed = False
        self._rest = b""
        self._sid_count = 0
        self._inbox = ""
        self._request_count = 0

    # -- wire --------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Bytes to the server."""
        self.driver.broker.now_ns = self.driver.now_ns
        self.session.feed(data)
        self.driver.settle()

    def take(self, data: bytes) -> None:
        """Bytes from the server."""
        data = self._rest + data
        position = 0
        while True:
            end = data.find(b"\r\n", position)
            if end < 0:
                break
            line = data[position:end]
            following = end + 2
            if line.startswith((b"MSG ", b"HMSG ")):
                following = self._take_message(line, data, following)
                if following == 0:
                    break
            else:
                self._take_line(line)
            position = following
        self._rest = data[position:]

    def _take_message(self, line: bytes, data: bytes, start: int) -> int:
        """One MSG or HMSG; where the next frame starts, 0 when this one is not whole."""
        words = line.split(b" ")
        has_header = words[0] == b"HMSG"
        size = int(words[-1])
        if start + size + 2 > len(data):
            return 0
        header_size = int(words[-2]) if has_header else 0
        reply = words[3] if len(words) == (6 if has_header else 5) else b""
        body = data[start : start + size]
        received = Received(
            words[1].decode(), words[2].decode(), reply.decode(), body[:header_size], body[header_size:]
        )
        self.messages.append(received)
        return start + size + 2

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"INFO "):
            self.infos.append(json.loads(line[5:]))
        elif line.startswith(b"-ERR"):
            self.errors.append(line[4:].strip().strip(b"'").decode())
        elif line == b"PONG":
            self.pongs += 1
        elif line == b"+OK":
            self.oks += 1
        elif line == b"PING":
            self.session.feed(b"PONG\r\n")
        else:
            raise AssertionError(f"the server sent {line!r}")

    def close(self) -> None:
        """The connection is gone."""
        if not self.is_closed:
            self.is_closed = True
            self.driver.connections.pop(self.session.session_id, None)
            self.driver.broker.close_session(self.session)
            self.driver.settle()

    # -- client operations -------------------------------------------------------------------------------------------

    def subscribe(self, subject: str, queue: str = "") -> str:
        """Subscribe; the sid."""
        self._sid_count += 1
        sid = str(self._sid_count)
        self.send(f"SUB {subject} {queue} {sid}\r\n".encode())
        return sid

    def unsubscribe(self, sid: str) -> None:
        """End a subscription."""
        self.send(f"UNSUB {sid}\r\n".encode())

    def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """One message."""
        self.send(frame(subject, data, reply, headers))

    def take_messages(self, sid: str = "") -> list[Received]:
        """What has arrived, for one subscription or all of them, and forget it."""
        wanted = [message for message in self.messages if not sid or message.sid == sid]
        self.messages = [message for message in self.messages if sid and message.sid != sid]
        return wanted

    # -- requests ----------------------------------------------------------------------------------------------------

    def start_request(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> str:
        """Send a request; the inbox its replies come to."""
        if not self._inbox:
            self._inbox = f"_INBOX.c{self.session.session_id}"
            self.subscribe(f"{self._inbox}.*")
        self._request_count += 1
        inbox = f"{self._inbox}.{self._request_count}"
        self.publish(subject, data, reply=inbox, headers=headers)
        return inbox

    def replies(self, inbox: str) -> list[Received]:
        """What came to an inbox, and forget it. Messages from a stream carry their own subject and are not here."""
        found = [message for message in self.messages if message.subject == inbox]
        self.messages = [message for message in self.messages if message.subject != inbox]
        return found

    def request(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Received | None:
        """Send a request and give its one reply, None for silence."""
        found = self.replies(self.start_request(subject, data, headers))
        assert len(found) <= 1, found
        return found[0] if found else None

    def api(self, verb: str, document: Any = None, headers: dict[str, str] | None = None) -> Any:
        """A request to `$JS.API.`; the reply's document, None for silence."""
        body = b"" if document is None else json.dumps(document).encode()
        received = self.request(f"$JS.API.{verb}", body, headers)
        return None if received is None else received.json()

    def publish_acked(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        """Publish to a stream; the acknowledgement's document, None for silence."""
        received = self.request(subject, data, headers)
        return None if received is None else received.json()


def frame(subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None) -> bytes:
    """The bytes of a PUB or, with headers, an HPUB."""
    to = f"{subject} {reply}" if reply else subject
    if headers is None:
        return f"PUB {to} {len(data)}\r\n".encode() + data + b"\r\n"
    block = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    head = block.encode()
    return f"HPUB {to} {len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n"
