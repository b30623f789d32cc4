"""One connection as the broker sees it: what the client asked for, what waits to be sent to it.

Handles the client's operations (the parser calls the `on_…` methods) and collects output in an Outbox that the edge
writes. Not known here: sockets, TLS, passwords (the gate decides), time other than the broker's `now_ns`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from jetspark.api.connect_options import read_connect
from jetspark.api.error_codes import ApiError
from jetspark.broker import runs
from jetspark.broker.gate import ACCEPT, PENDING
from jetspark.broker.greeting import info_document
from jetspark.broker.interest import Subscription
from jetspark.broker.permissions import Permissions
from jetspark.protocol import headers
from jetspark.protocol.outbox import Outbox
from jetspark.protocol.parser import CONTROL_LINE_EXCEEDED, OpHandler, Parser
from jetspark.protocol.subjects import is_between_servers, is_reserved_reply, is_valid_subject, matches

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.broker import Broker
    from jetspark.broker.consumer.consumer import Consumer

DOLLAR: Final = 36
UNDERSCORE: Final = 95
LETTER_C: Final = 67
LETTER_SMALL_C: Final = 99
LETTER_G: Final = 71
LETTER_R: Final = 82

# Deliveries from streams pause when this much output waits for one connection, and go on when it has been sent:
# a stored message can wait, so nobody needs to be cut off for it.
DELIVERY_HIGH_WATER: Final = 2 * 1024 * 1024

# nats-server's reasons, as monitoring shows them.
REASON_CLIENT: Final = "Client Closed"
REASON_SLOW: Final = "Slow Consumer (Pending Bytes)"
REASON_STALE: Final = "Stale Connection"
REASON_AUTHENTICATION: Final = "Authentication Failure"
REASON_AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
REASON_PROTOCOL: Final = "Protocol Violation"
REASON_SHUTDOWN: Final = "Server Shutdown"
REASON_INTERNAL: Final = "Internal Error"


class Session(OpHandler):
    """One client connection."""

    def __init__(self, broker: Broker, account: Account, session_id: int, kind: str, host: str, port: int) -> None:
        self.halted: bool = False
        self.broker = broker
        self.account = account
        self.session_id = session_id
        self.kind = kind
        self.host = host
        self.port = port
        self.parser = Parser(self, broker.options.max_payload, broker.options.max_control_line)
        self.out = Outbox()
        self.held = Outbox()
        self.is_dirty: bool = False
        self.holds: bool = False
        self.subscriptions: dict[bytes, Subscription] = {}
        # Consumers that stopped delivering here until output drains.
        self.paused_consumers: list[Consumer] = []
        self.buffered_bytes: i64 = 0
        self.closing: bool = False
        self.closed: bool = False
        self.close_reason: str = ""
        # CONNECT options with the defaults of a client that never says CONNECT.
        self.verbose: bool = True
        self.pedantic: bool = True
        self.echo: bool = True
        self.headers: bool = False
        self.no_responders: bool = False
        self.protocol: int = 0
        self.name: str = ""
        self.language: str = ""
        self.version: str = ""
        self.connect_options: dict[str, Any] = {}
        # Identity, set by the gate.
        self.user_name: str = ""
        self.account_name: str = ""
        self.permissions: Permissions | None = None
        self.nonce: str = ""
        self.accepted: bool = not broker.gate.required()
        # True when a publish needs more than the fast way: not accepted yet, verbose, pedantic, or permissions.
        self.guarded: bool = True
        self.connected: bool = False
        self.first_ping_answered: bool = False
        self.pings_out: int = 0
        # Replies this client may publish to because it received a request (allow_responses): subject -> (left, until).
        self.allowed_replies: dict[bytes, list[int]] = {}
        # Counters for monitoring.
        self.start_ns: i64 = broker.now_ns
        self.last_activity_ns: i64 = broker.now_ns
        self.in_msgs: i64 = 0
        self.in_bytes: i64 = 0
        self.out_msgs: i64 = 0
        self.out_bytes: i64 = 0
        self.rtt_ns: i64 = 0
        self.ping_sent_ns: i64 = 0

    # -- bytes in and out --------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self.last_activity_ns = self.broker.now_ns
        if self.closing:
            return
        if not self.accepted and not self.connected and self.parser.is_empty() and len(data) > 0:
            # A stranger begins with the first letter of CONNECT, or nothing of it is read; nats-server's rule.
            if data[0] != LETTER_C and data[0] != LETTER_SMALL_C:
                self.reject()
                return
        self.parser.feed(data)

    def take_output(self) -> bytes:
        self.is_dirty = False
        return self.out.take()

    def mark_dirty(self) -> None:
        if not self.is_dirty:
            self.is_dirty = True
            self.broker.dirty_sessions.append(self)

    def send(self, data: bytes) -> None:
        self.out.put(data)
        self.mark_dirty()

    def send_error(self, text: str) -> None:
        self.send(b"-ERR '" + text.encode() + b"'\r\n")

    def close(self, reason: str) -> None:
        """End this connection once its output is flushed; nothing it still sends is read."""
        if self.closing:
            return
        self.closing = True
        self.halted = True
        self.close_reason = reason
        self.mark_dirty()

    def fail(self, error: Exception) -> None:
        """Something raised for this connection: it is noted, and the connection ends."""
        self.broker.failed(f"{self.host}:{self.port} - cid:{self.session_id} is closed", error)
        self.close(REASON_INTERNAL)

    def release(self) -> None:
        """The connection is gone: forget what it sent, what it would have been sent, and its secrets."""
        self.parser.discard()
        self.out.take()
        self.held.take()
        self.connect_options = {}
        self.nonce = ""
        self.allowed_replies = {}

    def send_info(self, extra: dict[str, Any]) -> None:
        document = info_document(self.broker, self)
        document.update(extra)
        self.send(b"INFO " + json.dumps(document, separators=(",", ":")).encode() + b" \r\n")

    # -- operations (OpHandler) --------------------------------------------------------------------------------

    def on_connect(self, document: bytes) -> None:
        if len(document) > self.parser.max_control_line:
            self.send_error(CONTROL_LINE_EXCEEDED)
            self.close(REASON_PROTOCOL)
            return
        try:
            connect = read_connect(document, self.connect_options)
        except ApiError:
            self.close(REASON_PROTOCOL)
            return
        self.connect_options = connect
        if connect.get("account") or connect.get("new_account"):
            self.reject()
            return
        self.connected = True
        verdict = self.broker.gate.authenticate(self, connect)
        if verdict == PENDING:
            # The parser keeps what follows until the gate has answered.
            self.halted = True
            return
        self.auth_result(verdict == ACCEPT)

    def auth_result(self, accepted: bool) -> None:
        """The gate has decided; options of CONNECT take effect now."""
        if self.closing:
            return
        if not accepted:
            self.reject()
            return
        connect = self.connect_options
        was_halted = self.halted
        self.halted = False
        self.accepted = True
        if self.account_name:
            self.account = self.broker.account(self.account_name)
        if not self._apply_connect(connect):
            return
        self.broker.system.connected(self)
        self.guarded = self.verbose or self.pedantic or self.permissions is not None
        if self.verbose:
            self.send(b"+OK\r\n")
        if was_halted:
            self.parser.resume()

    def _apply_connect(self, connect: dict[str, Any]) -> bool:
        self.verbose = connect.get("verbose", True)
        self.pedantic = connect.get("pedantic", True)
        self.echo = connect.get("echo", True)
        self.headers = connect.get("headers", False)
        self.no_responders = connect.get("no_responders", False)
        protocol: int = connect.get("protocol", 0)
        self.name = connect.get("name", "")
        self.language = connect.get("lang", "")
        self.version = connect.get("version", "")
        if protocol not in (0, 1):
            self.send_error("invalid client protocol")
            self.close(REASON_PROTOCOL)
            return False
        self.protocol = protocol
        if self.no_responders and not self.headers:
            self.send_error("no responders requires headers support")
            self.close(REASON_PROTOCOL)
            return False
        return True

    def reject(self) -> None:
        self.send_error("Authorization Violation")
        self.close(REASON_AUTHENTICATION)
        self.broker.system.refused(self)

    def on_pub(self, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        self.in_msgs += 1
        self.in_bytes += len(body)
        if self.guarded and not self._may_publish(subject, reply):
            return
        if (reply and may_be_reserved(reply)) or (subject and subject[0] == UNDERSCORE and may_be_reserved(subject)):
            if self._is_reserved(subject, reply):
                return
        try:
            self.account.publish(self, subject, reply, header_size, body)
        except OSError as error:
            # Whoever could say more has not: the connection and what else it asked for must not suffer.
            self.broker.read_failed(f"A message to {text_of(subject)} was not dealt with", error)

    def on_run(self, subject: bytes, replies: list[bytes], bodies: list[bytes]) -> None:
        if self.guarded or not runs.publish(self.account, subject, replies, bodies):
            super().on_run(subject, replies, bodies)
            return
        self.in_msgs += len(bodies)
        self.in_bytes += sum(map(len, bodies))

    def on_hpub(self, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        if not self.headers:
            self.close(REASON_PROTOCOL)
            return
        self.on_pub(subject, reply, header_size, body)

    def _may_publish(self, subject: bytes, reply: bytes) -> bool:
        """The checks of a connection that is not plain: True when the message goes on."""
        if not self.accepted:
            self.reject()
            return False
        permissions = self.permissions
        if permissions is not None and not permissions.can_publish(subject):
            if not self._is_allowed_reply(subject):
                self.send_error(f'Permissions Violation for Publish to "{text_of(subject)}"')
                return False
        if self.pedantic and not is_publishable(subject):
            self.send_error("Invalid Publish Subject")
        if self._is_reserved(subject, reply):
            return False
        if self.verbose:
            self.send(b"+OK\r\n")
        return True

    def _is_reserved(self, subject: bytes, reply: bytes) -> bool:
        """Tell a client that uses a subject of the servers' own."""
        if is_between_servers(subject):
            self.send_error(f'Permissions Violation for Publish to "{text_of(subject)}"')
            return True
        if is_reserved_reply(reply):
            self.send_error(f'Permissions Violation for Publish with Reply of "{text_of(reply)}"')
            return True
        return False

    def _is_allowed_reply(self, subject: bytes) -> bool:
        """Was this the reply subject of a request that came here (allow_responses)?"""
        allowance = self.allowed_replies.get(subject)
        if allowance is None:
            return False
        if (allowance[1] > 0 and self.broker.now_ns > allowance[1]) or allowance[0] == 0:
            del self.allowed_replies[subject]
            return False
        allowance[0] -= 1
        return True

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        if not self.accepted:
            self.reject()
            return
        if not is_valid_subject(subject):
            self.send_error("Invalid Subject")
            return
        permissions = self.permissions
        if permissions is not None and not permissions.can_subscribe(subject, queue):
            using = f' using queue "{text_of(queue)}"' if queue else ""
            self.send_error(f'Permissions Violation for Subscription to "{text_of(subject)}"{using}')
            return
        limit = self.broker.options.max_subscriptions
        if sid not in self.subscriptions:
            if limit > 0 and len(self.subscriptions) >= limit:
                self.send_error("maximum subscriptions exceeded")
                return
            subscription = Subscription(self, subject, queue, sid)
            self.subscriptions[sid] = subscription
            self.account.interest.add(subscription)
            self.account.interest_gained(subject)
        if self.verbose:
            self.send(b"+OK\r\n")

    def on_unsub(self, sid: bytes, max_messages: i64) -> None:
        if not self.accepted:
            self.reject()
            return
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            if max_messages > 0 and subscription.delivered < max_messages:
                subscription.delivered_max = max_messages
            else:
                self.remove_subscription(subscription)
        if self.verbose:
            self.send(b"+OK\r\n")

    def remove_subscription(self, subscription: Subscription) -> None:
        self.subscriptions.pop(subscription.sid, None)
        self.account.interest.remove(subscription)
        self.account.interest_lost(subscription.subject)

    def on_ping(self) -> None:
        if not self.accepted:
            self.reject()
            return
        self.send(b"PONG\r\n")
        if not self.first_ping_answered:
            self.first_ping_answered = True
            if self.protocol >= 1:
                extra: dict[str, Any] = {"connect_info": True, "remote_account": self.account.name}
                if self.account.is_system:
                    extra["acc_is_sys"] = True
                self.send_info(extra)

    def on_pong(self) -> None:
        self.pings_out = 0
        if self.ping_sent_ns > 0:
            self.rtt_ns = self.broker.now_ns - self.ping_sent_ns
            self.ping_sent_ns = 0

    def on_violation(self, text: str) -> None:
        if not self.accepted:
            self.reject()
            return
        if text:
            self.send_error(text)
        self.close(REASON_PROTOCOL)

    # -- delivery ----------------------------------------------------------------------------------------------

    def deliver(
        self, subscription: Subscription, subject: bytes, reply: bytes, header_size: i64, body: bytes, out: Outbox
    ) -> None:
        """Write one message for a subscription of this connection into `out` (its own outbox or what it holds)."""
        if self.permissions is not None and not self._may_receive(subscription, subject, reply):
            return
        subscription.delivered += 1
        self.out_msgs += 1
        self.out_bytes += len(body)
        if header_size > 0 and not self.headers:
            out.put_message(subject, subscription.sid, reply, 0, body[header_size:])
        else:
            out.put_message(subject, subscription.sid, reply, header_size, body)
        if subscription.delivered_max > 0 and subscription.delivered >= subscription.delivered_max:
            self.remove_subscription(subscription)

    def count_delivery(self, subscription: Subscription, size: i64) -> None:
        """A frame was written by somebody else (the fast ways); keep the books."""
        subscription.delivered += 1
        self.out_msgs += 1
        self.out_bytes += size
        if subscription.delivered_max > 0 and subscription.delivered >= subscription.delivered_max:
            self.remove_subscription(subscription)

    def _may_receive(self, subscription: Subscription, subject: bytes, reply: bytes) -> bool:
        permissions = self.permissions
        if permissions is None:
            return True
        allowed = permissions.can_deliver_to_queue(subject, subscription.queue)
        # A stored message reaches an inbox under its own subject: what counts there is the inbox, which was allowed.
        if not allowed and matches(subscription.subject, subject):
            return False
        if reply and permissions.allow_responses:
            until = self.broker.now_ns + permissions.responses_expires_ns if permissions.responses_expires_ns > 0 else 0
            self.allowed_replies[reply] = [permissions.responses_max, until]
            if len(self.allowed_replies) > 4096:
                self._forget_expired_replies()
        return True

    def _forget_expired_replies(self) -> None:
        now_ns = self.broker.now_ns
        gone = [subject for subject, left in self.allowed_replies.items() if 0 < left[1] < now_ns]
        for subject in gone:
            del self.allowed_replies[subject]

    def no_responder(self, subject: bytes, reply: bytes) -> None:
        """Nobody listens: tell the requester at once, if it can hear that and waits on a plain subscription."""
        if not self.no_responders:
            return
        for subscription in self.account.interest.reply_route(reply).plain:
            if subscription.session is self:
                block = headers.status_block(503, b"", [(b"Nats-Subject", subject)])
                # No message: it counts neither here nor towards what the subscription still takes.
                self.out.put_message(reply, subscription.sid, b"", len(block), block)
                self.mark_dirty()
                return

    def has_room(self) -> bool:
        """May a stream deliver more here now?"""
        return self.buffered_bytes + self.out.size < DELIVERY_HIGH_WATER

    def drained(self) -> None:
        """The edge sent what was buffered: deliveries that stopped for this connection go on."""
        if self.paused_consumers:
            waiting = self.paused_consumers
            self.paused_consumers = []
            for consumer in waiting:
                # What raises in there takes the consumer offline and comes no further.
                consumer.resume_after_drain()


def may_be_reserved(subject: bytes) -> bool:
    """Worth a look: `$…`, `_R…` or `_G…`. Nearly all replies are `_INBOX…`, and this is asked for each."""
    if subject[0] == DOLLAR:
        return True
    return subject[0] == UNDERSCORE and len(subject) > 1 and (subject[1] == LETTER_R or subject[1] == LETTER_G)


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def is_publishable(subject: bytes) -> bool:
    """A subject one may publish to: valid and without wildcards."""
    if not is_valid_subject(subject):
        return False
    tokens = subject.split(b".")
    return b"*" not in tokens and b">" not in tokens
