"""What the store knows of one subject: how many messages it has, and the first and last of them.

Counts are always exact. The ends are exact until the record at an end is removed while others remain; from then on
they are bounds, marked so, and made exact again when somebody asks.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(acyclic=True)
class SubjectState:
    """Count and ends of one subject. A stream may have millions of these, so they are small."""

    def __init__(self, subject: bytes) -> None:
        # The one bytes object everything refers to, so that its hash is computed once.
        self.subject: bytes = subject
        self.message_count: i64 = 0
        # Never above the true first, never below the true last.
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0
        # Its place in the subject table of the block it was last appended to.
        self.block_number: i64 = 0
        self.block_index: i64 = 0
        self.first_inexact: bool = False
        self.last_inexact: bool = False

    def added(self, seq: i64) -> None:
        """A message at the end."""
        if self.message_count == 0:
            self.first_seq = seq
            self.first_inexact = False
        self.message_count += 1
        self.last_seq = seq
        self.last_inexact = False

    def removed(self, seq: i64) -> None:
        """One message less; the caller forgets the state when none is left."""
        self.message_count -= 1
        if seq == self.first_seq:
            self.first_seq = seq + 1
            self.first_inexact = True
        if seq == self.last_seq:
            self.last_seq = seq - 1
            self.last_inexact = True
        if self.message_count == 1:
            # With one message left, an end that is known settles the other.
            if not self.last_inexact:
                self.first_seq = self.last_seq
                self.first_inexact = False
            elif not self.first_inexact:
                self.last_seq = self.first_seq
                self.last_inexact = False

    def revived(self, seq: i64) -> None:
        """A removal is undone."""
        if self.message_count == 0:
            self.first_seq = seq
            self.last_seq = seq
            self.first_inexact = False
            self.last_inexact = False
        self.message_count += 1
        if seq <= self.first_seq:
            self.first_seq = seq
            self.first_inexact = False
        if seq >= self.last_seq:
            self.last_seq = seq
            self.last_inexact = False
