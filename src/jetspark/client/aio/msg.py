"""One message, with what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.client.core.message import ACK, NEXT, PROGRESS, MessageCore, nak_body, term_body
from jetspark.client.durations import Seconds, nanoseconds, seconds
from jetspark.client.errors import AckTimeoutError, BadSubjectError, RequestTimeoutError
from jetspark.client.headers import HeadersLike, header_block

if TYPE_CHECKING:
    from jetspark.client.aio.processing import Processing


class Msg(MessageCore):
    """A message from a subscription or a consumer. `data` has its bytes.

    Acknowledgements return True when sent, and False when there was nothing to do: the message was acknowledged before,
    or its consumer has no acknowledgements. With `wait=True` they return when the server has confirmed.
    """

    __slots__ = ()

    async def ack(self, *, wait: bool = False, timeout: Seconds | None = None) -> bool:
        """Acknowledge the message: it is not delivered again.

        Without `wait` the acknowledgement is only sent, so after a crash the message may still be delivered again. With
        `wait` the call returns when the server has confirmed it (Jetspark's server: when it is on disk);
        AckTimeoutError if the confirmation does not come in time.
        """
        if wait:
            return await self._confirmed(ACK, True, timeout)
        if not self.ack_allowed():
            return False
        self.inbox.owner.send(b"PUB %b 4\r\n+ACK\r\n" % self.reply_bytes)
        self.acked = True
        return True

    async def nak(self, *, delay: Seconds = 0, wait: bool = False, timeout: Seconds | None = None) -> bool:
        """Ask for the message again, after a delay if given."""
        return await self._acknowledge(nak_body(nanoseconds(delay)), True, wait, timeout)

    async def term(self, reason: str = "", *, wait: bool = False, timeout: Seconds | None = None) -> bool:
        """Terminate the message: it is not delivered again. The reason is in the server's advisory."""
        return await self._acknowledge(term_body(reason), True, wait, timeout)

    async def in_progress(self, *, wait: bool = False, timeout: Seconds | None = None) -> bool:
        """Tell the server that you are still working on it: the ack wait starts again."""
        return await self._acknowledge(PROGRESS, False, wait, timeout)

    async def ack_next(self, reply: str, request: bytes = b"") -> bool:
        """Acknowledge, and ask for more messages on `reply`: one, a number, or the JSON of a pull request."""
        if not self.ack_allowed():
            return False
        body = NEXT + b" " + request if request else NEXT
        owner = self.inbox.owner
        owner.publish(self.reply, owner.core.subjects.literal(reply), b"", body)
        self.acked = True
        return True

    async def ack_sync(self, *, timeout: Seconds | None = None) -> bool:
        """The same as `ack(wait=True)`."""
        return await self._confirmed(ACK, True, timeout)

    async def _acknowledge(self, body: bytes, is_final: bool, wait: bool, timeout: Seconds | None) -> bool:
        if wait:
            return await self._confirmed(body, is_final, timeout)
        if not self.ack_allowed():
            return False
        self.inbox.owner.send(b"PUB %b %d\r\n%b\r\n" % (self.reply_bytes, len(body), body))
        # Only after the publish went through: a failed one may be tried again.
        self.acked = is_final
        return True

    async def _confirmed(self, body: bytes, is_final: bool, timeout: Seconds | None) -> bool:
        if not self.ack_allowed():
            return False
        owner = self.inbox.owner
        try:
            await owner.request(self.reply, b"", body, None if timeout is None else seconds(timeout))
        except RequestTimeoutError as error:
            raise AckTimeoutError(f"no confirmation of the acknowledgement of {self.subject}") from error
        self.acked = is_final
        return True

    async def respond(self, data: bytes | str = b"", *, headers: HeadersLike | None = None) -> None:
        """Reply to the sender."""
        if not self.reply_bytes:
            raise BadSubjectError(f"message on {self.subject} wants no answer")
        body = data.encode() if isinstance(data, str) else data
        self.inbox.owner.publish(self.reply, b"", header_block(headers), body)

    def processing(self, **options: Any) -> Processing:
        """A block that acknowledges the message at its end; see `Processing`."""
        from jetspark.client.aio.processing import Processing

        return Processing(self, **options)

    def __repr__(self) -> str:
        shown = self.data if len(self.data) <= 40 else self.data[:40] + b"..."
        return f"<Msg {self.subject} {shown!r}>"
