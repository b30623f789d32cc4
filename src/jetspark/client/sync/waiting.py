"""How this face waits: threads. Its twin in `client/aio` has the same names and waits with asyncio.

A thread that waits reads the socket itself when nobody else does (see `link`), so the common case of one thread talking
to the server costs no switch between threads.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from jetspark.client.sync.shared_wire import SharedWire

Guard = AbstractContextManager[Any]


class Signal:
    """Set once, waited for once."""

    __slots__ = ("_gate", "_link", "is_set")

    def __init__(self, link: SharedWire) -> None:
        self._link = link
        self.is_set = False
        self._gate: Any = None

    def set(self) -> None:
        """Let the waiter go on."""
        self.is_set = True
        if self._link.leading is self:
            self._link.leader_signalled()
        elif self._gate is not None:
            self.nudge()

    def nudge(self) -> None:
        """Let the waiter look around, whether the signal is set or not."""
        try:
            self._gate.release()
        except RuntimeError:
            # Already released: the waiter has not got round to looking yet.
            return

    def prepare(self) -> None:
        """From now on `block` blocks until somebody nudges."""
        gate = _thread.allocate_lock()
        gate.acquire()
        self._gate = gate

    def block(self, timeout_s: float | None) -> None:
        """Wait for a nudge, or for the time to be over."""
        if not self.is_set:
            self._gate.acquire(True, -1 if timeout_s is None else max(0.0, timeout_s))

    def wait(self, timeout_s: float | None) -> bool:
        """True when it was set, False when the time was over first."""
        return self.is_set or self._link.drive(self, timeout_s)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function."""
    return function(*arguments)


Outcome = TypeVar("Outcome")


class Awaited(Generic[Outcome]):
    """On this face there is nothing to await."""

    __slots__ = ()


class Task:
    """A function running in a thread of its own."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], failed: Callable[[BaseException], None]
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._failed = failed
        self._thread = threading.Thread(target=self._run, name=f"jetspark {function.__name__}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function(*self._arguments)
        except Exception as error:  # noqa: BLE001 - whatever it was, somebody must be told
            self._failed(error)

    @property
    def is_current(self) -> bool:
        """The caller runs inside it."""
        return threading.current_thread() is self._thread

    @property
    def is_running(self) -> bool:
        """It has not ended yet."""
        return self._thread.is_alive()

    def join(self, timeout_s: float | None) -> None:
        """Wait for its end."""
        if not self.is_current:
            self._thread.join(timeout_s)


def blocking(function: Callable[..., Any], *arguments: Any) -> Any:
    """Do something that waits for the disk."""
    return function(*arguments)
