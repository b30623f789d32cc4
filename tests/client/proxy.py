"""A proxy between client and server that misbehaves by a seed: it cuts, stalls and garbles."""

from __future__ import annotations

import asyncio
import contextlib
import random

from tests.client.waiting import give_way

FAULTS = ("cut", "cut inside", "stall", "garble")


class ChaosProxy:
    """Passes bytes on until its dice say otherwise. Behaves when `calm`."""

    def __init__(self, port: int, seed: int, faults: tuple[str, ...] = FAULTS) -> None:
        self._port = port
        self._choices = [""] * 60 + list(faults)
        self._dice = random.Random(seed)
        self.calm = True
        self._is_shut = False
        # While set, what the server says, or the client, gets lost.
        self.loses_answers = False
        self.loses_requests = False
        self.faults: list[str] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> ChaosProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        # Whoever was accepted just now becomes a task first: as a bare socket it would be left to the collector.
        await give_way()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await give_way()

    def shut(self) -> None:
        """Cut every connection and accept no other."""
        self._is_shut = True
        for task in self._tasks:
            task.cancel()

    def reopen(self) -> None:
        """Accept connections again."""
        self._is_shut = False

    def stop_listening(self) -> None:
        """Leave the port to somebody else."""
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self._is_shut:
                await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            # Nobody to talk to, so the client sees its connection closed; or the test is over, which the stream
            # server would log as a failure.
            return
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialling = asyncio.create_task(asyncio.open_connection("127.0.0.1", self._port))
        try:
            up_reader, up_writer = await asyncio.shield(dialling)
        except asyncio.CancelledError:
            # A connection that is made all the same must not be left to the garbage collector.
            (await dialling)[1].transport.abort()
            raise
        pumps = [
            asyncio.create_task(self._pump(reader, up_writer, is_answer=False)),
            asyncio.create_task(self._pump(up_reader, writer, is_answer=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before anything that can be cancelled.
            up_writer.transport.abort()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(self._dice.choice([64, 1000, 65536])):
                if self.loses_answers if is_answer else self.loses_requests:
                    continue
                fault = "" if self.calm else self._dice.choice(self._choices)
                if fault:
                    self.faults.append(fault)
                if fault == "cut":
                    return
                if fault == "cut inside":
                    writer.write(data[: self._dice.randrange(len(data))])
                    await writer.drain()
                    return
                if fault == "stall":
                    await asyncio.sleep(self._dice.uniform(0.05, 0.3))  # noqa: TID251 - the stall is the test
                if fault == "garble":
                    at = self._dice.randrange(len(data))
                    data = data[:at] + bytes([data[at] ^ self._dice.randrange(1, 256)]) + data[at + 1 :]
                writer.write(data)
                await writer.drain()
