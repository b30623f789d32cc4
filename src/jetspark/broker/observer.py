"""Who watches the consumers without being a client: the server's own figures about acknowledgements.

The base class looks at nothing. An edge that keeps figures puts its own in the broker's place for one. Advisories are
for clients and cost a message each; this costs a call, and only for what is rare or sampled anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Looks at nothing."""

    def acknowledged(self, consumer: Consumer, ack_time_ns: i64, deliveries: i64) -> None:
        """One sampled acknowledgement, and how long after its delivery it came."""

    def refused(self, consumer: Consumer) -> None:
        """A client sent a message back (NAK)."""

    def terminated(self, consumer: Consumer) -> None:
        """A message will not be delivered again because a client said so, or because it is gone."""

    def exhausted(self, consumer: Consumer) -> None:
        """A message was delivered as often as its consumer allows."""
