"""Tracing hooks, and reaching a server inside the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jetspark.client import errors
from jetspark.client.aio import Msg, connect
from jetspark.client.headers import Headers
from jetspark.client.sync import connect as connect_sync
from jetspark.client.telemetry import OpenTelemetry
from jetspark.server.embedded import serve
from tests.client.conftest import NatsServer
from tests.client.waiting import until


class Tracer:
    """Remembers what it was told, and marks what is published."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.processed: list[str] = []

    def publishing(self, subject: str, headers: Headers) -> None:
        self.published.append(subject)
        headers.set("traceparent", "00-abc-def-01")

    @contextlib.contextmanager
    def processing(self, message: Any) -> Iterator[None]:
        yield
        self.processed.append(message.headers.get("traceparent", ""))


async def test_the_trace_goes_with_the_message(url: str, name: str) -> None:
    tracer = Tracer()
    async with await connect(url, telemetry=tracer) as connection:
        seen: list[Msg] = []
        await connection.subscribe(name, callback=seen.append)
        await connection.publish(name, b"1", headers={"A": "b"})
        await until(lambda: tracer.processed == ["00-abc-def-01"])
        assert dict(seen[0].headers) == {"A": "b", "traceparent": "00-abc-def-01"}
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[f"{name}.js"], storage="memory")
        await jetstream.publish(f"{name}.js", b"2")
        await (await jetstream.publish_async(f"{name}.js", b"3"))
        consumer = await stream.create_consumer("worker")
        for message in await consumer.fetch(2):
            async with message.processing():
                pass
        assert tracer.processed == ["00-abc-def-01"] * 3
        assert tracer.published == [name, f"{name}.js", f"{name}.js"]
        await stream.delete()


async def test_the_trace_goes_with_every_message_of_a_batch(url: str, name: str) -> None:
    tracer = Tracer()
    async with await connect(url, telemetry=tracer) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[name], storage="memory", allow_atomic=True)
        batch = jetstream.batch()
        await batch.add(name, b"1", headers={"A": "b"})
        await batch.commit(name, b"2")
        assert tracer.published == [name, name]
        assert [(await stream.get_msg(seq)).headers.get("traceparent", "") for seq in (1, 2)] == ["00-abc-def-01"] * 2
        await stream.delete()


async def test_opentelemetry_continues_the_senders_trace(url: str, name: str) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with await connect(url, telemetry=OpenTelemetry(provider)) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream(name, subjects=[f"{name}.js"], storage="memory")
        await jetstream.publish(f"{name}.js", b"12345")
        message = await (await stream.create_consumer("worker")).next()
        assert message is not None
        assert message.headers["traceparent"].startswith("00-")
        with pytest.raises(ZeroDivisionError):
            async with message.processing():
                raise ZeroDivisionError
        await stream.delete()
    sent, processed = exporter.get_finished_spans()
    assert (sent.name, processed.name) == (f"send {name}.js", f"process {name}.js")
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context.trace_id == sent.context.trace_id
    assert processed.attributes is not None
    assert processed.attributes["messaging.message.body.size"] == 5
    assert not processed.status.is_ok


def test_without_opentelemetry_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.propagate", None)
    with pytest.raises(errors.BadOptionError, match=r"jetspark\[otel\]"):
        OpenTelemetry()


class Embedded:
    """Stands for a server in this process: gives connected sockets."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect_socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))


async def test_a_server_object_is_reached_through_the_socket_it_gives(shared_server: NatsServer) -> None:
    embedded = Embedded(shared_server.port)
    async with await connect(server=embedded) as connection:
        await connection.flush()

    def blocking() -> None:
        with connect_sync(server=embedded) as connection:
            connection.flush()

    await asyncio.to_thread(blocking)
    with pytest.raises(errors.BadOptionError, match="no embedded server"):
        await connect(server=object())


async def test_a_server_object_that_has_stopped_is_a_server_that_cannot_be_reached() -> None:
    with serve() as stopped:
        pass
    with pytest.raises(errors.NoServersError, match="the embedded server is not running"):
        await connect(server=stopped)
    with pytest.raises(errors.NoServersError, match="the embedded server is not running"):
        await asyncio.to_thread(connect_sync, server=stopped)
