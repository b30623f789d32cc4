"""What the system account asks and hears: the questions the broker passes on, and how a server introduces itself.

The base class answers nothing and tells nobody. The edge's own services know connections, memory and configuration,
which are none of the broker's business; they answer under `$SYS.REQ.` and announce who comes and goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from jetspark.api.timestamps import format_time
from jetspark.broker.options import VERSION

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.session import Session

# JetStream, archives in the newer form, and (of a cluster only) traffic of replicas in their own accounts.
JETSTREAM_FLAGS: Final = 7


@mypyc_attr(allow_interpreted_subclasses=True)
class SystemServices:
    """Nobody there."""

    def request(self, session: Session, subject: bytes, reply: bytes, body: bytes) -> bool:
        """A message under `$SYS.REQ.`; True when it is one of the services, answered or not."""
        return False

    def connected(self, session: Session) -> None:
        """A client was let in."""

    def refused(self, session: Session) -> None:
        """A client was not let in."""

    def disconnected(self, session: Session) -> None:
        """A connection is gone."""


def server_document(broker: Broker) -> dict[str, Any]:
    """Who answers; each document is numbered."""
    options = broker.options
    broker.system_seq += 1
    document: dict[str, Any] = {"name": options.server_name, "host": options.host, "id": options.server_id}
    if options.domain:
        document["domain"] = options.domain
    document["ver"] = VERSION
    if options.tags:
        document["tags"] = options.tags
    document["feature_flags"] = options.feature_flags
    document["jetstream"] = options.jetstream
    document["flags"] = JETSTREAM_FLAGS if options.jetstream else 0
    document["seq"] = broker.system_seq
    document["time"] = format_time(broker.now_ns)
    return document
