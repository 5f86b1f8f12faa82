"""Waits that survive their own cancellation, until the awaited work has ended."""

import asyncio
from collections.abc import Callable
from typing import Any


async def outlast(future: asyncio.Future[Any], give_up: Callable[[asyncio.CancelledError], None], *, wait: bool) -> Any:
    """Return the result of a future that a cancelled wait does not cancel.

    Args:
        future: The result of an activity or a child.
        give_up: Called once when the wait is cancelled, to request the end of the work.
        wait: True to raise the cancellation only when the work has ended, however it ended.

    Raises:
        asyncio.CancelledError: The wait was cancelled.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError as error:
        cancelled = error
        if not future.done():
            give_up(error)
    while wait and not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001, S110  # the work has failed: the cancellation is raised all the same
            pass
    raise cancelled
