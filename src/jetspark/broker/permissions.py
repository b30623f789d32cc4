"""What one user may publish, subscribe to and receive.

Decided here: how allow and deny lists combine (deny wins), what a queue group in an entry changes, and how wide a
wildcard subscription may be. Not known here: users, files, sockets. Replies allowed for a while are the session's to
remember; here are only their limits.

A subscription may reach as far as an allow entry and no further. nats-server compares word by word and so lets
`foo.>` pass under `foo.*`; here it is refused, because it would deliver what was never allowed.
"""

from __future__ import annotations

from typing import Final

from jetspark.protocol.subjects import has_wildcard, is_subset, match_tokens

# Verdicts kept per user and kind; when full the memory starts afresh, so that a client cannot grow it without end.
VERDICTS_MAX: Final = 4096


class Entry:
    """One line of a subscribe list: a pattern, and the queue group it is about (empty: about any subscription)."""

    def __init__(self, pattern: bytes, queue: bytes) -> None:
        self.pattern: bytes = pattern
        self.queue: bytes = queue
        self.tokens: list[bytes] = pattern.split(b".")

    def names_queue(self, queue: bytes) -> bool:
        if self.queue == queue:
            return True
        return has_wildcard(self.queue) and is_subset(queue, self.queue)


class Permissions:
    """Allow and deny lists; None for an allow list means everything that is not denied."""

    def __init__(
        self,
        publish_allow: list[bytes] | None,
        publish_deny: list[bytes],
        subscribe_allow: list[bytes] | None,
        subscribe_deny: list[bytes],
    ) -> None:
        self.publish_allow: list[bytes] | None = publish_allow
        self.publish_deny: list[bytes] = publish_deny
        self.subscribe_allow: list[bytes] | None = subscribe_allow
        self.subscribe_deny: list[bytes] = subscribe_deny
        # May a client answer requests it received on subjects it may not publish to otherwise?
        self.allow_responses: bool = False
        # How many answers to each request, and for how long; zero or less: no limit.
        self.responses_max: int = 0
        self.responses_expires_ns: int = 0
        self._allow_tokens: list[list[bytes]] = split_all(publish_allow or [])
        self._deny_tokens: list[list[bytes]] = split_all(publish_deny)
        self._allow_entries: list[Entry] = parse_entries(subscribe_allow or [])
        self._deny_entries: list[Entry] = parse_entries(subscribe_deny)
        self._publish_verdicts: dict[bytes, bool] = {}
        self._deliver_verdicts: dict[bytes, bool] = {}

    def can_publish(self, subject: bytes) -> bool:
        known = self._publish_verdicts.get(subject)
        if known is not None:
            return known
        tokens = subject.split(b".")
        verdict = self.publish_allow is None or matches_any(self._allow_tokens, tokens)
        if verdict and matches_any(self._deny_tokens, tokens):
            verdict = False
        if len(self._publish_verdicts) >= VERDICTS_MAX:
            self._publish_verdicts.clear()
        self._publish_verdicts[subject] = verdict
        return verdict

    def can_subscribe(self, subject: bytes, queue: bytes) -> bool:
        """May this subscription be made? Queue is empty for a plain one."""
        if self.subscribe_allow and not self._is_subscribe_allowed(subject, queue):
            return False
        tokens = subject.split(b".")
        for entry in self._deny_entries:
            if (not entry.queue or (queue and entry.names_queue(queue))) and match_tokens(entry.tokens, tokens):
                return False
        return True

    def _is_subscribe_allowed(self, subject: bytes, queue: bytes) -> bool:
        plain = False
        about_queues = False
        for entry in self._allow_entries:
            if not is_subset(subject, entry.pattern):
                continue
            if not entry.queue:
                plain = True
            elif queue:
                if entry.names_queue(queue):
                    return True
                about_queues = True
        # Where some entry names queue groups for this subject, only those groups may be used on it.
        return plain and not about_queues

    def can_deliver(self, subject: bytes) -> bool:
        """May a message on this subject reach the client through a wider subscription?"""
        if not self._deny_entries:
            return True
        known = self._deliver_verdicts.get(subject)
        if known is not None:
            return known
        verdict = True
        tokens = subject.split(b".")
        for entry in self._deny_entries:
            if not entry.queue and match_tokens(entry.tokens, tokens):
                verdict = False
                break
        if len(self._deliver_verdicts) >= VERDICTS_MAX:
            self._deliver_verdicts.clear()
        self._deliver_verdicts[subject] = verdict
        return verdict

    def can_deliver_to_queue(self, subject: bytes, queue: bytes) -> bool:
        """The same for a member of a queue group, which a deny entry may name; empty for a plain subscription."""
        if not self.can_deliver(subject):
            return False
        if not queue:
            return True
        tokens = subject.split(b".")
        for entry in self._deny_entries:
            if entry.queue and entry.names_queue(queue) and match_tokens(entry.tokens, tokens):
                return False
        return True


def split_all(patterns: list[bytes]) -> list[list[bytes]]:
    return [pattern.split(b".") for pattern in patterns]


def parse_entries(patterns: list[bytes]) -> list[Entry]:
    entries: list[Entry] = []
    for text in patterns:
        words = text.split()
        entries.append(Entry(words[0], words[1] if len(words) > 1 else b""))
    return entries


def matches_any(patterns: list[list[bytes]], tokens: list[bytes]) -> bool:
    for pattern in patterns:
        if match_tokens(pattern, tokens):
            return True
    return False
