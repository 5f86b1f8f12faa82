"""A client on one event loop that uses the embedded engine of another loop of the process.

An engine runs on the loop that started it. Calls from another loop, for example `asyncio.run` in a thread, run on the
engine's loop and are awaited here. Workers cannot cross loops: the engine calls them on its own loop.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from assay.core.model.errors import Invalid, Unavailable
from assay.embedded.transport import EmbeddedTransport
from assay.sdk.app import App
from assay.sdk.ports import WorkerOptions


class _Calls:
    """A proxy of an object; its coroutines run on another loop."""

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
    """See `ClientPort`; the engine stops with the last client of its own loop."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        inner = EmbeddedTransport(url, is_guest=True)
        calls = _Calls(lambda: inner, loop)
        self.registry: Any = _Calls(lambda: inner.registry, loop)
        self.schedules: Any = _Calls(lambda: inner.schedules, loop)
        self.open, self.close = calls.open, calls.close
        self.start, self.result, self.signal = calls.start, calls.result, calls.signal
        self.cancel, self.terminate, self.update = calls.cancel, calls.terminate, calls.update
        self.post, self.open_mailbox = calls.post, calls.open_mailbox
        self.read_mailbox, self.delete_mailbox = calls.read_mailbox, calls.delete_mailbox
        self.continue_as_new, self.retry = calls.continue_as_new, calls.retry
        self.describe, self.list = calls.describe, calls.list
        self.events, self.state, self.explain = calls.events, calls.state, calls.explain

    async def serve(self, app: App, options: WorkerOptions) -> None:
        """Refuse: the engine calls its workers on its own loop."""
        raise Invalid(
            "a worker runs on the event loop of its engine, and this process has opened the file on another loop",
            code="wrong_loop",
        )
