"""Is there room for one more message, by the limits of the server and of the account?

Adding up every stream for every message would cost more than the message, so the sums are taken now and then, and a
publish asks for the exact number only when a limit is near. Disk and memory themselves are not asked: a disk that
is really full refuses the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ErrorCode, make

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.stream import Stream

# More than can arrive between two looks.
NEAR_BYTES: Final = 256 * 1024 * 1024
LOOK_EVERY_NS: Final = 50_000_000


class Room:
    """What one account may still store."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream
        self._looked_ns: i64 = 0
        # A limit is near: publishes are checked one by one. Until the first look it may be.
        self.is_tight: bool = True

    def look(self) -> None:
        """Take the sums again if the last ones are old; once a turn."""
        now_ns = self._jetstream.broker.now_ns
        if now_ns - self._looked_ns < LOOK_EVERY_NS and now_ns >= self._looked_ns:
            return
        self._looked_ns = now_ns
        self.is_tight = self._is_near(False) or self._is_near(True)

    def _is_near(self, in_memory: bool) -> bool:
        account_max, server_max = self._limits(in_memory)
        if 0 <= account_max < self._jetstream.used(in_memory) + NEAR_BYTES:
            return True
        return 0 <= server_max < server_used(self._jetstream.broker, in_memory) + NEAR_BYTES

    def _limits(self, in_memory: bool) -> tuple[int, int]:
        jetstream, options = self._jetstream, self._jetstream.broker.options
        if in_memory:
            return jetstream.max_memory, options.max_memory
        return jetstream.max_storage, options.max_storage

    def check(self, stream: Stream, added_bytes: int) -> None:
        """Raise the ApiError that refuses a message of this size, where a limit is near enough to matter."""
        self.look()
        if not self.is_tight:
            return
        account_max, server_max = self._limits(stream.in_memory)
        if 0 <= account_max < self._jetstream.used(stream.in_memory) + added_bytes:
            raise make(ErrorCode.ACCOUNT_RESOURCES_EXCEEDED)
        if 0 <= server_max < server_used(self._jetstream.broker, stream.in_memory) + added_bytes:
            if stream.in_memory:
                raise make(ErrorCode.MEMORY_RESOURCES_EXCEEDED)
            raise make(ErrorCode.STORAGE_RESOURCES_EXCEEDED)


def server_used(broker: Broker, in_memory: bool) -> int:
    """Bytes stored by all accounts."""
    return sum(account.jetstream.used(in_memory) for account in broker.accounts.values())
