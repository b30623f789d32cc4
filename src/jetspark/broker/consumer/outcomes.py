"""Small words shared by a consumer's parts: ack policies as numbers, and what picking a message can come to."""

from __future__ import annotations

from typing import Final

ACK_NONE: Final = 0
ACK_ALL: Final = 1
ACK_EXPLICIT: Final = 2

PICKED: Final = 0
NOTHING: Final = 1
# Too many messages wait for acknowledgement.
STALLED: Final = 2
# The next message is not due yet (replay at the original pace).
NOT_YET: Final = 3
