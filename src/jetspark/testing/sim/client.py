"""A client in the simulator: what it has sent and not delivered yet, what came back and it has not read yet.

Both ways are pipes: in order, as slow as chance wants, and gone when the connection is.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jetspark.api.consumer_config import PriorityPolicy
from jetspark.broker.session import Session
from jetspark.testing.sim.consumer_model import ConsumerModel, Delivery
from jetspark.testing.sim.model import header_value
from jetspark.testing.sim.wire import CONNECT, Frame, Op, read_delivery


class SimClient:
    """One connection, from CONNECT to its end."""

    def __init__(self, number: int, session: Session) -> None:
        self.number = number
        self.session = session
        self.inbox = b"_INBOX.c%d" % number
        self.outgoing: deque[Op] = deque()
        self.mailbox: deque[Frame] = deque()
        # Deliveries read and not acknowledged, and some that were: they may be acknowledged again, or late.
        self.held: list[tuple[bytes, Delivery]] = []
        # Push subjects listened to, by sid.
        self.listens: dict[bytes, bytes] = {}
        # What pinned-client consumers call this client, by stream and consumer.
        self.pins: dict[tuple[str, str], str] = {}
        self.is_stalled = False
        self._request_count = 0
        self._sid_count = 1
        self.send(Op(CONNECT))
        self.send(Op(b"SUB %b.> 1\r\n" % self.inbox))

    def send(self, op: Op) -> None:
        """Put an operation on its way."""
        self.outgoing.append(op)

    def new_reply(self) -> bytes:
        """A fresh inbox of this client."""
        self._request_count += 1
        return b"%b.%d" % (self.inbox, self._request_count)

    def listen(self, subject: bytes, queue: bytes) -> None:
        """Subscribe to a push subject."""
        self._sid_count += 1
        sid = b"%d" % self._sid_count
        self.listens[sid] = subject
        self.send(Op(b"SUB %b %b %b\r\n" % (subject, queue, sid)))

    def stop_listening(self, sid: bytes) -> None:
        """End such a subscription."""
        del self.listens[sid]
        self.send(Op(b"UNSUB %b\r\n" % sid))

    def pull_document(self, consumer: ConsumerModel, document: dict[str, Any]) -> dict[str, Any]:
        """A pull request as this consumer wants it: with its group, and the pin this client was given."""
        if consumer.config.priority_groups:
            document["group"] = consumer.config.priority_groups[0]
            pin_id = self.pins.get((consumer.stream.name, consumer.name))
            if pin_id and consumer.config.priority_policy == PriorityPolicy.PINNED_CLIENT:
                document["id"] = pin_id
        return document

    def read(self, count: int) -> list[tuple[bytes, Delivery]]:
        """Read some of what came; the deliveries among it."""
        found: list[tuple[bytes, Delivery]] = []
        while count > 0 and self.mailbox:
            count -= 1
            frame = self.mailbox.popleft()
            delivery = read_delivery(frame)
            if delivery is not None:
                found.append((frame.reply, delivery))
                pin_id = header_value(delivery.header, b"Nats-Pin-Id")
                if pin_id:
                    self.pins[delivery.stream, delivery.consumer] = pin_id.decode()
            elif frame.status == b"423":
                # Somebody else is pinned now.
                self.pins.clear()
            elif frame.reply and frame.status == b"100":
                # Flow control wants an answer.
                self.send(Op(b"PUB %b 0\r\n\r\n" % frame.reply))
        found.sort(key=lambda item: (item[1].stream, item[1].consumer, item[1].consumer_seq))
        self.held.extend(found)
        del self.held[:-200]
        return found
