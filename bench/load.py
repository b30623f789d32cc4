"""A load generator on raw sockets that is not the bottleneck.

Messages are laid out once in a buffer and sent in slices; answers are counted with `bytearray.count` on large
reads, never parsed. What a measurement means is decided in `jobs`.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

READ_SIZE = 1 << 20
SOCKET_BUFFER_SIZE = 4 << 20
# Every payload starts with the marker, and nothing else on the wire contains it. Its length lets the search of
# `count` jump: 40 ns a message, where three bytes took 145.
MARKER = bytes(range(1, 9)) * 4
ACK_MARKER = b'"seq":'
_ACK_REPLY = re.compile(rb"\$JS\.ACK\.[^ ]+(?= )")
_FLOW_REPLY = re.compile(rb"\$JS\.FC\.[^\s]+(?=[ \r])")
CONNECT = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1, "lang": "bench"}


class LoadFailed(RuntimeError):
    """The server closed the connection, answered an error, or stopped answering."""


def payload_of(size: int) -> bytes:
    return MARKER + b"x" * (size - len(MARKER))


class Connection:
    """One connection: large buffers, counting reads, and a plain request for set-up calls."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_SIZE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_SIZE)
        self._buffer = bytearray(READ_SIZE + 64)
        self._kept = 0
        self._inboxes = 0
        self.socket.recv(65536)
        self.send(b"CONNECT " + json.dumps(CONNECT).encode() + b"\r\nPING\r\n")
        self.read_until(b"PONG\r\n")

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes | memoryview) -> None:
        self.socket.sendall(data)

    def read_until(self, end: bytes) -> bytes:
        """Everything up to and including `end`; for set-up, not for measuring."""
        data = b""
        while end not in data:
            chunk = self.socket.recv(65536)
            if not chunk:
                raise LoadFailed(f"connection closed: {data[-200:]!r}")
            data += chunk
        return data

    def request(self, subject: str, body: Any = None) -> dict[str, Any]:
        """Ask the API and return the parsed answer. Nothing else may be under way on this connection."""
        self._inboxes += 1
        inbox = f"_INBOX.setup.{id(self)}.{self._inboxes}"
        payload = b"" if body is None else json.dumps(body).encode()
        head = f"SUB {inbox} s{self._inboxes}\r\nUNSUB s{self._inboxes} 1\r\nPUB {subject} {inbox} {len(payload)}\r\n"
        self.send(head.encode() + payload + b"\r\n")
        data = self.read_until(b"}\r\n")
        document: dict[str, Any] = json.loads(data[data.index(b"{", data.index(inbox.encode())) :])
        if "error" in document:
            raise LoadFailed(f"{subject}: {document['error']}")
        return document

    def start_counting(self) -> None:
        self._kept = 0

    def count(self, marker: bytes) -> int:
        """Wait for data and count the markers in it, also one cut in two by the previous read."""
        view = memoryview(self._buffer)
        size = self.socket.recv_into(view[self._kept : self._kept + READ_SIZE])
        if not size:
            raise LoadFailed("connection closed while measuring")
        end = self._kept + size
        found = self._buffer.count(marker, 0, end)
        keep = min(len(marker) - 1, end)
        self._buffer[:keep] = self._buffer[end - keep : end]
        self._kept = keep
        self.last_size = size
        return found

    def read(self) -> bytes:
        data = self.socket.recv(READ_SIZE)
        if not data:
            raise LoadFailed("connection closed while measuring")
        return data


def publish_windowed(connections: Sequence[Connection], subject: str, size: int, total: int, window: int) -> float:
    """Publish `total` messages with at most `window` unacknowledged; seconds until the last acknowledgement."""
    share = window // len(connections)
    quota = total // len(connections)
    slices = []
    for number, connection in enumerate(connections):
        inbox = f"_IN.{number}"
        connection.send(f"SUB {inbox} 1\r\nPING\r\n".encode())
        connection.read_until(b"PONG\r\n")
        connection.start_counting()
        frame = f"PUB {subject} {inbox} {size}\r\n".encode() + payload_of(size) + b"\r\n"
        slices.append((memoryview(frame * share), len(frame)))
    started_s = time.perf_counter()
    sent = [min(share, quota)] * len(connections)
    acknowledged = [0] * len(connections)
    for connection, (block, length) in zip(connections, slices, strict=True):
        connection.send(block[: min(share, quota) * length])
    poll = select.poll()
    by_descriptor = {connection.socket.fileno(): number for number, connection in enumerate(connections)}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    left = quota * len(connections)
    while left:
        ready = poll.poll(60_000)
        if not ready:
            raise LoadFailed(f"no acknowledgement for a minute, {left} outstanding")
        for descriptor, _ in ready:
            number = by_descriptor[descriptor]
            found = connections[number].count(ACK_MARKER)
            acknowledged[number] += found
            left -= found
            more = min(acknowledged[number] + share, quota) - sent[number]
            if more > 0:
                block, length = slices[number]
                connections[number].send(block[: more * length])
                sent[number] += more
    return time.perf_counter() - started_s


