"""The command line as tests call it, an engine that only listens, and programs on a terminal."""

import asyncio
import errno
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from assay import Client

PROGRAM = [sys.executable, "-m", "assay"]
SECONDS = 30


class CommandResult(NamedTuple):
    """What a call said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """One JSON document per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table."""
        return [line.split() for line in self.out.splitlines()]


Cli = Callable[..., CommandResult]


def plain_environment(home: Path, **variables: str) -> dict[str, str]:
    """An environment in which nobody has set up anything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "_ASSAY_", "XDG_"))}
    return {**kept, "HOME": str(home), **variables}


def spawn(arguments: list[str], environment: dict[str, str], input: str = "") -> CommandResult:
    """A call in a process of its own."""
    done = subprocess.run(  # noqa: S603
        [*PROGRAM, *arguments],
        env=environment,
        input=input.encode(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_terminal(arguments: list[str], environment: dict[str, str]) -> CommandResult:
    """A call whose output and errors both go to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603
        [*PROGRAM, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        output = b"".join(_read(ours))
        os.close(ours)
        code = process.wait(SECONDS)
    return CommandResult(code, output.decode().replace("\r\n", "\n"), "")


class Terminal:
    """A terminal, and what is shown on it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts = _read(descriptor)

    def type_in(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def until(self, text: str) -> str:
        """What is shown, up to a text that is waited for."""
        shown = b""
        while text.encode() not in shown:
            shown += next(self._parts)
        return shown.decode()


@contextmanager
def terminal(command: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    """A program on a terminal, for the time of the block."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: S603
        command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(ours)


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return  # how Linux says that nobody is left at the other end
        if not part:
            return
        yield part


def outcome(url: str, name: str, value: Any, queue: str, namespace: str = "main") -> Any:
    """Run a workflow on an engine, and wait for its result."""

    async def main() -> Any:
        async with await Client.connect(url, namespace=namespace) as client:
            return await asyncio.wait_for(client.run(name, value, task_queue=queue), 20)

    return asyncio.run(main())


class ReceivedRequest(NamedTuple):
    """A request as the engine got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Stub(ThreadingHTTPServer):
    """An engine that writes down what it is asked, and answers what it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.requests: list[ReceivedRequest] = []
        self.answers: list[tuple[int, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, document: Any, status: int = 200) -> None:
        """What to say next; `[]` when there is nothing left."""
        self.answers.append((status, document if isinstance(document, bytes) else json.dumps(document).encode()))

    @property
    def last(self) -> ReceivedRequest:
        return self.requests[-1]


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def handle_one_request(self) -> None:
        self.do_GET = self.do_POST = self.do_PATCH = self.do_PUT = self.do_DELETE = self._take
        super().handle_one_request()

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(
            ReceivedRequest(self.command, self.path, headers, json.loads(body) if body else None)
        )
        status, answer = self.server.answers.pop(0) if self.server.answers else (200, b"[]")
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test says what matters."""


@contextmanager
def stub_engine() -> Iterator[Stub]:
    with Stub() as stub:
        thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield stub
        stub.shutdown()
        thread.join()
