"""One account: a subject space of its own, and the streams in it.

Routes every publish of its sessions: to subscribers, to the stream that captures the subject, or, for `$JS.…`, to
JetStream itself. What JetStream does with a message is decided in `jetstream`, `stream` and `consumer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.broker.greeting import user_info
from jetspark.broker.interest import Interest, Route, Subscription
from jetspark.broker.jetstream import JetStream
from jetspark.protocol.subjects import collides, has_wildcard, is_between_servers

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.session import Session

DOLLAR: Final = 36

GLOBAL: Final = "$G"
SYSTEM: Final = "$SYS"


class Account:
    """A subject space, its interest and its JetStream."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.interest = Interest()
        self.jetstream = JetStream(broker, self)
        self.session_count: int = 0
        # Its users may look at the whole server.
        self.is_system = False
        # Push consumers by deliver subject, to learn when somebody starts or stops listening there.
        self._listeners: dict[bytes, list[Consumer]] = {}

    # -- publish -----------------------------------------------------------------------------------------------

    def publish(self, session: Session, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        """One message from a client."""
        if subject and subject[0] == DOLLAR and self._system_publish(session, subject, reply, header_size, body):
            return
        interest = self.interest
        known = interest.routes.get(subject)
        route = known if known is not None else interest.route(subject)
        delivered = False
        if route.has_subscribers:
            delivered = self.fan_out(session, route, subject, reply, header_size, body)
        stream = route.stream
        if stream is not None:
            stream.ingest(session, subject, reply, header_size, body)
        elif reply and not delivered:
            session.no_responder(subject, reply)

    def _system_publish(self, session: Session, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        """`$JS.…` and its kin; True when the message has been dealt with wholly."""
        if subject.startswith(b"$JS."):
            inner = self.jetstream.bucket_subject(subject)
            if inner:
                self.publish(session, inner, reply, header_size, body)
                return True
            route: Route | None = None
            if self.interest.dollar_count > 0 or self.jetstream.captures_dollar:
                # Asked before the request is carried out: it is not seen by what it creates.
                route = self.interest.reply_route(subject)
            handled = self.jetstream.receive(session, subject, reply, header_size, body)
            if route is not None:
                if route.has_subscribers and self.fan_out(session, route, subject, reply, header_size, body):
                    handled = True
                stream = route.stream
                if stream is not None and not stream.deleted:
                    stream.ingest(session, subject, reply, header_size, body)
                    handled = True
            if not handled and reply:
                session.no_responder(subject, reply)
            return True
        if is_between_servers(subject):
            text = subject.decode("utf-8", "replace")
            session.send_error(f'Permissions Violation for Publish to "{text}"')
            return True
        return subject.startswith(b"$SYS.REQ.") and self._system_request(session, subject, reply, header_size, body)

    def _system_request(self, session: Session, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        """Does one of the server's own services take this request?"""
        if subject == b"$SYS.REQ.USER.INFO":
            if reply:
                self.publish_internal(reply, b"", 0, user_info(self.broker, session))
            return True
        if not self.broker.system.request(session, subject, reply, body[header_size:] if header_size > 0 else body):
            return False
        # Whoever listens to requests hears them too.
        heard = self.interest.reply_route(subject)
        if heard.has_subscribers:
            self.fan_out(session, heard, subject, reply, header_size, body)
        return True

    def fan_out(
        self, session: Session | None, route: Route, subject: bytes, reply: bytes, header_size: i64, body: bytes
    ) -> bool:
        """Give the message to all plain subscribers and to one member of each queue group."""
        delivered = False
        # Deliveries may end a subscription (auto-unsubscribe), which makes new routes but leaves this one whole.
        for subscription in route.plain:
            target = subscription.session
            if target is session and not target.echo:
                continue
            if not subscription.active:
                continue
            try:
                target.deliver(subscription, subject, reply, header_size, body, target.out)
            except Exception as error:  # noqa: BLE001 - the others get the message all the same
                target.fail(error)
                continue
            if not target.is_dirty:
                target.mark_dirty()
            delivered = True
        for members in route.queues:
            chosen = self.choose_member(session, members)
            if chosen is not None:
                target = chosen.session
                try:
                    target.deliver(chosen, subject, reply, header_size, body, target.out)
                except Exception as error:  # noqa: BLE001 - the other groups get the message all the same
                    target.fail(error)
                    continue
                target.mark_dirty()
                delivered = True
        return delivered

    def choose_member(self, session: Session | None, members: list[Subscription]) -> Subscription | None:
        """One member of a queue group, at random among those that may have it."""
        count: i64 = len(members)
        start = self.broker.random_index(count)
        for offset in range(count):
            member = members[(start + offset) % count]
            if member.active and not (member.session is session and not member.session.echo):
                return member
        return None

    def publish_internal(self, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        """A message of the server's own (reply, advisory, republish): to subscribers only."""
        route = self.interest.reply_route(subject)
        if not route.has_subscribers:
            return False
        return self.fan_out(None, route, subject, reply, header_size, body)

    def publish_from_server(self, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> None:
        """The same, also into the stream that captures the subject (republish, advisories kept in a stream)."""
        route = self.interest.route(subject)
        if route.has_subscribers:
            self.fan_out(None, route, subject, reply, header_size, body)
        stream = route.stream
        if stream is not None:
            stream.ingest(None, subject, reply, header_size, body)

    def hold_reply(self, subject: bytes, header_size: i64, body: bytes) -> None:
        """A reply that must not leave before what was decided now is durable."""
        route = self.interest.reply_route(subject)
        for subscription in route.plain:
            self._hold(subscription, subject, header_size, body)
        for members in route.queues:
            chosen = self.choose_member(None, members)
            if chosen is not None:
                self._hold(chosen, subject, header_size, body)

    def _hold(self, subscription: Subscription, subject: bytes, header_size: i64, body: bytes) -> None:
        target = subscription.session
        try:
            target.deliver(subscription, subject, b"", header_size, body, self.broker.held_outbox(target))
        except Exception as error:  # noqa: BLE001 - whoever asked is not to blame for who listens
            target.fail(error)

    # -- who listens on deliver subjects ---------------------------------------------------------------------------

    def listen(self, subject: bytes, consumer: Consumer) -> None:
        self._listeners.setdefault(subject, []).append(consumer)

    def stop_listening(self, subject: bytes, consumer: Consumer) -> None:
        consumers = self._listeners.get(subject)
        if consumers is not None and consumer in consumers:
            consumers.remove(consumer)
            if not consumers:
                del self._listeners[subject]

    def interest_gained(self, subject: bytes) -> None:
        if self._listeners:
            self._tell(subject)

    def interest_lost(self, subject: bytes) -> None:
        if self._listeners:
            self._tell(subject)

    def _tell(self, subject: bytes) -> None:
        if not has_wildcard(subject):
            for consumer in list(self._listeners.get(subject, ())):
                tell_interest(consumer)
            return
        for deliver_subject, consumers in list(self._listeners.items()):
            if collides(subject, deliver_subject):
                for consumer in list(consumers):
                    tell_interest(consumer)


def tell_interest(consumer: Consumer) -> None:
    try:
        consumer.interest_changed()
    except Exception as error:  # noqa: BLE001 - who subscribes is not to blame, and others listen, too
        consumer.fail(error)
