"""What the target takes, held against the rows of a batch before any of them is sent."""

from __future__ import annotations

from jetspark.protocol.subjects import is_literal, matches
from jetspark.spark.sink_rows import Rows

# Subjects whose check is remembered.
SUBJECTS_MAX = 16384
# A server closes the connection at a line longer than its max_control_line, 4096 if nobody has changed it; beside the
# subject there is room for the verb, an inbox and two sizes.
SUBJECT_BYTES_MAX = 4096 - 256
# What a message id takes beside itself: the version line, the header's name, line ends.
HEADER_BYTES = 32


class Limits:
    """What the target stream and the server take, as the driver saw it."""

    def __init__(self, patterns: tuple[str, ...], message_size_max: int, dead_letter_size_max: int) -> None:
        self._patterns = [pattern.encode() for pattern in patterns]
        self.message_size_max = message_size_max
        self.dead_letter_size_max = dead_letter_size_max
        self._known: dict[bytes, str] = {}

    def subject_reason(self, subject: bytes) -> str:
        """Why a subject will not do; empty when it will."""
        reason = self._known.get(subject)
        if reason is None:
            if len(self._known) >= SUBJECTS_MAX:
                self._known.clear()
            reason = self._known[subject] = self._look_at(subject)
        return reason

    def _look_at(self, subject: bytes) -> str:
        if len(subject) > SUBJECT_BYTES_MAX:
            return f"its subject has {len(subject)} bytes; a server takes {SUBJECT_BYTES_MAX}"
        if not is_literal(subject):
            return f"not a subject to publish to: {subject.decode('utf-8', 'replace')!r}"
        if not any(matches(pattern, subject) for pattern in self._patterns):
            return f"the stream does not take subject {subject.decode('utf-8', 'replace')}"
        return ""

    def check(self, rows: Rows) -> None:
        """Give every row of a batch that the stream will not take its reason."""
        bad = {subject for subject in set(rows.subjects) if self.subject_reason(subject)}
        if bad:
            for index, subject in enumerate(rows.subjects):
                if subject in bad:
                    rows.reasons.setdefault(index, self.subject_reason(subject))
        longest = max(map(len, rows.payloads)) + max(map(len, rows.blocks)) + max(map(len, rows.ids))
        if longest + HEADER_BYTES <= self.message_size_max:
            return
        for index, data in enumerate(rows.payloads):
            size = len(data) + len(rows.blocks[index]) + len(rows.ids[index]) + HEADER_BYTES
            if size > self.message_size_max:
                said = f"{size} bytes with its headers; the stream takes {self.message_size_max}"
                rows.reasons.setdefault(index, said)
