"""Subjects and patterns: what is valid, what matches, what overlaps.

Works on bytes, as they come from the wire. A subject is tokens joined by dots; `*` stands for one token
and `>` for one or more at the end, each only as a whole token. Knows nothing of who subscribed.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from jetspark.protocol.outbox import COMPILED

DOT: Final = 46
STAR: Final = 42
GREATER: Final = 62

# Filters remember their verdict per subject; a stream with more subjects than this starts the memory afresh
# rather than let one consumer hold a copy of every subject.
VERDICTS_MAX: Final = 65536

_FORBIDDEN: Final = (b" ", b"\t", b"\r", b"\n", b"\f", b"\0")


def is_valid_subject(subject: bytes) -> bool:
    """A subject or pattern: no empty token, no white space, `>` only at the end."""
    if not subject:
        return False
    for bad in _FORBIDDEN:
        if bad in subject:
            return False
    tokens = subject.split(b".")
    last = len(tokens) - 1
    for position, token in enumerate(tokens):
        if not token or (token == b">" and position != last):
            return False
    return True


def is_between_servers(subject: bytes) -> bool:
    """A subject that servers keep for talking to each other; clients may listen there, not publish."""
    if subject.startswith(b"_GR_."):
        return len(subject) > 5
    return subject.startswith(b"$NRG.") or (subject.startswith(b"$GR.") and len(subject) > 4)


def is_reserved_reply(reply: bytes) -> bool:
    """A reply subject that only the server itself may ask for."""
    if reply.startswith(b"$JS.ACK.") or reply.startswith(b"_R_."):
        return True
    return is_between_servers(reply) and not reply.startswith(b"$NRG.")


def has_wildcard(subject: bytes) -> bool:
    """True when some whole token is `*` or the last one is `>`; `foo*` and `a>b` are plain words."""
    if b"*" not in subject and b">" not in subject:
        return False
    tokens = subject.split(b".")
    return b"*" in tokens or tokens[-1] == b">"


def last_dot(subject: bytes) -> i64:
    """Where the last token's dot stands, -1 without one."""
    if not COMPILED:
        return subject.rfind(b".")
    at: i64 = len(subject) - 1
    while at >= 0 and subject[at] != DOT:
        at -= 1
    return at


def is_at(known: bytes, data: bytes, start: i64, end: i64) -> bool:
    """Are the bytes of this range the known ones? Compiled, that is faster than to cut them out and compare."""
    size: i64 = len(known)
    if end - start != size:
        return False
    at: i64 = 0
    while at < size:
        if known[at] != data[start + at]:
            return False
        at += 1
    return True


def is_literal(subject: bytes) -> bool:
    """A valid subject that names exactly one place."""
    return is_valid_subject(subject) and not has_wildcard(subject)


def matches(pattern: bytes, subject: bytes) -> bool:
    """Does the literal subject fall under the pattern?"""
    if pattern == subject or pattern == b">":
        return True
    if not has_wildcard(pattern):
        return False
    return match_tokens(pattern.split(b"."), subject.split(b"."))


def match_tokens(pattern: list[bytes], subject: list[bytes]) -> bool:
    """The same on tokens already split."""
    count = len(subject)
    for position, token in enumerate(pattern):
        if position >= count:
            return False
        if token == b">":
            return position == len(pattern) - 1
        if token != b"*" and token != subject[position]:
            return False
    return len(pattern) == count


def collides(left: bytes, right: bytes) -> bool:
    """Is there a subject that falls under both patterns?"""
    if left == right:
        return True
    left_tokens = left.split(b".")
    right_tokens = right.split(b".")
    left_count = len(left_tokens)
    right_count = len(right_tokens)
    for position in range(max(left_count, right_count)):
        # `>` needs at least one token, which is there as long as the other side has not ended.
        if position >= left_count or position >= right_count:
            return False
        first = left_tokens[position]
        second = right_tokens[position]
        if first == b">" or second == b">":
            return True
        if first != second and first != b"*" and second != b"*":
            return False
    return True


def is_subset(narrow: bytes, wide: bytes) -> bool:
    """Does every subject under `narrow` fall under `wide`?"""
    if narrow == wide or wide == b">":
        return True
    narrow_tokens = narrow.split(b".")
    wide_tokens = wide.split(b".")
    narrow_count = len(narrow_tokens)
    for position, token in enumerate(wide_tokens):
        if position >= narrow_count:
            return False
        if token == b">":
            return True
        mine = narrow_tokens[position]
        if mine == b">":
            return False
        if token == b"*":
            continue
        if mine != token:
            return False
    return len(wide_tokens) == narrow_count


class SubjectFilter:
    """What a consumer wants to see: everything, or the subjects under any of some patterns."""

    def __init__(self, patterns: list[bytes]) -> None:
        self.patterns: list[bytes] = patterns
        self.match_all: bool = not patterns or b">" in patterns
        self.literal: bytes = b""
        if len(patterns) == 1 and not has_wildcard(patterns[0]):
            self.literal = patterns[0]
        self._split: list[list[bytes]] = [pattern.split(b".") for pattern in patterns]
        self._verdicts: dict[bytes, bool] = {}

    def accepts(self, subject: bytes) -> bool:
        if self.match_all:
            return True
        if self.literal:
            return subject == self.literal
        known = self._verdicts.get(subject)
        if known is not None:
            return known
        verdict = False
        tokens = subject.split(b".")
        for pattern in self._split:
            if match_tokens(pattern, tokens):
                verdict = True
                break
        if len(self._verdicts) >= VERDICTS_MAX:
            self._verdicts.clear()
        self._verdicts[subject] = verdict
        return verdict
