"""One socket: bytes in to the broker's session, the session's output out.

Decided here: when a peer is too slow (too much unsent, or none of it taken for too long), when it is asked whether it
is still there, and when it took too long to log in. Not known here: what any byte means.

`data_received` is the hottest Python of the server that is not compiled: it does three things and leaves everything
else to `Edge.perform`, which runs once for all connections that had something in the same turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from jetspark.broker.session import REASON_AUTHENTICATION_TIMEOUT, REASON_SLOW, REASON_STALE, Session

if TYPE_CHECKING:
    from jetspark.server.edge import Edge

# The transport tells us when more than this waits, and again when less than the lower mark does.
WRITE_HIGH_BYTES: Final = 1024 * 1024
WRITE_LOW_BYTES: Final = 256 * 1024

# A new client gets its first PING this soon, so that its round trip time is known; nats-server's value.
FIRST_PING_NS: Final = 2_000_000_000

REASON_WRITE_DEADLINE: Final = "Slow Consumer (Write Deadline)"
REASON_READ_ERROR: Final = "Read Error"
REASON_CLIENT: Final = "Client Closed"


class Connection(asyncio.Protocol):
    """The protocol object of one client."""

    __slots__ = (
        "_bytes_written",
        "_deadline_timer",
        "_edge",
        "_login_timer",
        "_ping_sent_ns",
        "_ping_timer",
        "is_login_paused",
        "is_read_paused",
        "is_write_paused",
        "session",
        "transport",
        "write",
    )

    session: Session
    transport: asyncio.Transport

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self.is_write_paused = False
        self.is_read_paused = False
        self.is_login_paused = False
        self._bytes_written = 0
        self._ping_sent_ns = 0
        self._ping_timer: asyncio.TimerHandle | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None

    # -- the transport's calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports have the methods and not the base class.
        self.attach(cast(asyncio.Transport, transport))
        self._edge.opened(self, "nats")
        self._edge.say_info(self)
        self._edge.start_clocks(self)

    def attach(self, transport: asyncio.Transport) -> None:
        """Write to this transport: the socket's own, or the layer that encrypts or frames for it."""
        self.transport = transport
        self.write: Callable[[bytes], None] = transport.write
        transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        edge = self._edge
        edge.broker.now_ns = edge.now_ns()
        try:
            self.session.feed(data)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is this connection's
            edge.fail(self, error)
        if self.session.halted and not self.session.closing:
            edge.await_login(self)
        if not edge.is_scheduled:
            edge.schedule()
        edge.note_read(self, len(data))

    def eof_received(self) -> None:
        """The peer will send nothing more; what it is owed is written before the transport closes."""
        self._edge.perform()

    def pause_writing(self) -> None:
        self.is_write_paused = True
        self.session.buffered_bytes = self.transport.get_write_buffer_size()
        self._watch_progress()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self.session.buffered_bytes = self.transport.get_write_buffer_size()
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        self._edge.drained(self)

    def resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._ping_timer, self._login_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        if not self.session.close_reason:
            self.session.close_reason = REASON_CLIENT if error is None else REASON_READ_ERROR
        self._edge.lost(self)

    def tls_info(self) -> dict[str, str]:
        """Version and cipher of an encrypted connection, as monitoring shows them."""
        cipher = self.transport.get_extra_info("cipher")
        if cipher is None:
            return {}
        return {"tls_version": cipher[1].removeprefix("TLSv"), "tls_cipher_suite": cipher[0]}

    # -- output ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand the session's output to the transport; then end the connection if the session wants that."""
        session = self.session
        data = session.take_output()
        transport = self.transport
        if data:
            if transport.is_closing():
                return
            self.write(data)
            self._bytes_written += len(data)
            if self.is_write_paused:
                waiting = transport.get_write_buffer_size()
                session.buffered_bytes = waiting
                if waiting > self._edge.max_pending_bytes:
                    self._cut_off(REASON_SLOW, f"MaxPending of {self._edge.max_pending_bytes} Exceeded")
                    return
        if session.closing:
            self.finish()
        elif session.paused_consumers and not self.is_write_paused:
            # The turn's share was full, not the socket: the rest may go on in the next turn.
            session.buffered_bytes = transport.get_write_buffer_size()
            self._edge.drained(self)

    def finish(self) -> None:
        """Close once everything is sent, or at the write deadline if the peer does not take it."""
        if not self.transport.is_closing():
            self.transport.close()
            if self._deadline_timer is not None:
                self._deadline_timer.cancel()
            self._deadline_timer = self._edge.loop.call_later(self._edge.write_deadline_s, self.transport.abort)

    def _cut_off(self, reason: str, detail: str) -> None:
        """A slow consumer goes without a word: words are what it does not read."""
        session = self.session
        self._edge.count_slow_consumer(self, detail)
        session.close(reason)
        self.transport.abort()

    def _watch_progress(self) -> None:
        sent = self._bytes_written - self.transport.get_write_buffer_size()
        if self._deadline_timer is None:
            self._deadline_timer = self._edge.loop.call_later(self._edge.write_deadline_s, self._check_progress, sent)

    def _check_progress(self, sent_before: int) -> None:
        self._deadline_timer = None
        if not self.is_write_paused or self.transport.is_closing():
            return
        if self._bytes_written - self.transport.get_write_buffer_size() == sent_before:
            self._cut_off(REASON_WRITE_DEADLINE, f"WriteDeadline of {self._edge.write_deadline_s:g}s exceeded")
            return
        self._watch_progress()

    # -- time --------------------------------------------------------------------------------------------------

    def start_timers(self, *, first_ping_s: float, login_s: float) -> None:
        """Begin asking whether the peer is there; with `login_s`, give it that long to log in."""
        loop = self._edge.loop
        self._ping_timer = loop.call_later(first_ping_s, self._ping)
        if login_s > 0:
            self._login_timer = loop.call_later(login_s, self._login_late)

    def _ping(self) -> None:
        edge, session = self._edge, self.session
        if self.transport.is_closing():
            return
        now_ns = edge.enter()
        interval_ns = edge.ping_interval_ns(session.kind)
        self._ping_timer = edge.loop.call_later(interval_ns / 1e9, self._ping)
        # CONNECT and answers to our own PING do not count: only what else the peer said spares it the next one.
        last_ns = session.last_activity_ns
        has_spoken = session.in_msgs > 0 or session.first_ping_answered or bool(session.subscriptions)
        is_own_word = has_spoken and last_ns > self._ping_sent_ns + session.rtt_ns
        if is_own_word and now_ns - last_ns < interval_ns:
            return
        if session.pings_out + 1 > edge.ping_max:
            edge.count_stale(self)
            session.send_error("Stale Connection")
            session.close(REASON_STALE)
        else:
            session.pings_out += 1
            session.ping_sent_ns = now_ns
            self._ping_sent_ns = now_ns
            session.send(b"PING\r\n")
        edge.schedule()

    def _login_late(self) -> None:
        session = self.session
        if session.accepted or session.closing:
            return
        self._edge.enter()
        session.send_error("Authentication Timeout")
        session.close(REASON_AUTHENTICATION_TIMEOUT)
        self._edge.schedule()
