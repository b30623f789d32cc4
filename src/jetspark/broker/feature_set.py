"""Which features a stream has, put together from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.broker.features import StreamFeatures

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream


def features_for(stream: Stream) -> StreamFeatures | None:
    """The features of a stream, None when it has none."""
    return None
