"""A cursor over one stored record: where its parts lie inside the bytes that hold it.

Reused from record to record, so reading a message builds no object but its subject. The view is valid until the next
call that fills it; the bytes it points into never change.
"""

from __future__ import annotations

from mypy_extensions import i64


class RecordView:
    """One record, found but not copied.

    Headers and payload lie together: `block[header_start:end]` is both, `block[body_start:end]` the payload alone.
    Without headers `header_size` is 0 and `header_start` equals `body_start`.
    """

    def __init__(self) -> None:
        self.seq: i64 = 0
        self.ts_ns: i64 = 0
        self.block: bytes = b""
        self.subject: bytes = b""
        self.header_start: i64 = 0
        self.header_size: i64 = 0
        self.body_start: i64 = 0
        self.body_size: i64 = 0
        self.end: i64 = 0

    def header(self) -> bytes:
        return self.block[self.header_start : self.header_start + self.header_size]

    def payload(self) -> bytes:
        return self.block[self.body_start : self.end]

    def message(self) -> bytes:
        """Header block and payload in one piece, as `append` took them."""
        return self.block[self.header_start : self.end]

    def raw_size(self) -> i64:
        """Bytes the record takes in a block, hash included."""
        size: i64 = 30 + len(self.subject) + self.header_size + self.body_size
        if self.header_size > 0:
            size += 4
        return size
