"""What a message is in its fast batch, as the last words of its reply subject say, at both ends of the wire."""

from __future__ import annotations

from typing import Final

START: Final = 0
APPEND: Final = 1
COMMIT: Final = 2
COMMIT_WITHOUT_MESSAGE: Final = 3
PING: Final = 4

# The most messages between two acknowledgements that a client can ask for.
FLOW_ASKED_MAX: Final = 65535
