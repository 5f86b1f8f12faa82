"""The blocking client: one `Client` on an event loop in a background thread, for programs without asyncio."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

import msgspec

from assay.core.model.duration import Duration
from assay.core.model.errors import Unavailable
from assay.core.model.limits import ABANDONED_EXIT_CODE
from assay.sdk.app import App
from assay.sdk.client.client import Client
from assay.sdk.client.connections import DEFAULT_TIMEOUT_SECONDS
from assay.sdk.client.loop_thread import LoopThread, outcome_of, refuse_in_workflow
from assay.sdk.worker.listening import in_main_thread, serve, stop_signals
from assay.sdk.worker.watchdog import WATCHDOG
from assay.sdk.worker.worker import Worker

Outcome = TypeVar("Outcome")
URL_VARIABLE: Final = "ASSAY_ENGINE_URL"
EXIT_SECONDS: Final = 10.0


class Redirect(msgspec.Struct, frozen=True):
    """Overrides of a command for a program that the command loads: where to connect, and options of `listen`."""

    url: str
    token: str | None = None
    options: Mapping[str, Any] = {}


class BlockingClient:
    """The connection of a program without asyncio; its methods may be called from any thread."""

    redirect: Redirect | None = None
    loading: bool = False
    """True while a command loads the program: `connect` and `listen` return, other calls of the engine raise."""
    listened: Mapping[str, Any] | None = None
    """The options of the first `listen` of a program that was loaded."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._forget()
        atexit.register(self._exit)
        os.register_at_fork(after_in_child=self._forked)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._client: Client | None = None
        self._listening: dict[asyncio.Event, asyncio.Task[None]] = {}
        self._orphaned = False

    def _forked(self) -> None:
        """Reset the state in a forked child, which has no thread and no engine, and may inherit a held lock."""
        was_connected = self._client is not None
        self._forget()
        self._orphaned = was_connected

    def connect(self, url: str, token: str | None, namespace: str, timeout: Duration = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Connect, after closing a previous connection."""
        self._check("workflow.connect")
        if self.loading:
            return
        with self._lock:
            self._close(None)
            self._open(url, token, namespace, timeout)

    def close(self, timeout: float | None = None) -> None:
        """Stop listening, close the client and end the loop; do nothing without a connection."""
        self._check("workflow.close")
        with self._lock:
            self._close(timeout)

    def _open(self, url: str, token: str | None, namespace: str, timeout: Duration = DEFAULT_TIMEOUT_SECONDS) -> None:
        if self.redirect is not None:
            url, token = self.redirect.url, self.redirect.token
            namespace = self.redirect.options.get("namespace", namespace)
        loop = LoopThread()
        try:
            client = loop.call(
                "workflow.connect",
                lambda: Client.connect(url, namespace=namespace, token=token, app=self._app, timeout=timeout),
            )
        except BaseException:
            loop.close()
            raise
        self._loop, self._client, self._orphaned = loop, client, False

    def _close(self, timeout: float | None) -> None:
        loop, client = self._loop, self._client
        self._loop = self._client = None
        if loop is None or client is None or not loop.alive:
            return
        try:
            loop.begin("workflow.close", lambda: self._end(client)).result(timeout)
        finally:
            loop.close(timeout)

    async def _end(self, client: Client) -> None:
        for stopping in self._listening:
            stopping.set()
        await asyncio.gather(*self._listening.values(), return_exceptions=True)
        await client.close()

    def _exit(self) -> None:
        try:
            self.close(EXIT_SECONDS)
        except TimeoutError:
            return  # nothing is lost: the loop's thread is a daemon, and acknowledged calls are durable

    def call(self, name: str, make: Callable[[Client], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """Run the coroutine that `make` returns for the client, and wait for its outcome."""
        loop, client = self._connected(name)
        return loop.call(f"workflow.{name}", lambda: make(client))

    def listen(self, **options: Any) -> None:
        """Serve a queue until a signal, `close`, or a failure of the worker."""
        if self.loading:
            self.listened = self.listened or options
            return
        if self.redirect is not None:
            options |= self.redirect.options
        loop, client = self._connected("listen")
        stopping = asyncio.Event()
        # After this call `assay run` only exits, so its process may be ended by force if a thread prevents the exit.
        stopped = None if self.redirect is None else threading.Event()
        only_serving = WATCHDOG.only_serving() if in_main_thread() else contextlib.nullcontext()
        with only_serving, stop_signals(lambda: loop.loop.call_soon_threadsafe(stopping.set), stopped):
            is_overrun = outcome_of(loop.begin("workflow.listen", lambda: self._serve(client, stopping, options)))
        if is_overrun and in_main_thread():
            raise SystemExit(ABANDONED_EXIT_CODE)

    async def _serve(self, client: Client, stopping: asyncio.Event, options: dict[str, Any]) -> bool:
        """Serve until stopped; return True if the worker stopped because too many of its threads never returned."""
        worker = Worker(client, **options)
        worker.options.ends_unhealthy = WATCHDOG.serving > 0
        serving = asyncio.ensure_future(serve(worker, stopping))
        self._listening[stopping] = serving
        try:
            await serving
        finally:
            del self._listening[stopping]
        return not stopping.is_set() and worker.options.is_overrun

    def _check(self, name: str) -> None:
        refuse_in_workflow(name)
        if self._loop is not None:
            self._loop.check(name)

    def _connected(self, name: str) -> tuple[LoopThread, Client]:
        self._check(f"workflow.{name}")
        if self.loading:
            text = f"workflow.{name} was called while the program is loaded, not run"
            raise Unavailable(f'{text}: put the call under `if __name__ == "__main__":`', code="not_connected")
        if self._client is None and (url := os.environ.get(URL_VARIABLE)):
            with self._lock:
                if self._client is None:
                    self._open(url, None, "main")
        loop, client = self._loop, self._client
        if loop is None or client is None:
            forked = "this process was forked from the one that connected; " if self._orphaned else ""
            raise Unavailable(
                f"{forked}call workflow.connect(url) before workflow.{name}, for example"
                f" workflow.connect('sqlite://app.db'), or set {URL_VARIABLE}",
                code="not_connected",
            )
        return loop, client
