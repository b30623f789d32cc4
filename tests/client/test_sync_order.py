"""Threads that share a blocking connection: what one thread queued first is sent first."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from jetspark.client.sync import connect
from jetspark.client.sync.wire import Wire


class Pause:
    """Holds the first thread that begins to write to the socket after `begin`, whichever it is."""

    def __init__(self) -> None:
        self.begun = False
        self.reached = threading.Event()
        self.released = threading.Event()

    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.begun and event == "call" and frame.f_code is Wire.write.__code__ and not self.reached.is_set():
            self.reached.set()
            self.released.wait(20)


@pytest.fixture
def pause() -> Iterator[Pause]:
    """Sees the threads that are started in the test: those of the connection among them."""
    made = Pause()
    threading.settrace(made.trace)
    yield made
    made.released.set()
    threading.settrace(None)


@pytest.mark.long
def test_output_taken_first_is_written_first(url: str, name: str, pause: Pause) -> None:
    with connect(url) as other, connect(url) as connection:
        subscription = other.subscribe(name)
        other.flush()

        def publish(data: bytes) -> None:
            connection.publish(name, data)
            connection.flush(20)

        slow = threading.Thread(target=publish, args=(b"first",))
        quick = threading.Thread(target=publish, args=(b"second",))
        pause.begun = True
        slow.start()
        assert pause.reached.wait(20)
        quick.start()
        # It overtakes in this time, or waits for the other.
        quick.join(0.5)
        pause.released.set()
        slow.join()
        quick.join()

        received = [subscription.next(timeout=10) for _ in range(2)]
        assert [message.data for message in received if message is not None] == [b"first", b"second"]


@pytest.mark.slow
@pytest.mark.parametrize("switch_interval_s", [0.005, 1e-5])
def test_the_order_of_one_thread_is_kept_however_many_others_publish(
    url: str, name: str, switch_interval_s: float
) -> None:
    count = 20_000
    before_s = sys.getswitchinterval()
    ended = threading.Event()
    with connect(url) as connection:
        jetstream = connection.jetstream()
        stream = jetstream.create_stream(name, subjects=[f"{name}.>"], storage="memory")

        def disturb(number: int) -> None:
            while not ended.is_set():
                if number % 2:
                    connection.rtt(20)
                else:
                    jetstream.publish(f"{name}.other", b"y" * (1 if number % 3 else 5_000))

        threads = [threading.Thread(target=disturb, args=(number,)) for number in range(8)]
        sys.setswitchinterval(switch_interval_s)
        try:
            for thread in threads:
                thread.start()
            for number in range(count):
                jetstream.publish_async(f"{name}.own", b"%d" % number)
            jetstream.flush(40)
        finally:
            ended.set()
            sys.setswitchinterval(before_s)
            for thread in threads:
                thread.join()

        with stream.ordered_consumer(filter_subjects=[f"{name}.own"]).consume() as messages:
            found = [int(next(messages).data) for _ in range(count)]
        jetstream.delete_stream(name)

    assert found == list(range(count))
