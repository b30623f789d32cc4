"""One connection's state: what was subscribed, what waits for an answer, what has still to be sent.

        attach          INFO            connect()        PONG
    DOWN ──────► WAIT_INFO ─────► HAVE_INFO ─────► WAIT_PONG ─────► UP
      ▲             │                │                │              │
      └─────────────┴────────────────┴── detach ──────┴──────────────┘        close: any ──► CLOSED

Decides what happens to each waiting thing when the connection breaks and what is said again when it is back. Knows
no socket, no clock and no loop: a driver feeds it bytes, sends what is in `control` and (when UP) in `out`, and calls
`tick` from time to time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from jetspark.client.core.denials import Denial
from jetspark.client.core.frames import PING, PONG, FrameMaker, SubjectBook
from jetspark.client.core.message import MessageCore
from jetspark.client.core.outbound import give_up
from jetspark.client.core.pending import Pending
from jetspark.client.core.resend import hold, release
from jetspark.client.core.routes import AckMux, Inbox, RequestMux, Route
from jetspark.client.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    MaxPayloadError,
    OutboundBufferError,
    PermissionsError,
    PublishNotSentError,
    ServerError,
    StaleConnectionError,
)
from jetspark.protocol.client_parser import ClientHandler, ClientParser, ProtocolError
from jetspark.protocol.nuid import Nuid

DOWN: Final = 0
WAIT_INFO: Final = 1
HAVE_INFO: Final = 2
WAIT_PONG: Final = 3
UP: Final = 4
CLOSED: Final = 5

# Above this much unsent output a publisher is asked to wait. One write of this size keeps a fast link busy, and its
# frames are still in the cache when they are joined.
CONGESTED_BYTES: Final = 128 * 1024

_AUTH_WORDS: Final = (
    "authorization violation",
    "authentication timeout",
    "authentication expired",
    "authentication revoked",
)
_FATAL_WORDS: Final = (
    "stale connection",
    "maximum connections",
    "maximum account",
    "secure connection",
    "parser error",
)


class ConnectionCore(ClientHandler):
    """The decisions of one connection."""

    def __init__(
        self,
        nuid: Nuid,
        inbox_prefix: str,
        pending_bytes_max: int,
        make_message: Callable[[Inbox, bytes, bytes, bytes, bytes], MessageCore],
        owner: Any,
    ) -> None:
        self.parser = ClientParser(self)
        self.nuid = nuid
        self.inbox_prefix = inbox_prefix
        self.pending_bytes_max = pending_bytes_max
        self.make_message = make_message
        self.state: int = DOWN
        # Counts successful connects: whoever sees it change knows that the server has forgotten its pulls.
        self.epoch: int = 0
        self.info: dict[str, Any] = {}
        self.payload_size_max: int = 1024 * 1024
        self.subjects = SubjectBook()
        self._frames = FrameMaker()
        self.routes: dict[bytes, Route] = {}
        self._next_sid: int = 0
        # Sent at any time: the handshake, pongs, and the subscriptions after a reconnect.
        self.control: list[bytes] = []
        # Sent when UP, in order.
        self.out: list[bytes] = []
        self.out_bytes: int = 0
        # Publishes to streams wait for what is decided about earlier ones (see `resend`); or it is closed.
        self.is_holding: bool = False
        # Those of them that are for this connection only.
        self._brief: list[bytes] = []
        self.on_output: Callable[[], None] = _ignore
        self.info_pending = Pending("INFO", b"", 0.0)
        self.up_pending = Pending("CONNECT", b"", 0.0)
        self._pongs: deque[Pending | None] = deque()
        self._pings_unanswered: int = 0
        self._next_ping_s: float = 0.0
        # Told, once, that the connection came up, broke or was closed.
        self.state_waiters: list[Callable[[], None]] = []
        # Things to tell the user, drained by the driver after every feed.
        self.errors: list[BaseException] = []
        self.discovered_urls: list[str] = []
        self.is_lame_duck: bool = False
        self.lame_duck_news: bool = False
        self.close_error: BaseException | None = None
        self._token: int = 0
        prefix = f"{inbox_prefix}.{nuid.next()}.".encode()
        ownership = Inbox(b"", b"", b"", make_message, owner)
        self.requests = RequestMux(b"", prefix, make_message, ownership)
        self.acks = AckMux(b"", f"{inbox_prefix}.{nuid.next()}.".encode())

    # The wire.

    def attach(self) -> None:
        """A transport is open; the server speaks first."""
        self.parser.reset()
        self.control = []
        # Those of a try that failed went to whoever made it: they are not this connection's.
        self.errors = []
        self.state = WAIT_INFO
        self.info_pending = Pending("INFO", b"", 0.0)
        self.up_pending = Pending("CONNECT", b"", 0.0)

    def feed(self, data: bytes) -> None:
        """Bytes from the server."""
        self.parser.feed(data)

    def connect(self, document: dict[str, Any]) -> None:
        """Introduce ourselves; the PONG will say that it was accepted."""
        self.state = WAIT_PONG
        self.control.append(b"CONNECT %b\r\nPING\r\n" % msgspec.json.encode(document))

    def detach(self, error: BaseException) -> None:
        """The transport is gone: give every waiting thing its outcome, or keep it for the next connection."""
        was_up = self.state == UP
        if self.state != CLOSED:
            self.state = DOWN
        self.info_pending.fail(error)
        self.up_pending.fail(error)
        self.control = []
        self._pings_unanswered = 0
        pongs = self._pongs
        self._pongs = deque()
        lost = ConnectionLostError(f"connection lost: {error}")
        for pending in pongs:
            if pending is not None:
                pending.fail(lost)
        if not was_up:
            return
        brief = {id(frame) for frame in self._brief}
        self._brief = []
        kept = [frame for frame in self.out if frame is not PING and id(frame) not in brief]
        unsent = {id(frame) for frame in kept}
        for token, waiting in list(self.requests.waiting.items()):
            if id(waiting.frame) not in unsent:
                del self.requests.waiting[token]
                waiting.fail(lost)
        self.out = self.acks.connection_lost(kept)
        self.is_holding = self.is_holding or len(self.acks.held) > 0
        self.out_bytes = sum([len(frame) for frame in self.out])
        self.wake_inboxes()

    def close(self, error: BaseException | None) -> None:
        """For good: nothing will be sent or received any more."""
        if self.state == CLOSED:
            return
        self.state = CLOSED
        self.close_error = error
        reason = self.closed_error()
        self.info_pending.fail(reason)
        self.up_pending.fail(reason)
        for pending in self._pongs:
            if pending is not None:
                pending.fail(reason)
        self._pongs.clear()
        for waiting in self.requests.waiting.values():
            waiting.fail(reason)
        self.requests.waiting.clear()
        self.is_holding = True
        self.acks.closed({id(frame) for frame in self.out + self.acks.held}, reason)
        self.out = []
        self.out_bytes = 0
        for route in list(self.routes.values()):
            if isinstance(route, Inbox):
                route.close()
        self._wake_state_waiters()

    def closed_error(self) -> ConnectionClosedError:
        """For whoever uses a closed connection: with the reason, when it was not the user's `close`."""
        error = self.close_error
        return ConnectionClosedError(
            "the connection is closed" if error is None else f"the connection is closed: {error}"
        )

    def wake_inboxes(self) -> None:
        """Whoever waits for messages should look at the connection."""
        for route in list(self.routes.values()):
            if isinstance(route, Inbox):
                route.wake()
        self._wake_state_waiters()

    def _wake_state_waiters(self) -> None:
        waiters = self.state_waiters
        self.state_waiters = []
        for waiter in waiters:
            waiter()

    def take_output(self) -> bytes:
        """Everything to write now."""
        if self.state == UP:
            if self.control:
                frames = self.control + self.out
                self.control = []
            else:
                frames = self.out
            self.out = []
            self.out_bytes = 0
            if self._brief:
                self._brief = []
        else:
            frames = self.control
            self.control = []
        return frames[0] if len(frames) == 1 else b"".join(frames)

    # What the parser says.

    def on_msg(self, sid: bytes, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        route = self.routes.get(sid)
        if route is None:
            return
        route.deliver(subject, reply, header, data)
        if route.delivered_max and route.delivered_count >= route.delivered_max:
            self.routes.pop(sid, None)
            if isinstance(route, Inbox):
                route.close()

    def on_info(self, document: bytes) -> None:
        try:
            info: dict[str, Any] = msgspec.json.decode(document, type=dict)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ProtocolError(f"not an INFO of a server: {document[:80]!r}") from None
        self.info = {**self.info, **info} if self.state == UP else info
        size = info.get("max_payload")
        if isinstance(size, int) and size > 0:
            self.payload_size_max = size
        urls = info.get("connect_urls")
        if isinstance(urls, list):
            self.discovered_urls = [url for url in urls if isinstance(url, str)]
        if info.get("ldm") and not self.is_lame_duck:
            self.is_lame_duck = True
            self.lame_duck_news = True
        if self.state == WAIT_INFO:
            self.is_lame_duck = bool(info.get("ldm"))
            self.state = HAVE_INFO
            self.info_pending.resolve(self.info)

    def on_ping(self) -> None:
        self.control.append(PONG)
        self.on_output()

    def on_pong(self) -> None:
        if self.state == WAIT_PONG:
            self._come_up()
            return
        self._pings_unanswered = 0
        if self._pongs:
            pending = self._pongs.popleft()
            if pending is not None:
                pending.resolve(None)

    def on_error(self, text: str) -> None:
        error = server_error(text)
        if isinstance(error, AuthorizationError) or self.state != UP:
            self.info_pending.fail(error)
            self.up_pending.fail(error)
        elif isinstance(error, PermissionsError):
            denial = Denial(error)
            for route in list(self.routes.values()):
                route.fail_denied(denial)
        self.errors.append(error)

    def _come_up(self) -> None:
        self.state = UP
        self.epoch += 1
        self._pings_unanswered = 0
        self._next_ping_s = 0.0
        for route in self.routes.values():
            if isinstance(route, Inbox) and route.is_renewed:
                route.subject = self.new_inbox_subject()
            self.control.append(route.subscribe_frame())
        self.up_pending.resolve(None)
        if self.is_holding:
            if self.acks.lost and self.acks.on_lost is not None:
                self.acks.on_lost()
            else:
                release(self)
        self.wake_inboxes()
        self.on_output()

    # Sending.

    def send(self, frame: bytes) -> None:
        """Queue a frame. While disconnected the queue is bounded."""
        if self.state != UP:
            self._check_can_buffer(len(frame))
        if not self.out:
            self.on_output()
        self.out.append(frame)
        self.out_bytes += len(frame)

    def publish(self, subject: str, reply: bytes, block: bytes, data: bytes) -> bytes:
        """Check and queue a message; the frame that was queued."""
        if len(data) + len(block) > self.payload_size_max:
            raise MaxPayloadError(f"{len(data) + len(block)} bytes; this server takes {self.payload_size_max}")
        known = self.subjects.checked.get(subject)
        if known is None:
            known = self.subjects.literal(subject)
        frame = self._frames.publish(known, reply, block, data)
        self.send(frame)
        return frame

    def pull(self, subject: str, inbox: Inbox, body: bytes, reply: bytes = b"") -> int:
        """Queue a pull, answered in an inbox of `add_pull_inbox`; which epoch it is for, 0 when there is no connection.

        It goes to this connection or to none. Whoever sees another epoch asks again: were it kept as well, there would
        be two, and the messages of one would go to nobody.
        """
        if self.state == CLOSED:
            raise self.closed_error()
        if self.state != UP:
            return 0
        self._brief.append(self.publish(subject, reply or inbox.subject, b"", body))
        return self.epoch

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be sent."""
        return self.out_bytes + self.acks.held_bytes

    def _check_can_buffer(self, size: int) -> None:
        if self.state == CLOSED:
            raise self.closed_error()
        if self.unsent_bytes + size > self.pending_bytes_max:
            raise OutboundBufferError(f"disconnected, and {self.unsent_bytes} bytes already wait to be sent")

    # Subscriptions.

    def new_sid(self) -> bytes:
        """A name for a subscription, never used before on this connection."""
        self._next_sid += 1
        return b"%d" % self._next_sid

    def new_inbox_subject(self) -> bytes:
        """A subject nobody else uses."""
        return f"{self.inbox_prefix}.{self.nuid.next()}".encode()

    def add_inbox(self, subject: bytes, queue_group: bytes, owner: Any) -> Inbox:
        """Subscribe."""
        if self.state == CLOSED:
            raise self.closed_error()
        inbox = Inbox(self.new_sid(), subject, queue_group, self.make_message, owner)
        self.add_route(inbox)
        return inbox

    def add_pull_inbox(self, owner: Any) -> Inbox:
        """Subscribe for the answers to pulls.

        The subject changes with the connection. A server may remember a pull of the connection before, and would answer
        it beside the one that is made again; so it finds that nobody listens there.
        """
        inbox = self.add_inbox(self.new_inbox_subject(), b"", owner)
        inbox.is_renewed = True
        return inbox

    def add_route(self, route: Route) -> None:
        """Subscribe a route that was made elsewhere."""
        self.routes[route.sid] = route
        # When not UP the frame is not queued: every route is announced when the connection comes up.
        if self.state == UP:
            self.send(route.subscribe_frame())

    def remove_route(self, route: Route) -> None:
        """Unsubscribe now. Unknown routes are ignored: the server may have ended it already."""
        if self.routes.pop(route.sid, None) is not None and self.state == UP:
            self.send(b"UNSUB %b\r\n" % route.sid)
        if isinstance(route, Inbox):
            route.close()

    def limit_route(self, route: Route, delivered_max: int) -> None:
        """Unsubscribe once so many messages have come, counting those that already did."""
        route.delivered_max = delivered_max
        if route.delivered_count >= delivered_max:
            self.remove_route(route)
        elif self.state == UP:
            self.send(b"UNSUB %b %d\r\n" % (route.sid, delivered_max))

    # Answers.

    def request(self, subject: str, block: bytes, data: bytes, deadline_s: float) -> tuple[bytes, Pending]:
        """Publish with a reply of our own; the token to cancel it by, and the answer to wait for."""
        mux = self.requests
        if not mux.sid:
            mux.sid = self.new_sid()
            self.add_route(mux)
        self._token += 1
        token = b"%d" % self._token
        pending = Pending(subject, b"", deadline_s)
        pending.frame = self.publish(subject, mux.subject[:-1] + token, block, data)
        mux.waiting[token] = pending
        return token, pending

    def publish_acked(self, subject: str, block: bytes, data: bytes, pending: Pending) -> bytes:
        """Publish to a stream; `pending` will get the raw acknowledgement. The token to cancel it by."""
        is_held = self.is_holding
        if is_held and self.state == CLOSED:
            raise PublishNotSentError(f"{self.closed_error()}; {subject} was not sent and is not stored")
        mux = self.acks
        if not mux.sid:
            mux.sid = self.new_sid()
            self.add_route(mux)
        mux.next_token += 1
        token = b"%d" % mux.next_token
        reply = mux.prefix + token
        pending.frame = (
            hold(self, subject, reply, block, data) if is_held else self.publish(subject, reply, block, data)
        )
        mux.waiting[token] = pending
        return token

    def ping(self) -> Pending:
        """Ask the server to confirm that it has read everything sent so far."""
        if self.state == CLOSED:
            raise self.closed_error()
        pending = Pending("PING", PING, 0.0)
        if self.state != UP:
            pending.fail(ConnectionLostError("not connected"))
            return pending
        self._pongs.append(pending)
        self.send(PING)
        return pending

    def tick(self, now_s: float, ping_interval_s: float, ping_outstanding_max: int) -> None:
        """Time passes: late acknowledgements fail, a quiet server is asked, a silent one is given up."""
        if self.acks.waiting:
            for pending in self.acks.expire(now_s):
                self.acks.fail(pending, give_up(self, pending, " in time"))
        if self.state != UP:
            return
        if self._next_ping_s == 0.0:
            self._next_ping_s = now_s + ping_interval_s
        elif now_s >= self._next_ping_s:
            self._next_ping_s = now_s + ping_interval_s
            if self._pings_unanswered >= ping_outstanding_max:
                raise StaleConnectionError(f"no answer to {self._pings_unanswered} pings")
            self._pings_unanswered += 1
            self._pongs.append(None)
            self.send(PING)


def server_error(text: str) -> ServerError | AuthorizationError | StaleConnectionError:
    """The class for an -ERR text."""
    words = text.lower()
    for known in _AUTH_WORDS:
        if known in words:
            return AuthorizationError(text)
    if "stale connection" in words:
        return StaleConnectionError(text)
    if words.startswith("permissions violation"):
        quoted = text.split('"')
        return PermissionsError(text, quoted[1] if len(quoted) > 2 else "")
    return ServerError(text)


def is_fatal(error: BaseException) -> bool:
    """After this -ERR the server closes the connection."""
    if isinstance(error, (AuthorizationError, StaleConnectionError)):
        return True
    words = str(error).lower()
    for known in _FATAL_WORDS:
        if known in words:
            return True
    return False


def _ignore() -> None:
    return None
