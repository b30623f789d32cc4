# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Many messages in one write, for those who have them all at hand: no future for each, one outcome for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.client.core.ack_tally import STORED, close_tally, open_tally
from jetspark.client.core.denials import SUBSCRIPTION, Denial
from jetspark.client.core.frames import block_frames
from jetspark.client.core.outbound import unsent_error, withdraw_block
from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import PublishDeniedError, PublishError, PublishTimeoutError, PublishUnknownError

if TYPE_CHECKING:
    from jetspark.client.sync.link import Link


class PublishBlock:
    """Messages that were sent together by `publish_many`. After a lost connection they are not sent again."""

    def __init__(self, link: Link, subjects: list[bytes], count: int) -> None:
        self._link = link
        with link.guard:
            self._tally = open_tally(link.core, count, link)
            self._tally.subjects = subjects

    def __len__(self) -> int:
        return self._tally.count

    @property
    def duplicate_count(self) -> int:
        """How many were acknowledged as duplicates."""
        return self._tally.duplicate_count

    @property
    def refusals(self) -> list[tuple[int, bytes]]:
        """Position and answer of each refused message; an empty answer means that no stream takes the subject."""
        return self._tally.refusals

    @property
    def last_ack(self) -> bytes:
        """The last acknowledgement, as the server sent it."""
        return self._tally.last_ack()

    def is_stored(self, place: int) -> bool:
        """Whether this message was acknowledged."""
        return self._tally.outcomes[place] == STORED

    def wait(self, timeout: Seconds) -> None:
        """Wait until every message is stored or refused. Raises an error if some have no answer and none can come."""
        link, tally = self._link, self._tally
        deadline_s = link.now() + seconds(timeout)
        try:
            while tally.answered_count < tally.count:
                signal = link.signal()
                with link.guard:
                    if tally.answered_count == tally.count:
                        return
                    if tally.closed:
                        missing = tally.count - tally.answered_count
                        raise PublishUnknownError(
                            f"the connection is closed; {missing} messages are not acknowledged and may be stored"
                        )
                    if tally.denial is not None:
                        raise denied(tally.denial)
                    tally.waiters.append(signal.set)
                left_s = deadline_s - link.now()
                if left_s <= 0 or not signal.wait(left_s):
                    raise self._late()
        finally:
            if not link.is_closed:
                with link.guard:
                    close_tally(link.core, tally)

    def _late(self) -> PublishTimeoutError:
        link, tally = self._link, self._tally
        missing = tally.count - tally.answered_count
        with link.guard:
            if withdraw_block(link.core, tally.prefix):
                return unsent_error(f"{missing} messages were not sent in time, and are not stored")
        return PublishTimeoutError(f"no acknowledgement for {missing} messages; they may have been stored")


def denied(denial: Denial) -> PublishError:
    """For messages of which one was not let through, or whose acknowledgements are not."""
    if denial.kind == SUBSCRIPTION:
        return PublishUnknownError(f"acknowledgements cannot be heard, messages may have been stored: {denial.error}")
    return PublishDeniedError(str(denial.error), denial.subject)


def publish_many(
    link: Link, subjects: list[bytes], blocks: list[bytes], payloads: list[bytes], ids: list[bytes]
) -> PublishBlock:
    """Send a block."""
    link.check_open()
    block = PublishBlock(link, subjects, len(payloads))
    link.send(block_frames(block._tally.prefix, subjects, blocks, payloads, ids))
    link.drain()
    return block
