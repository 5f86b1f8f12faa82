"""A client on one event loop that uses the embedded engine of another loop of the process.

An engine lives on the loop that started it. Calls from another loop, such as one of `asyncio.run` in a thread, are run
on the engine's loop and awaited here. Workers cannot: they are called by the engine, on its loop.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from assay.core.errors import Invalid, Unavailable
from assay.core.ids import Time
from assay.embedded.transport import EmbeddedTransport


class _Calls:
    """An object whose coroutines run on another loop."""

    def __init__(self, target: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._call, name)

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        call: Coroutine[Any, Any, Any] = getattr(self._target(), name)(*args, **options)
        if not self._loop.is_running():
            call.close()
            raise Unavailable("the engine of this client has stopped: connect again", code="client_closed")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))


class BridgedTransport:
    """See `Transport`; the engine stops with the last client of its own loop."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        inner = EmbeddedTransport(url, is_guest=True)
        calls = _Calls(lambda: inner, loop)
        self._inner = inner
        self.lease: Time | None = None
        self.registry: Any = _Calls(lambda: inner.registry, loop)
        self.schedules: Any = _Calls(lambda: inner.schedules, loop)
        self.open, self.close = calls.open, calls.close
        self.ask, self.retry, self.closed = calls.ask, calls.retry, calls.closed
        self.history, self.describe, self.list = calls.history, calls.describe, calls.list
        self.events, self.state = calls.events, calls.state

    def now(self) -> Time:
        """See `Transport`."""
        return self._inner.now()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise Invalid(
            "a worker runs on the event loop of its engine, and this process has opened the file on another loop",
            code="wrong_loop",
        )

    send = add_worker = remove_worker = offer_slots = report_health = _refuse
