"""Who wants which subject: subscriptions and streams in one tree, with the answer remembered per subject.

A publish asks `route(subject)`; the answer is a Route that stays valid until interest changes. Replies to inboxes
(`_INBOX.x.17`) never repeat, so they are remembered by everything before the last dot when no subscription names
that last word itself; a client with one inbox for all its replies is remembered by its whole name. Knows nothing of
connections beyond the reference a subscription carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.protocol.subjects import last_dot

if TYPE_CHECKING:
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream

# Subjects remembered before the memory starts afresh; a publisher with more live subjects than this pays the tree
# walk now and then, and memory stays bounded.
ROUTES_MAX: Final = 65536


class Subscription:
    """One SUB of one connection."""

    def __init__(self, session: Session, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.session = session
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.delivered: i64 = 0
        # Removed after this many deliveries; 0 is never.
        self.delivered_max: i64 = 0
        self.active: bool = True


class Route:
    """Where one subject goes. Shared and never changed once made."""

    def __init__(self) -> None:
        self.plain: list[Subscription] = []
        self.queues: list[list[Subscription]] = []
        self.stream: Stream | None = None
        self.has_subscribers: bool = False
        # Set when interest changed: whoever kept this route must ask again.
        self.stale: bool = False

    def finish(self) -> None:
        self.has_subscribers = bool(self.plain) or bool(self.queues)


class Node:
    """One token deep in the tree."""

    def __init__(self) -> None:
        self.children: dict[bytes, Node] = {}
        self.star: Node | None = None
        self.plain: list[Subscription] = []
        self.queues: dict[bytes, list[Subscription]] = {}
        # Subscriptions that end in `>` below this node.
        self.tail_plain: list[Subscription] = []
        self.tail_queues: dict[bytes, list[Subscription]] = {}
        self.stream: Stream | None = None
        self.tail_stream: Stream | None = None

    def is_empty(self) -> bool:
        return not (
            self.children
            or self.star is not None
            or self.plain
            or self.queues
            or self.tail_plain
            or self.tail_queues
            or self.stream is not None
            or self.tail_stream is not None
        )


class Interest:
    """All interest of one account."""

    def __init__(self) -> None:
        self._root = Node()
        self.routes: dict[bytes, Route] = {}
        self._by_prefix: dict[bytes, Route] = {}
        # Stands for "the last token matters here": such prefixes take the full way.
        self._not_general = Route()
        # The prefix of the reply before: a client that waits for many has them all under one.
        self._last_prefix: bytes = b""
        self._last_route: Route = self._not_general
        self.subscription_count: int = 0
        # Bumped on every change, so that push consumers know when to look at their deliver subject again.
        self.generation: i64 = 0
        # Subscriptions that could see `$JS.…` traffic, which otherwise skips the tree.
        self.dollar_count: int = 0
        self.insert_count: int = 0
        self.remove_count: int = 0
        self.match_count: int = 0

    # -- change ------------------------------------------------------------------------------------------------

    def add(self, subscription: Subscription) -> None:
        self.insert_count += 1
        self.subscription_count += 1
        if sees_dollar(subscription.subject):
            self.dollar_count += 1
        tokens = subscription.subject.split(b".")
        is_tail = tokens[-1] == b">"
        node = self._walk_or_make(tokens[:-1] if is_tail else tokens)
        if not subscription.queue:
            (node.tail_plain if is_tail else node.plain).append(subscription)
        else:
            queues = node.tail_queues if is_tail else node.queues
            members = queues.get(subscription.queue)
            if members is None:
                queues[subscription.queue] = [subscription]
            else:
                members.append(subscription)
        self._forget(subscription.subject)

    def remove(self, subscription: Subscription) -> None:
        if not subscription.active:
            return
        subscription.active = False
        self.remove_count += 1
        self.subscription_count -= 1
        if sees_dollar(subscription.subject):
            self.dollar_count -= 1
        tokens = subscription.subject.split(b".")
        is_tail = tokens[-1] == b">"
        path = tokens[:-1] if is_tail else tokens
        node = self._find(path)
        if node is not None:
            if not subscription.queue:
                (node.tail_plain if is_tail else node.plain).remove(subscription)
            else:
                queues = node.tail_queues if is_tail else node.queues
                members = queues[subscription.queue]
                members.remove(subscription)
                if not members:
                    del queues[subscription.queue]
            self._prune(path)
        self._forget(subscription.subject)

    def add_stream(self, subject: bytes, stream: Stream) -> None:
        self._set_stream(subject, stream)

    def remove_stream(self, subject: bytes) -> None:
        self._set_stream(subject, None)

    def _set_stream(self, subject: bytes, stream: Stream | None) -> None:
        tokens = subject.split(b".")
        is_tail = tokens[-1] == b">"
        path = tokens[:-1] if is_tail else tokens
        node = self._walk_or_make(path)
        if is_tail:
            node.tail_stream = stream
        else:
            node.stream = stream
        if stream is None:
            self._prune(path)
        self._forget_all()

    def _walk_or_make(self, tokens: list[bytes]) -> Node:
        node = self._root
        for token in tokens:
            if token == b"*":
                star = node.star
                if star is None:
                    star = Node()
                    node.star = star
                node = star
            else:
                child = node.children.get(token)
                if child is None:
                    child = Node()
                    node.children[token] = child
                node = child
        return node

    def _find(self, tokens: list[bytes]) -> Node | None:
        node: Node | None = self._root
        for token in tokens:
            if node is None:
                return None
            node = node.star if token == b"*" else node.children.get(token)
        return node

    def _prune(self, tokens: list[bytes]) -> None:
        """Drop the nodes of this path that hold nothing any more, deepest first."""
        path: list[Node] = [self._root]
        for token in tokens:
            last = path[-1]
            child = last.star if token == b"*" else last.children.get(token)
            if child is None:
                break
            path.append(child)
        for depth in range(len(path) - 1, 0, -1):
            if not path[depth].is_empty():
                return
            parent = path[depth - 1]
            token = tokens[depth - 1]
            if token == b"*":
                parent.star = None
            else:
                del parent.children[token]

    def _forget(self, subject: bytes) -> None:
        """Interest in this subject changed: drop the answers that may differ now."""
        self.generation += 1
        if b"*" in subject or b">" in subject:
            self._forget_all()
            return
        route = self.routes.pop(subject, None)
        if route is not None:
            route.stale = True
        dot = subject.rfind(b".")
        general = self._by_prefix.pop(subject[:dot] if dot >= 0 else b"", None)
        if general is not None and general is not self._not_general:
            general.stale = True

    def _forget_all(self) -> None:
        self.generation += 1
        for route in self.routes.values():
            route.stale = True
        self.routes.clear()
        for general in self._by_prefix.values():
            if general is not self._not_general:
                general.stale = True
        self._by_prefix.clear()

    # -- ask ---------------------------------------------------------------------------------------------------

    def route(self, subject: bytes) -> Route:
        """Where this subject goes, remembered."""
        known = self.routes.get(subject)
        if known is not None:
            return known
        if len(self.routes) >= ROUTES_MAX:
            self._forget_all()
        route = self._match(subject)
        self.routes[subject] = route
        return route

    def reply_route(self, subject: bytes) -> Route:
        """The same for a subject that will hardly come again."""
        dot = last_dot(subject)
        if dot <= 0 or dot + 1 == len(subject):
            # A subject such as `a.` or `.b` matches nothing, whatever its neighbours do.
            return self._match(subject)
        if dot == len(self._last_prefix) and subject.startswith(self._last_prefix) and not self._last_route.stale:
            return self._last_route
        prefix = subject[:dot]
        known = self._by_prefix.get(prefix)
        if known is not None:
            if known is self._not_general:
                return self._named_route(subject)
            self._last_prefix = prefix
            self._last_route = known
            return known
        route = self._match(subject)
        if len(self._by_prefix) >= ROUTES_MAX:
            self._forget_all()
        tokens = prefix.split(b".")
        if b"" not in tokens and self._is_general(tokens):
            self._by_prefix[prefix] = route
        else:
            self._by_prefix[prefix] = self._not_general
        return route

    def _named_route(self, subject: bytes) -> Route:
        """The same where the last token matters: remembered when a subscription names this very subject."""
        known = self.routes.get(subject)
        if known is not None:
            return known
        node = self._find(subject.split(b"."))
        if node is not None and (node.plain or node.queues):
            return self.route(subject)
        return self._match(subject)

    def _is_general(self, tokens: list[bytes]) -> bool:
        """Would any last token after these give the same answer?"""
        level: list[Node] = [self._root]
        for token in tokens:
            deeper: list[Node] = []
            for node in level:
                child = node.children.get(token)
                if child is not None:
                    deeper.append(child)
                if node.star is not None:
                    deeper.append(node.star)
            level = deeper
        return all(not node.children for node in level)

    def _match(self, subject: bytes) -> Route:
        self.match_count += 1
        route = Route()
        tokens = subject.split(b".")
        if b"" in tokens:
            return route
        groups: dict[bytes, list[Subscription]] = {}
        self._collect(tokens, route, groups)
        for members in groups.values():
            route.queues.append(members)
        route.finish()
        return route

    def _collect(self, tokens: list[bytes], route: Route, groups: dict[bytes, list[Subscription]]) -> None:
        """Add whoever listens on the subject of these tokens.

        A loop over the branches that still match, level by level: a recursion would need as much stack as a client's
        subject has tokens, and end the process.
        """
        level: list[Node] = [self._root]
        for token in tokens:
            deeper: list[Node] = []
            for node in level:
                route.plain.extend(node.tail_plain)
                merge_queues(groups, node.tail_queues)
                if node.tail_stream is not None:
                    route.stream = node.tail_stream
                child = node.children.get(token)
                if child is not None:
                    deeper.append(child)
                # A publish to the subject `a.*` itself finds the pattern as a word only once.
                if node.star is not None:
                    deeper.append(node.star)
            if not deeper:
                return
            level = deeper
        for node in level:
            route.plain.extend(node.plain)
            merge_queues(groups, node.queues)
            if node.stream is not None:
                route.stream = node.stream

    def has_interest(self, subject: bytes) -> bool:
        return self.route(subject).has_subscribers

    def subscriptions(self) -> list[Subscription]:
        """Every subscription, for monitoring."""
        found: list[Subscription] = []
        stack: list[Node] = [self._root]
        while stack:
            node = stack.pop()
            found.extend(node.plain)
            found.extend(node.tail_plain)
            for members in node.queues.values():
                found.extend(members)
            for members in node.tail_queues.values():
                found.extend(members)
            stack.extend(node.children.values())
            if node.star is not None:
                stack.append(node.star)
        return found


def merge_queues(groups: dict[bytes, list[Subscription]], more: dict[bytes, list[Subscription]]) -> None:
    for name, members in more.items():
        known = groups.get(name)
        if known is None:
            groups[name] = list(members)
        else:
            known.extend(members)


def sees_dollar(subject: bytes) -> bool:
    """Could this pattern match a subject whose first token is `$JS`?"""
    first = subject.partition(b".")[0]
    return first == b"*" or first == b">" or first == b"$JS"
