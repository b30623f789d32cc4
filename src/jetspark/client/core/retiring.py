"""Leaving an inbox without losing what is on its way to it.

The server reads an UNSUB some time after it was sent, and delivers until then. It answers a ping that follows the UNSUB
after everything it delivered before, so the inbox stays until that answer.
"""

from __future__ import annotations

from jetspark.client.core.connection import UP, ConnectionCore
from jetspark.client.core.routes import Inbox


class _Retiring:
    """One inbox that is about to be closed."""

    def __init__(self, core: ConnectionCore, inbox: Inbox) -> None:
        self._core = core
        self._inbox = inbox

    def end(self) -> None:
        """The server has answered, or cannot any more."""
        self._core.routes.pop(self._inbox.sid, None)
        self._inbox.close()


def retire(core: ConnectionCore, inbox: Inbox) -> None:
    """Unsubscribe, and close the inbox when nothing more can come; at once when there is no connection."""
    if core.state != UP or inbox.sid not in core.routes:
        core.remove_route(inbox)
        return
    core.send(b"UNSUB %b\r\n" % inbox.sid)
    core.ping().wake = _Retiring(core, inbox).end
