"""Messages that were sent before their connection broke, and that have an id.

A copy of such a message is dropped by the stream, but only while the stream remembers the id. How long that is has to
be asked for, so these messages, and those to be sent after them, are held until it is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.client.errors import OutboundBufferError

if TYPE_CHECKING:
    from jetspark.client.core.connection import ConnectionCore

# How much earlier than the end of the window a copy must leave: it has to arrive within it.
MARGIN_S: Final = 5.0


def is_known_at(age_s: float, window_s: float) -> bool:
    """Whether a stream with this duplicate window still knows an id when a copy arrives, sent so long after the first
    one.
    """
    return age_s + max(MARGIN_S, window_s / 4) < window_s


def hold(core: ConnectionCore, subject: str, reply: bytes, block: bytes, data: bytes) -> bytes:
    """Make the frame of a message that waits for what is decided about earlier ones."""
    frame = core.publish(subject, reply, block, data)
    core.out.pop()
    core.out_bytes -= len(frame)
    acks = core.acks
    if core.unsent_bytes + len(frame) > core.pending_bytes_max:
        raise OutboundBufferError(
            f"{core.unsent_bytes} bytes already wait for the duplicate window of a stream to be known"
        )
    acks.held.append(frame)
    acks.held_bytes += len(frame)
    return frame


def release(core: ConnectionCore) -> None:
    """Send what was held, except what has its outcome by now."""
    acks = core.acks
    over = {id(pending.frame) for token, pending in acks.lost.items() if token not in acks.waiting}
    frames = [frame for frame in acks.held if id(frame) not in over]
    acks.lost.clear()
    acks.held = []
    acks.held_bytes = 0
    core.is_holding = False
    for frame in frames:
        core.send(frame)
