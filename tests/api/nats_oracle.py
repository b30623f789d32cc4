"""A real nats-server to ask: started for the tests, spoken to over one plain socket."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

Body = bytes | str | dict[str, Any] | list[Any]

# The connection is for a whole run of the tests, and answers nothing while other tests have their turn: a server that
# asked now and then whether anybody is there would close it.
_CONFIG = """
listen: "127.0.0.1:-1"
server_name: oracle
ping_interval: "2h"
jetstream {{ store_dir: "{store_dir}", max_mem: 100MB, max_file: 200MB{limits} }}
{more}
"""
# "error creating store for stream", and how often it is asked again.
NO_STORE = 10049
TRIES = 50
_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}\r\n'


def find_nats_server() -> str | None:
    """The binary of the dev dependency, or one on the path."""
    beside_python = Path(sys.executable).parent / "nats-server"
    return str(beside_python) if beside_python.exists() else shutil.which("nats-server")


class Oracle:
    """One nats-server and one connection to it."""

    def __init__(self, binary: str, directory: Path, *, limits: str = "", more: str = "") -> None:
        config_path = directory / "server.conf"
        store_dir = str(directory / "store")
        config_path.write_text(_CONFIG.format(store_dir=store_dir, limits=limits, more=more), encoding="utf-8")
        self._process = subprocess.Popen(
            [binary, "-c", str(config_path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._socket = socket.create_connection(("127.0.0.1", self._wait_until_ready()), timeout=10)
        self._reader = self._socket.makefile("rb")
        self._request_count = 0
        self.last_line = ""
        self._events: list[tuple[str, bytes]] = []
        self._reader.readline()
        self._socket.sendall(_CONNECT + b"SUB _ORACLE.* 1\r\nPING\r\n")
        while self._reader.readline() != b"PONG\r\n":
            pass

    def _wait_until_ready(self) -> int:
        assert self._process.stderr is not None
        port = 0
        for line in self._process.stderr:
            found = re.search(r"Listening for client connections on \S+:(\d+)", line)
            if found:
                port = int(found[1])
            if "Server is ready" in line:
                # Keep reading, or the server would block on a full pipe.
                self._drain = threading.Thread(target=self._process.stderr.read, daemon=True)
                self._drain.start()
                return port
        raise AssertionError("nats-server did not start")

    def request(self, subject: str, body: Body = b"", headers: bytes = b"") -> tuple[bytes, bytes]:
        """Publish a request and give back the headers and payload of its answer."""
        payload = encode(body)
        self._request_count += 1
        inbox = f"_ORACLE.{self._request_count}"
        if headers:
            line = f"HPUB {subject} {inbox} {len(headers)} {len(headers) + len(payload)}\r\n"
        else:
            line = f"PUB {subject} {inbox} {len(payload)}\r\n"
        self._socket.sendall(line.encode() + headers + payload + b"\r\n")
        while True:
            # A delivered message keeps its own subject, so the subscription tells answers from events.
            sid, answer_headers, answer = self._next_message()
            if sid == b"1":
                return answer_headers, answer
            if sid == b"2":
                self._events.append((self.last_line.split()[1], answer))

    def listen(self, pattern: str) -> None:
        """Collect what is published under the pattern from now on."""
        self._socket.sendall(f"SUB {pattern} 2\r\nPING\r\n".encode())
        while self._reader.readline() != b"PONG\r\n":
            pass

    def stop_listening(self) -> None:
        self._socket.sendall(b"UNSUB 2\r\n")
        self._events.clear()

    def next_event(self, subject: str) -> dict[str, Any]:
        """The next event on that subject, waiting for it; others are dropped."""
        while True:
            while self._events:
                to, content = self._events.pop(0)
                if to == subject:
                    document: dict[str, Any] = json.loads(content)
                    return document
            sid, _, content = self._next_message()
            if sid == b"2":
                self._events.append((self.last_line.split()[1], content))

    def publish(self, subject: str, body: bytes = b"") -> None:
        self._socket.sendall(f"PUB {subject} {len(body)}\r\n".encode() + body + b"\r\n")

    def _next_message(self) -> tuple[bytes, bytes, bytes]:
        """The next message's subscription, headers and payload; other lines give no subscription."""
        line = self._reader.readline()
        assert line, "nats-server closed the connection"
        self.last_line = line.decode()
        words = line.split()
        if words[0] == b"MSG":
            return words[2], b"", self._reader.read(int(words[-1]) + 2)[:-2]
        if words[0] == b"HMSG":
            header_length, total = int(words[-2]), int(words[-1])
            content = self._reader.read(total + 2)[:-2]
            return words[2], content[:header_length], content[header_length:]
        if words[0] == b"PING":
            self._socket.sendall(b"PONG\r\n")
        return b"", b"", b""

    def api(self, verb: str, body: Body = b"") -> dict[str, Any]:
        """Ask the JetStream API and give back the parsed answer."""
        for _ in range(TRIES):
            _, answer = self.request(f"$JS.API.{verb}", body)
            document: dict[str, Any] = json.loads(answer)
            # Its files of a stream that was deleted go a little later, and are in the way of one of the same name.
            if document.get("error", {}).get("err_code") != NO_STORE:
                break
        return document

    def remove_streams(self) -> None:
        """Start the next question with a clean table."""
        for name in self.api("STREAM.NAMES")["streams"] or []:
            self.api(f"STREAM.DELETE.{name}")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=10)
        self._drain.join(timeout=10)
        assert self._process.stderr is not None
        self._process.stderr.close()


def encode(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
