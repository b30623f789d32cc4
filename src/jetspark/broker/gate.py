"""Who may come in: the question the broker asks the edge on CONNECT.

The base class lets everybody in. The edge's own gate looks at passwords and keys and answers at once or later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from jetspark.broker.session import Session

REJECT: Final = 0
ACCEPT: Final = 1
PENDING: Final = 2


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate:
    """No authentication: every CONNECT is accepted into the default account."""

    def required(self) -> bool:
        """Must a client say CONNECT with credentials before anything else?"""
        return False

    def authenticate(self, session: Session, connect: dict[str, Any]) -> int:
        """ACCEPT after setting the session's user, account and permissions; REJECT; or PENDING, to be
        followed by `session.auth_result(ok)`."""
        return ACCEPT
