"""Sending again, after a lost connection, what has an id: only while its stream is sure to know the id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.stream_config import StreamConfig
from jetspark.client.api_errors import NoJetStreamError
from jetspark.client.core.resend import is_known_at, release
from jetspark.client.errors import ConnectionLostError, JetsparkError, RequestTimeoutError
from jetspark.client.infos import StreamInfo
from jetspark.protocol.subjects import matches

if TYPE_CHECKING:
    from jetspark.client.aio.link import Link
    from jetspark.client.aio.publishing import Publisher, PublishFuture

# How long the server may take to tell the window: in all, and for one answer; and the pause between two tries.
ASK_MAX_S = 5.0
ASK_TRY_S = 1.0
ASK_WAIT_S = 0.25


async def stream_of(publisher: Publisher, subject: str, deadline_s: float) -> StreamConfig | None:
    """The settings of the stream that takes a subject; None when that cannot be found out."""
    link = publisher._link
    while (left_s := deadline_s - link.now()) > 0:
        try_s = min(ASK_TRY_S, left_s)
        try:
            if not await link.wait_up(left_s):
                return None
            found = await publisher.api_request("STREAM.NAMES", {"subject": subject}, timeout=try_s)
            names = found.get("streams") or []
            if len(names) != 1:
                return None
            return StreamInfo.read(await publisher.api_request(f"STREAM.INFO.{names[0]}", timeout=try_s)).config
        except (RequestTimeoutError, NoJetStreamError):
            # A cluster may be electing a leader.
            await link.sleep(ASK_WAIT_S)
        except ConnectionLostError:
            continue
        except JetsparkError:
            # Not allowed to ask, or closed.
            return None
    return None


def window_s(config: StreamConfig | None) -> float:
    """The duplicate window of a stream; 0 when it is not known."""
    return 0.0 if config is None else config.duplicate_window / 1e9


class Windows:
    """The duplicate windows of the streams that some messages go to, each asked for once."""

    def __init__(self, link: Link) -> None:
        self._deadline_s = link.now() + ASK_MAX_S
        self._known: dict[tuple[Publisher, str], float] = {}
        self._streams: list[tuple[Publisher, StreamConfig]] = []

    async def ask(self, future: PublishFuture) -> None:
        """Find out about the stream of one message."""
        publisher, subject = future._publisher, future.subject
        if (publisher, subject) in self._known:
            return
        encoded = subject.encode("utf-8", "surrogateescape")
        for asked, config in self._streams:
            if asked is publisher and any(matches(one.encode(), encoded) for one in config.subjects):
                self._known[publisher, subject] = window_s(config)
                return
        found = await stream_of(publisher, subject, self._deadline_s)
        self._known[publisher, subject] = window_s(found)
        if found is not None:
            self._streams.append((publisher, found))

    def of(self, future: PublishFuture) -> float:
        """The window for one message, in seconds; 0 when it is not known."""
        return self._known.get((future._publisher, future.subject), 0.0)


async def send_lost(link: Link) -> None:
    """Decide about the messages of a connection that broke, once there is another one."""
    core, acks = link.core, link.core.acks
    epoch = core.epoch
    windows = Windows(link)
    with link.guard:
        lost: list[PublishFuture] = list(acks.lost.values())  # type: ignore[arg-type]  # the publishers make no others
    for future in lost:
        if not future.done:
            await windows.ask(future)
    with link.guard:
        if core.epoch != epoch or not link.is_up:
            # The next connection begins again.
            return
        now_s = link.now()
        for token, pending in list(acks.lost.items()):
            known_s = windows.of(pending)  # type: ignore[arg-type]  # as above
            if not is_known_at(now_s - pending.sent_s, known_s):
                told = f"is {known_s:g} s, too short to send it again" if known_s else "is not known"
                acks.give_up(token, f"the duplicate window of its stream {told}")
        release(core)
    link.flush_output()
