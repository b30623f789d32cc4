"""Who copies which stream, inside one account.

A mirror or a sourcing stream may be there before its origin, and outlive it: the feeds of a name are kept here and are
told when a stream of that name comes and goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jetspark.broker.feed import Feed
    from jetspark.broker.stream import Stream


class Followers:
    """Feeds by the name of their origin."""

    def __init__(self) -> None:
        self._by_origin: dict[str, list[Feed]] = {}

    def of(self, name: str) -> list[Feed]:
        """The feeds of an origin; the same list for as long as the account lives."""
        return self._by_origin.setdefault(name, [])

    def origin_registered(self, stream: Stream) -> None:
        stream.followers = self.of(stream.name)
        for feed in list(stream.followers):
            try:
                feed.origin_appeared(stream)
            except Exception as error:  # noqa: BLE001 - the others copy this stream, too
                feed.stream.fail(error)

    def origin_deleted(self, stream: Stream) -> None:
        for feed in list(self.of(stream.name)):
            try:
                feed.origin_gone()
            except Exception as error:  # noqa: BLE001 - the others must know
                feed.stream.fail(error)
