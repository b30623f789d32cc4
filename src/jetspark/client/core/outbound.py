"""Taking back what waits to be sent: nobody wants it any more, and sent later it would surprise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.client.errors import PublishTimeoutError

if TYPE_CHECKING:
    from jetspark.client.core.connection import ConnectionCore
    from jetspark.client.core.pending import Pending


def withdraw(core: ConnectionCore, frame: bytes) -> bool:
    """Do not send a frame. False when it is on its way already."""
    if _remove(core.out, frame):
        core.out_bytes -= len(frame)
        return True
    if _remove(core.acks.held, frame):
        core.acks.held_bytes -= len(frame)
        return True
    return False


def _remove(frames: list[bytes], frame: bytes) -> bool:
    # What was queued first is late first, so it is found at once.
    for place in range(len(frames)):
        if frames[place] is frame:
            del frames[place]
            return True
    return False


def withdraw_block(core: ConnectionCore, reply_prefix: bytes) -> bool:
    """The same for messages that are one frame: their answers would go to subjects with this prefix."""
    for frame in core.out:
        if reply_prefix in frame[: frame.find(b"\r\n")]:
            return withdraw(core, frame)
    return False


def give_up(core: ConnectionCore, pending: Pending, waited: str) -> PublishTimeoutError:
    """Do not send a publish, if that is still possible; the error for whoever waits for its acknowledgement."""
    if withdraw(core, pending.frame) and not pending.was_sent:
        return unsent_error(f"the message to {pending.subject} was not sent{waited}, and is not stored")
    return PublishTimeoutError(f"no acknowledgement for {pending.subject}{waited}; it may have been stored")


def unsent_error(text: str) -> PublishTimeoutError:
    """For messages whose time was over before there was a connection to send them on."""
    error = PublishTimeoutError(text)
    error.may_be_stored = False
    return error
