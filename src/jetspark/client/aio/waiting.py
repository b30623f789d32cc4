"""How this face waits: asyncio. Its twin in `client/sync` has the same names and waits with threads.

Everything above the drivers waits through a Signal and nothing else, so that the two faces can share their source.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar


class Signal:
    """Set once, waited for once."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        """Let the waiter go on."""
        if not self._future.done():
            self._future.set_result(True)

    def _expire(self) -> None:
        if not self._future.done():
            self._future.set_result(False)

    async def wait(self, timeout_s: float | None) -> bool:
        """True when it was set, False when the time was over first."""
        if timeout_s is None or self._future.done():
            return await self._future
        timer = self._future.get_loop().call_later(max(0.0, timeout_s), self._expire)
        try:
            return await self._future
        finally:
            timer.cancel()


class Guard(contextlib.AbstractContextManager[None]):
    """Nothing to guard against: one loop runs everything, and nothing here awaits inside."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        return None


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function, which may be a coroutine function."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        return await result
    return result


Outcome = TypeVar("Outcome")


class Awaited(Generic[Outcome]):
    """Makes something with a `wait` awaitable; on the other face there is nothing to await."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.wait().__await__()  # type: ignore[attr-defined,no-any-return]  # the subclass has it


async def blocking(function: Callable[..., Any], *arguments: Any) -> Any:
    """Do something that waits for the disk without holding up the loop."""
    return await asyncio.to_thread(function, *arguments)
