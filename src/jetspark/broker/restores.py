"""Streams on their way in: uploads under `$JS.SNAPSHOT.RESTORE.`, and answers of snapshot receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.session import Session


class Restores:
    """Snapshots under way in one account."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    def is_restoring(self, name: str) -> bool:
        """Is a stream of this name on its way in?"""
        return False

    def receive(self, session: Session, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        """A message under `$JS.SNAPSHOT.`; False when no snapshot of that name is under way."""
        return False
