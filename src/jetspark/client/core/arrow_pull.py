"""How much a reader of whole batches has asked for and not yet got.

Bounded both ways: by rows, so that small messages come in useful batches, and by bytes, so that large ones do not fill
the memory. A new request goes out when half is used, so that two are in flight and the server never waits for us.
"""

from __future__ import annotations

from typing import Final

# However many rows are asked for, no more than this is on its way at once. Also keeps positions within 32 bits.
BYTES_MAX: Final = 64 * 1024 * 1024


class RowBuffer:
    """What the requests of one reader still owe."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.owed_rows: int = 0
        self.owed_bytes: int = 0

    def next_request(self, rows_left: int) -> tuple[int, int]:
        """(batch, max_bytes) to ask for now, counted as owed; (0, 0) when enough is on its way.

        `rows_left` is how many rows can still come in all; asking for more would leave a request behind.
        """
        if self.owed_rows * 2 > self.rows_max or self.owed_bytes * 2 > self.bytes_max:
            return 0, 0
        batch = min(self.rows_max - self.owed_rows, rows_left - self.owed_rows)
        if batch <= 0:
            return 0, 0
        size = self.bytes_max - self.owed_bytes
        self.owed_rows += batch
        self.owed_bytes += size
        return batch, size

    def took(self, rows: int, size: int) -> None:
        """Rows came. The bytes of a request that got all its rows are given back by the status that ends it."""
        self.ended(rows, size)

    def ended(self, rows: int, size: int) -> None:
        """A request ended and will not send these."""
        self.owed_rows = max(0, self.owed_rows - rows)
        self.owed_bytes = max(0, self.owed_bytes - size)

    def forget(self) -> None:
        """Nothing is owed any more."""
        self.owed_rows = 0
        self.owed_bytes = 0