def publish_one_by_one(connection: Connection, subject: str, size: int, total: int) -> list[float]:
    """The latency in seconds of each of `total` publishes, one after another."""
    connection.send(b"SUB _IN.one 1\r\nPING\r\n")
    connection.read_until(b"PONG\r\n")
    connection.start_counting()
    frame = f"PUB {subject} _IN.one {size}\r\n".encode() + payload_of(size) + b"\r\n"
    latencies = []
    for _ in range(total):
        started_s = time.perf_counter()
        connection.send(frame)
        while not connection.count(ACK_MARKER):
            pass
        latencies.append(time.perf_counter() - started_s)
    return latencies


def pull_batches(connection: Connection, stream: str, consumer: str, total: int, batch: int, *, ack: bool) -> float:
    """Fetch `total` messages in batches, one request at a time; with `ack`, acknowledge each batch as it comes."""
    connection.send(b"SUB _IN.pull 1\r\nPING\r\n")
    connection.read_until(b"PONG\r\n")
    connection.start_counting()
    body = b'{"batch":%d,"expires":30000000000}' % batch
    request = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s _IN.pull %d\r\n%s\r\n"
    request %= (stream.encode(), consumer.encode(), len(body), body)
    started_s = time.perf_counter()
    received = 0
    connection.send(request)
    tail = b""
    while received < total:
        if ack:
            data = tail + connection.read()
            replies = _ACK_REPLY.findall(data)
            tail = data[data.rfind(replies[-1]) + len(replies[-1]) :] if replies else data
            found = len(replies)
            if replies:
                connection.send(b"PUB " + b" 4\r\n+ACK\r\nPUB ".join(replies) + b" 4\r\n+ACK\r\n")
        else:
            found = connection.count(MARKER)
        before = received
        received += found
        if before // batch != received // batch and received < total:
            connection.send(request)
    if ack:
        wait_until_acknowledged(connection, stream, consumer)
    return time.perf_counter() - started_s


def wait_until_acknowledged(connection: Connection, stream: str, consumer: str) -> None:
    """The job is done when the server has taken the last acknowledgement in."""
    connection.send(b"UNSUB 1\r\nPING\r\n")
    connection.read_until(b"PONG\r\n")
    while connection.request(f"$JS.API.CONSUMER.INFO.{stream}.{consumer}")["num_ack_pending"]:
        pass


def push_with_flow_control(connection: Connection, stream: str, total: int) -> float:
    """Bind a push consumer and take `total` messages, answering every flow control request."""
    connection.send(b"SUB deliver.here 1\r\nPING\r\n")
    connection.read_until(b"PONG\r\n")
    config = {"deliver_subject": "deliver.here", "ack_policy": "none", "flow_control": True}
    config |= {"idle_heartbeat": 5_000_000_000, "durable_name": "push"}
    body = json.dumps({"stream_name": stream, "config": config}).encode()
    started_s = time.perf_counter()
    connection.send(f"PUB $JS.API.CONSUMER.CREATE.{stream}.push {len(body)}\r\n".encode() + body + b"\r\n")
    received = 0
    tail = b""
    answered = b""
    while received < total:
        data = connection.read()
        received += (tail[-(len(MARKER) - 1) :] + data).count(MARKER)
        joined = tail + data
        if b"$JS.FC." in joined:
            reply = _FLOW_REPLY.findall(joined)[-1:]
            if reply and reply[0] != answered:
                answered = reply[0]
                connection.send(b"PUB %s 0\r\n\r\n" % answered)
        tail = joined[-120:]
    return time.perf_counter() - started_s


def publish_and_subscribe(publisher: Connection, subscriber: Connection, size: int, total: int) -> float:
    """Core publish and subscribe: seconds until the subscriber has every message."""
    subscriber.send(b"SUB core.bench 1\r\nPING\r\n")
    subscriber.read_until(b"PONG\r\n")
    subscriber.start_counting()
    frame = f"PUB core.bench {size}\r\n".encode() + payload_of(size) + b"\r\n"
    per_write = max(1, (256 << 10) // len(frame))
    block = memoryview(frame * per_write)
    in_flight_max = max(per_write * 4, (16 << 20) // len(frame))
    started_s = time.perf_counter()
    sent = received = 0
    while received < total:
        while sent < total and sent - received < in_flight_max:
            count = min(per_write, total - sent)
            publisher.send(block[: count * len(frame)])
            sent += count
            if select.select([subscriber.socket], [], [], 0)[0]:
                break
        received += subscriber.count(MARKER)
    return time.perf_counter() - started_s
