"""How log lines and monitoring name a connection and count its time."""

from __future__ import annotations

from typing import Final

from jetspark.broker.session import Session

_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * _MINUTE_S
_DAY_S: Final = 24 * _HOUR_S
_YEAR_S: Final = 365 * _DAY_S


def describe(session: Session) -> str:
    """Address, id, and once the client introduced itself its version, language and name.

    127.0.0.1:45952 - cid:5 - "v2.6.0:python3:billing"
    """
    letter = "w" if session.kind == "websocket" else "c"
    label = f"{session.host}:{session.port} - {letter}id:{session.session_id}"
    version = f"v{session.version}" if session.version else ""
    client = ":".join(part for part in (version, session.language, session.name) if part)
    if client:
        label = f'{label} - "{client}"'
    if session.user_name:
        label = f'{label} - "{session.account.name}/{session.user_name}"'
    return label


def uptime(duration_ns: int) -> str:
    """A time span in whole seconds: 45s, 16m45s, 2h0m5s, 3d4h0m0s."""
    total_s = max(0, duration_ns) // 1_000_000_000
    text = f"{total_s % _MINUTE_S}s"
    if total_s < _MINUTE_S:
        return text
    text = f"{total_s % _HOUR_S // _MINUTE_S}m{text}"
    if total_s < _HOUR_S:
        return text
    text = f"{total_s % _DAY_S // _HOUR_S}h{text}"
    if total_s < _DAY_S:
        return text
    text = f"{total_s % _YEAR_S // _DAY_S}d{text}"
    return text if total_s < _YEAR_S else f"{total_s // _YEAR_S}y{text}"
