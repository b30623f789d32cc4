"""Waiting for a condition that nothing announces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def until(condition: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Return once the condition holds; it may be a coroutine function."""
    async with asyncio.timeout(timeout_s):
        while True:
            held = condition()
            if isinstance(held, Awaitable):
                held = await held
            if held:
                return
            await asyncio.sleep(0.01)  # noqa: TID251 - the condition is waited for, not the time


async def give_way() -> None:
    """Let what is ready run, with what follows from it."""
    for _ in range(5):
        await asyncio.sleep(0)  # noqa: TID251 - gives way, does not wait


async def until_turn(condition: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Return in the very turn of the loop in which the condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await _next_turn()


async def _next_turn() -> None:
    await asyncio.sleep(0)  # noqa: TID251 - gives way, does not wait
