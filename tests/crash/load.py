"""Clients that put a real server under load and remember what it promised them.

Publishers keep several messages under way and note the sequence of each acknowledgement; workers pull, acknowledge and
note each confirmation. All of them end quietly when the server goes away in the middle: what counts is what it had
answered by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}\r\n'
IN_FLIGHT = 64


class Gone(Exception):
    """The server is not there any more."""


class Wire:
    """One connection: bytes out, messages in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._request_count = 0
        self._inbox = f"_INBOX.{id(self)}"

    @staticmethod
    async def open(port: int) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        wire = Wire(reader, writer)
        await wire.send(CONNECT + f"SUB {wire._inbox}.> 1\r\n".encode())
        return wire

    def new_inbox(self) -> str:
        self._request_count += 1
        return f"{self._inbox}.{self._request_count}"

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise Gone from error

    async def message(self) -> tuple[str, str, bytes]:
        """The next message: subject, reply, payload; headers are left out."""
        try:
            while True:
                line = (await self._reader.readuntil(b"\r\n")).decode().split()
                if line[0] not in ("MSG", "HMSG"):
                    continue
                size = int(line[-1])
                body = (await self._reader.readexactly(size + 2))[:-2]
                has_header = line[0] == "HMSG"
                header_size = int(line[-2]) if has_header else 0
                reply = line[3] if len(line) == (6 if has_header else 5) else ""
                return line[1], reply, body[header_size:]
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Gone from error

    async def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        await self.send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")

    async def request(self, subject: str, document: Any = None) -> Any:
        inbox = self.new_inbox()
        body = b"" if document is None else json.dumps(document).encode()
        await self.publish(subject, body, inbox)
        while True:
            to, _, payload = await self.message()
            if to == inbox:
                return json.loads(payload)

    def close(self) -> None:
        self._writer.close()


class Publisher:
    """Publishes numbered messages on a subject of its own, and remembers what became of each."""

    def __init__(self, name: str) -> None:
        self.subject = f"load.{name}"
        self.acked: dict[int, int] = {}
        self.refused: set[int] = set()
        self._number = 0

    async def run(self, port: int, on_ack: Callable[[], None]) -> None:
        wire = await Wire.open(port)
        waiting: dict[str, int] = {}
        try:
            while True:
                while len(waiting) < IN_FLIGHT:
                    self._number += 1
                    inbox = wire.new_inbox()
                    waiting[inbox] = self._number
                    await wire.publish(self.subject, b"%d" % self._number, inbox)
                inbox, _, payload = await wire.message()
                number = waiting.pop(inbox)
                answer = json.loads(payload)
                if "error" in answer:
                    self.refused.add(number)
                else:
                    self.acked[number] = answer["seq"]
                on_ack()
        except Gone:
            return
        finally:
            wire.close()


class Worker:
    """Pulls from a consumer, acknowledges everything, and remembers which acknowledgements were confirmed."""

    def __init__(self, stream: str, consumer: str) -> None:
        self._stream = stream
        self._consumer = consumer
        self.confirmed: set[int] = set()
        self.again: list[int] = []

    async def run(self, port: int) -> None:
        wire = await Wire.open(port)
        waiting: dict[str, int] = {}
        try:
            await self._pull(wire)
            while True:
                inbox, reply, _ = await wire.message()
                if reply.startswith("$JS.ACK."):
                    seq = int(reply.split(".")[5])
                    if seq in self.confirmed:
                        self.again.append(seq)
                    confirmation = wire.new_inbox()
                    waiting[confirmation] = seq
                    await wire.publish(reply, b"+ACK", confirmation)
                elif inbox in waiting:
                    self.confirmed.add(waiting.pop(inbox))
                else:
                    await self._pull(wire)
        except Gone:
            return
        finally:
            wire.close()

    async def _pull(self, wire: Wire) -> None:
        request = json.dumps({"batch": 200, "expires": 500_000_000}).encode()
        await wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}", request, wire.new_inbox())


async def run_load(
    port: int, publishers: list[Publisher], workers: list[Worker], acks: int, end: Callable[[], None]
) -> None:
    """Run everybody until so many publishes are answered, then end the server and wait for everybody to notice."""
    answered = 0
    is_enough = asyncio.Event()

    def count() -> None:
        nonlocal answered
        answered += 1
        if answered >= acks:
            is_enough.set()

    tasks = [asyncio.create_task(publisher.run(port, count)) for publisher in publishers]
    tasks += [asyncio.create_task(worker.run(port)) for worker in workers]
    try:
        async with asyncio.timeout(40):
            await is_enough.wait()
            end()
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


async def read_stream(port: int, stream: str) -> dict[int, tuple[str, bytes]]:
    """Everything a stream holds: subject and payload by sequence, in order of delivery."""
    wire = await Wire.open(port)
    state = (await wire.request(f"$JS.API.STREAM.INFO.{stream}"))["state"]
    config = {"ack_policy": "none", "deliver_policy": "all", "inactive_threshold": 60_000_000_000}
    made = await wire.request(f"$JS.API.CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
    found: dict[int, tuple[str, bytes]] = {}
    async with asyncio.timeout(40):
        while len(found) < state["messages"]:
            batch = min(1000, state["messages"] - len(found))
            request = json.dumps({"batch": batch, "expires": 5_000_000_000}).encode()
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{made['name']}"
            await wire.publish(subject, request, wire.new_inbox())
            for _ in range(batch):
                to, reply, payload = await wire.message()
                seq = int(reply.split(".")[5])
                assert seq not in found, f"{seq} was delivered twice"
                found[seq] = (to, payload)
    wire.close()
    return found
