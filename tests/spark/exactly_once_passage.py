"""What stands between Spark's workers and the server: it knows whose each connection is, and can cut it.

The port stays the same when the server is started again on another one. Bytes are counted, so that a moment can be
"after so many more bytes": in the middle of a task, however fast the machine is.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

CONNECT_TIMEOUT_S = 5.0
CHUNK = 65536


@dataclass(eq=False)
class Line:
    """One connection of one process. It is at work on a task once it has sent the mark."""

    client: socket.socket
    server: socket.socket
    pid: int | None
    is_at_work: bool = False
    tail: bytes = b""

    def cut(self) -> None:
        """End it in both directions; what is on its way is lost."""
        for one in (self.client, self.server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Passage:
    """Passes everything on between loopback and the server."""

    def __init__(self, server: tuple[str, int], mark: bytes) -> None:
        self.server = server
        self._mark = mark
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._guard = threading.Lock()
        self._lines: list[Line] = []
        self._is_blocked = False
        self._byte_count = 0
        self._moment_at = 0
        self._moment_words = b""
        self.moment = threading.Event()
        # The connection whose bytes made the moment.
        self.moment_of: Line | None = None
        # Connections refused while blocked.
        self.refused_count = 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def _port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Passage:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in self.lines():
            line.cut()

    def lines(self) -> list[Line]:
        """The connections there are."""
        with self._guard:
            return list(self._lines)

    def at_work(self) -> list[Line]:
        """Those that have been at work on a task."""
        return [line for line in self.lines() if line.is_at_work]

    def worker(self) -> int | None:
        """The process that made the moment, if it is at work on a task."""
        line = self.moment_of
        return line.pid if line is not None and line.is_at_work else None

    def await_bytes(self, count: int) -> None:
        """`moment` is set once so many more bytes have passed."""
        with self._guard:
            self.moment.clear()
            self._moment_at, self._moment_words = self._byte_count + count, b""

    def await_words(self, words: bytes) -> None:
        """`moment` is set once somebody sends these words. They are passed on before."""
        with self._guard:
            self.moment.clear()
            self._moment_at, self._moment_words = 0, words

    @contextlib.contextmanager
    def blocked(self) -> Iterator[None]:
        """No new connection for the length of a block."""
        self.refused_count = 0
        self._is_blocked = True
        try:
            yield
        finally:
            self._is_blocked = False

    def _accept(self) -> None:
        # Until the listener is closed.
        with contextlib.suppress(OSError):
            while True:
                client, address = self._listener.accept()
                threading.Thread(target=self._serve, args=(client, address[1]), daemon=True).start()

    def _serve(self, client: socket.socket, port: int) -> None:
        try:
            if self._is_blocked:
                self.refused_count += 1
                raise OSError("blocked")
            server = socket.create_connection(self.server, CONNECT_TIMEOUT_S)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line = Line(client, server, self._pid_of(port))
        with self._guard:
            self._lines.append(line)
        down = threading.Thread(target=self._pass, args=(line, server, client), daemon=True)
        down.start()
        self._pass(line, client, server)
        down.join()
        with self._guard:
            self._lines.remove(line)
        client.close()
        server.close()

    def _pid_of(self, port: int) -> int | None:
        """Whose connection it is."""
        for one in psutil.net_connections("tcp4"):
            if one.laddr and one.raddr and one.laddr.port == port and one.raddr.port == self._port:
                return int(one.pid) if one.pid else None
        return None

    def _pass(self, line: Line, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if source is line.client and not line.is_at_work:
                    line.is_at_work = self._mark in line.tail + data
                    line.tail = data[-len(self._mark) :]
                with self._guard:
                    self._byte_count += len(data)
                    if self._moment_at and self._byte_count >= self._moment_at:
                        self._moment_at, self.moment_of = 0, line
                        self.moment.set()
                target.sendall(data)
                if self._moment_words and self._moment_words in data:
                    self._moment_words, self.moment_of = b"", line
                    self.moment.set()
        if source is line.client:
            # What was sent before is read before the end is seen.
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)
        else:
            line.cut()
