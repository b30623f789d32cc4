"""While the next connection is being made, calls wait or raise errors of the client's own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

import pytest

from jetspark.client import errors
from jetspark.client.aio import Connection, connect
from tests.client.proxy import ChaosProxy
from tests.client.waiting import until

Call = Callable[[Connection], Awaitable[object]]
# More than the client queues before publishers wait.
LARGE = b"x" * 300_000


@contextlib.contextmanager
def full_queue(port: int) -> Iterator[None]:
    """A port that nobody accepts on and whose queue is full: connecting to it takes until it times out."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(("127.0.0.1", port))
        yield


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda connection: connection.flush(0.1), errors.JetsparkError),
        (lambda connection: connection.rtt(0.1), errors.JetsparkError),
        (lambda connection: connection.publish("s", LARGE), None),
        (lambda connection: connection.jetstream().publish("s", LARGE, timeout=0.1), errors.PublishTimeoutError),
    ],
    ids=["flush", "rtt", "core publish", "publish"],
)
async def test_a_call_while_a_connection_is_made_raises_nothing_of_its_inside(
    proxy: ChaosProxy, call: Call, expected: type[Exception] | None
) -> None:
    port = urlsplit(proxy.url).port
    assert port is not None
    connection = await connect(proxy.url, reconnect_wait=0.01, reconnect_wait_max=0.01)
    proxy.shut()
    proxy.stop_listening()
    with full_queue(port):
        await until(lambda: connection._link._wire is not None and not connection.is_connected)
        if expected is None:
            await call(connection)
        else:
            with pytest.raises(expected):
                await call(connection)
        assert not connection.is_closed
        await connection.close()
