"""What a client says of itself in CONNECT, read as Go reads it.

Decided here: which options exist and of what type each is. A name counts in any case, `null` leaves an option as it
was, and so does a second CONNECT that does not name it. Not known here: what an option does.
"""

from __future__ import annotations

from typing import Any, Final

from jetspark.api.schema import BOOL, INT, STRING, WireField, decode_one

_TRUTHS: Final = ("verbose", "pedantic", "echo", "headers", "no_responders", "tls_required", "new_account")
_WORDS: Final = (
    *("user", "pass", "auth_token", "nkey", "jwt", "sig", "proxy_sig"),
    *("name", "lang", "version", "account", "remote_account"),
)
_SPEC: Final = (
    *(WireField(name, BOOL, omit_empty=False) for name in _TRUTHS),
    *(WireField(name, STRING, omit_empty=False) for name in _WORDS),
    WireField("protocol", INT, omit_empty=False),
)


def read_connect(document: bytes, before: dict[str, Any]) -> dict[str, Any]:
    """The options after this CONNECT, given those of the one before; `ApiError` when one has the wrong type."""
    return before | decode_one(_SPEC, document, "ClientOpts")
