"""`assay serve`: an engine with an HTTP server, until a stop signal or a failure of the storage."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import uvicorn
import uvloop

from assay._version import __version__
from assay.api.app import Api
from assay.api.exposure import HSTS
from assay.api.router import PREFIXES
from assay.core.model.errors import AssayError, Unavailable
from assay.core.model.limits import SERVER_DRAIN_SECONDS
from assay.server.certificates import Certificates
from assay.server.client_limits import ClientLimits, connections_within
from assay.server.composition import running
from assay.server.config import ServerConfig
from assay.server.garbage_collection import settle
from assay.server.protocols import protocols_of
from assay.server.stop_signals import StopSignals
from assay.storage.ports import Broken
from assay.worker_protocol.messages import MAX_MESSAGE_BYTES

log = logging.getLogger("assay.server")

STOPPED: Final = 0
ENGINE_FAILED: Final = 1
IO_ERROR: Final = 74
"""The storage failed: the outcome of the last write is unknown."""

TICKS_A_SECOND: Final = 10
"""How often uvicorn calls `on_tick`."""

Say = Callable[[str], None]


class _Listener(uvicorn.Server):
    """The HTTP server; ends long waits when it stops, and stops when the engine has stopped."""

    def __init__(
        self, config: uvicorn.Config, api: Api, signals: StopSignals, certificates: Certificates | None = None
    ) -> None:
        super().__init__(config)
        self._api = api
        self._signals = signals
        self._certificates = certificates

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Receive signals from `StopSignals`; uvicorn would raise them again before the engine is stopped."""
        loop = asyncio.get_running_loop()
        self._signals.connect(lambda number: _call(loop, self.handle_exit, number))
        if self._certificates is not None:
            loop.add_signal_handler(signal.SIGHUP, self._certificates.reload)
        try:
            yield
        finally:
            self._signals.connect(None)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Reply to waiting callers, then finish the requests in progress."""
        self._api.backend.drain()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; once a second, check the limits of all connections."""
        if counter % TICKS_A_SECOND == 0:
            if self._certificates is not None:
                self._certificates.reload_if_changed()
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                check = getattr(connection, "check_limits", None)  # uvicorn's own classes have no limits of time
                if check is not None:
                    check(now)
        return await super().on_tick(counter) or self._api.backend.engine.stopped is not None


def serve(config: ServerConfig, say: Say) -> int:
    """Serve until SIGTERM or SIGINT; the exit code of the process."""
    with contextlib.suppress(KeyboardInterrupt), StopSignals() as signals:
        return uvloop.run(_serve(config.checked(), say, signals))
    return STOPPED


def _call(loop: asyncio.AbstractEventLoop, handle: Callable[[int, None], None], number: int) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: stopped already
        loop.call_soon_threadsafe(handle, number, None)


async def _serve(config: ServerConfig, say: Say, signals: StopSignals) -> int:
    listening = _bound(config)
    with contextlib.closing(listening):
        async with running(config) as (api, database):
            address = _address(listening, config)
            for line in _greeting(config, address, database.place):
                say(line)
            settle()
            certificates = config.exposure.certificates()
            await _Listener(_uvicorn(api, config.limits, certificates), api, signals, certificates).serve([listening])
            return _exit_code(api.backend.engine.stopped)


def _bound(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host.strip("[]"), config.port))
        listening.listen(2_048)
    except OSError as error:
        listening.close()
        text = f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; choose another --port"
        raise Unavailable(text, code="port_in_use") from error
    return listening


def _address(listening: socket.socket, config: ServerConfig) -> str:
    port: int = listening.getsockname()[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(config.host, config.host)  # noqa: S104  # shown, not bound
    scheme = "http" if config.exposure.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _greeting(config: ServerConfig, address: str, place: str) -> list[str]:
    lines = [
        f"assay {__version__}",
        f"  dashboard {address}/workflow/",
        f"  API       {address}{PREFIXES[0]}",
        f"  API docs  {address}{PREFIXES[0]}/docs",
    ]
    lines.append(f"  auth      {config.auth.described}")
    if config.exposed and not config.auth.is_on:
        lines.append("  no authentication: everybody who can reach this address may do everything")
    if config.no_auth and config.auth.is_on:
        lines.append("  --no-auth opens nothing beside another mode: callers need a credential")
    return [*lines, f"  database  {place}{', only read' if config.read_only else ''}"]


def _uvicorn(api: Api, limits: ClientLimits, certificates: Certificates | None = None) -> uvicorn.Config:
    protocols = protocols_of(api, replace(limits, connections=connections_within(limits.connections)))
    return uvicorn.Config(
        protocols.application,
        loop="none",
        http=protocols.http,
        ws=protocols.ws,
        limit_concurrency=protocols.connections,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=None if certificates is None else [(HSTS[0].decode(), HSTS[1].decode())],
        ssl_context_factory=None if certificates is None else lambda *_: certificates.context,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=SERVER_DRAIN_SECONDS,
        backlog=2_048,
    )


def _exit_code(stopped: AssayError | None) -> int:
    if stopped is None:
        return STOPPED
    log.error("the engine stopped: %s", stopped)
    return IO_ERROR if isinstance(stopped, Broken) else ENGINE_FAILED
