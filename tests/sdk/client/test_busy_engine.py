"""SDK and command line send a request again, as it is, while the engine says that its namespace is busy."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from assay.cli import client as cli
from assay.cli.client import RemoteEngine, RequestRefused
from assay.core.model.errors import AssayError
from assay.core.model.ids import Namespace, WorkflowId
from assay.core.model.requests import Signal
from assay.sdk.client.http import calls
from assay.sdk.client.http.transport import HttpTransport


@contextmanager
def answering(*replies: tuple[int, str | None]) -> Iterator[tuple[str, list[tuple[bytes, str | None]]]]:
    """A server that answers in turn, the last answer for ever: status and code; with the bodies and keys that came."""
    received: list[tuple[bytes, str | None]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((body, self.headers["idempotency-key"]))
            status, code = replies[min(len(received), len(replies)) - 1]
            content = (
                b"" if code is None else json.dumps({"error": "no", "code": code, "kind": "RATE_LIMITED"}).encode()
            )
            self.send_response(status)
            self.send_header("retry-after", "1")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BUSY_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(cli, "BUSY_RETRY_SECONDS", 0.01)


def send_signal(url: str, timeout_seconds: float = 30.0) -> None:
    async def main() -> None:
        transport = HttpTransport(url, timeout_seconds=timeout_seconds)
        await transport.open()
        try:
            await transport.ask(Signal(Namespace("main"), WorkflowId("a"), name="go"))
        finally:
            await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize("code", ["namespace_busy", "too_many_requests"])
def test_the_sdk_repeats_a_busy_refusal_with_the_same_key(code: str):
    with answering((429, code), (429, code), (200, None)) as (url, received):
        send_signal(url)
    assert len(received) == 3
    assert len(set(received)) == 1
    assert received[0][1] is not None


def test_other_refusals_and_endless_ones_are_raised():
    with answering((429, "too_many_polls")) as (url, received), pytest.raises(AssayError) as raised:
        send_signal(url)
    assert (raised.value.code, len(received)) == ("too_many_polls", 1)
    with answering((429, "namespace_busy")) as (url, received), pytest.raises(AssayError) as raised:
        send_signal(url, timeout_seconds=0.1)
    assert raised.value.code == "namespace_busy"
    assert len(received) > 1


@contextmanager
def command_line(url: str, timeout: float = 30.0) -> Iterator[RemoteEngine]:
    with closing(RemoteEngine(url, None, "main", "test", timeout)) as engine:
        yield engine


def test_the_command_line_repeats_it_until_its_time_limit():
    with answering((429, "namespace_busy"), (200, None)) as (url, received), command_line(url) as engine:
        assert engine.post("workflows", body={}).status == 200
    assert len(received) == 2
    with (
        answering((429, "namespace_busy")) as (url, received),
        command_line(url, 0.1) as engine,
        pytest.raises(RequestRefused),
    ):
        engine.post("workflows", body={})
    assert len(received) > 1
