# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Processing a message in a block that settles it: acknowledged when the block ends well, given back when it fails."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import JetsparkError
from jetspark.client.telemetry import processing

if TYPE_CHECKING:
    from jetspark.client.sync.msg import Msg
    from jetspark.client.sync.waiting import Signal

# A third of what a consumer waits unless told otherwise, for a consumer whose settings are not known here.
PROGRESS_S = 10.0


class Processing:
    """The block of `with message.processing(): …`, which acknowledges the message.

    - The block ends normally: ack (with `wait`, confirmed).
    - It raises an error of `term_on`: term, with the error as the reason.
    - It raises another error: nak, with `nak_delay`.

    The error is raised again in all cases. While the block runs, the server is told every `progress_every` seconds that
    you are working, so that the message is not delivered to somebody else. The default is a third of the consumer's
    `ack_wait`; 0 switches it off.
    """

    def __init__(
        self,
        message: Msg,
        *,
        term_on: type[BaseException] | tuple[type[BaseException], ...] = (),
        nak_delay: Seconds = 0,
        progress_every: Seconds | None = None,
        wait: bool = False,
    ) -> None:
        self._message = message
        self._term_on = term_on
        self._nak_delay = nak_delay
        if progress_every is None:
            self._progress_s = message.inbox.ack_wait_s / 3 or PROGRESS_S
        else:
            self._progress_s = seconds(progress_every)
        self._wait = wait
        self._ended = False
        self._signal: Signal | None = None
        self._task: Any = None

    def __enter__(self) -> Msg:
        link = self._message.inbox.owner
        if self._progress_s > 0 and not self._message.inbox.ack_none:
            self._task = link.spawn(self._tell_progress)
        self._trace = processing(link.options.telemetry, self._message)
        self._trace.__enter__()
        return self._message

    def _tell_progress(self) -> None:
        link = self._message.inbox.owner
        while not self._ended:
            signal = link.signal()
            self._signal = signal
            if self._ended or signal.wait(self._progress_s):
                return
            if not link.is_closed:
                self._message.in_progress()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._trace.__exit__(kind, error, trace)
        if self._signal is not None:
            self._signal.set()
        if error is None:
            self._message.ack(wait=self._wait)
            return
        try:
            if isinstance(error, self._term_on):
                self._message.term(f"{type(error).__name__}: {error}")
            else:
                self._message.nak(delay=self._nak_delay)
        except JetsparkError as failure:
            # The block's own error matters more; the server delivers again when the ack wait is over.
            self._message.inbox.owner.report(failure)
