"""A client for a SQLite file: the file is read in this process, with or without an engine that uses it."""

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from assay.cli.client import EngineResponse, Query, RemoteEngine
from assay.cli.command_errors import CommandError
from assay.core.model.errors import AssayError, ReadOnly
from assay.sdk.client.http.blocking_connection import Reply


class _Served(NamedTuple):
    """An open file: the loop, the context to exit, and the ASGI application."""

    runner: asyncio.Runner
    serving: AbstractAsyncContextManager[Any]
    api: Any


class FileEngine(RemoteEngine):
    """A client for a read-only engine in this process, called without a socket; see `RemoteEngine`."""

    def __init__(
        self,
        url: str,
        namespace: str,
        context: str,
        warn: Callable[[str], None],
        *,
        note: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(url, None, namespace, context, note=note)
        self._warn = warn
        self._served: _Served | None = None

    def close(self) -> None:
        """Close the file."""
        if self._served is not None:
            self._served.runner.run(self._served.serving.__aexit__(None, None, None))
            self._served.runner.close()
            self._served = None

    def _ask(self, method: str, path: tuple[str, ...], query: Mapping[str, Query], body: object) -> EngineResponse:
        if method != "GET":
            raise CommandError(f"{self._context}: {ReadOnly()}")
        return super()._ask(method, path, query, body)

    def _send(self, method: str, target: str, body: bytes) -> Reply:
        if self._served is None:
            self._served = self._open()
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost")],
        }
        messages: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            messages.append(message)

        self._served.runner.run(self._served.api(scope, receive, send))
        head, *parts = messages
        headers = {name.decode(): value.decode("latin-1") for name, value in head["headers"]}
        return Reply(head["status"], headers, b"".join(part["body"] for part in parts))

    def _open(self) -> "_Served":
        from assay.server.composition import in_use, running
        from assay.server.config import ServerConfig

        runner, serving = asyncio.Runner(), running(ServerConfig(database=self.url, read_only=True))
        try:
            api, database = runner.run(serving.__aenter__())
        except AssayError as error:
            runner.close()
            raise CommandError(f"{self._context}: {error}") from None
        if not in_use(database):
            text = f"no engine uses {database.place}: its workflows do not continue"
            self._warn(f"{text}; `assay serve --backend {self.url}` starts an engine")
        return _Served(runner, serving, api)
