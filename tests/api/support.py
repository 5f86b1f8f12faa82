"""Real server processes and plain HTTP, for tests that see nothing but what is on the wire."""

import asyncio
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.server.verification import violations

PREFIX = "/api/v1"
OTHER_PREFIX = "/api/v1/engine/workflow"
JSON = {"Content-Type": "application/json"}
START_SECONDS = 30

_numbers = itertools.count(1)


def fresh(name: str = "wf") -> str:
    """A name that no other test uses."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the part that tells how long something waits."""
    return {**record, "waiting_on": None}


class Reply:
    """An answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class Http:
    """A client that sends exactly what it is told, on a connection per thread."""

    def __init__(self, port: int, opened: list[http.client.HTTPConnection], prefix: str = PREFIX) -> None:
        self.port = port
        self.prefix = prefix
        self._opened = opened
        self._local = threading.local()

    def raw(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        connection = getattr(self._local, "connection", None) or self._connect()
        try:
            connection.request(method, path, body, headers or {})
            return Reply(connection.getresponse())
        except (ConnectionError, http.client.HTTPException, OSError):
            connection.close()
            connection = self._connect()
            connection.request(method, path, body, headers or {})
            return Reply(connection.getresponse())

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self._local.connection = connection
        self._opened.append(connection)
        return connection

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.raw(method, self.prefix + path, data, {**(JSON if data is not None else {}), **named})

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, None, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.send("POST", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Reply:
        return self.send("DELETE", path, None, **headers)

    # what most tests do

    def start(self, workflow_id: str | None = None, **fields: Any) -> dict[str, Any]:
        body = {"workflow_type": "Order", "workflow_id": workflow_id or fresh(), **fields}
        reply = self.post("/workflows", body)
        assert reply.status == 201, reply
        return reply.json()

    def describe(self, workflow_id: str, **query: str) -> dict[str, Any]:
        reply = self.get(f"/workflows/{quote(workflow_id, safe='')}{query_of(query)}")
        assert reply.status == 200, reply
        return reply.json()

    def history(self, workflow_id: str, **query: str) -> list[dict[str, Any]]:
        reply = self.get(f"/workflows/{quote(workflow_id, safe='')}/events{query_of(query)}")
        assert reply.status == 200, reply
        return reply.json()

    def kinds(self, workflow_id: str, **query: str) -> list[str]:
        return [event["event_type"] for event in self.history(workflow_id, **query)]


def until(ready: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until `ready` says so, asking again and again: what is on the wire cannot call back."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "waited in vain"
        threading.Event().wait(0.02)


def gauge(http: Http, name: str) -> int:
    """A metric that has no labels."""
    lines = http.raw("GET", "/metrics").body.decode().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def holds(http: Http, polls: int) -> None:
    """Wait until the engine holds so many polls."""
    until(lambda: gauge(http, "assay_polls_held") == polls)


def query_of(query: dict[str, str]) -> str:
    return "?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items()) if query else ""


class Worker:
    """A worker of the original, one call at a time."""

    def __init__(self, http: Http, queue: str = "default", **fields: Any) -> None:
        self.http = http
        self.queue = queue
        reply = http.post("/workers/register", {"identity": "test", "queue": queue, **fields})
        assert reply.status == 200, reply
        self.id: str = reply.json()["worker_id"]

    def task(self, **fields: Any) -> dict[str, Any] | None:
        reply = self.http.post("/workflow-tasks/poll", {"queue": self.queue, "worker_id": self.id, **fields})
        assert reply.status == 200, reply
        return reply.json()

    def commands(self, workflow_id: str, *commands: dict[str, Any], **fields: Any) -> Reply:
        path = f"/workflow-tasks/{quote(workflow_id, safe='')}/commands"
        return self.http.post(path, {"worker_id": self.id, "commands": list(commands), **fields})

    def turn(self, workflow_id: str, *commands: dict[str, Any]) -> dict[str, Any]:
        """Claim the task of a run, which must be the next one, and do it."""
        task = self.task()
        assert task is not None
        assert task["workflow_id"] == workflow_id
        reply = self.commands(workflow_id, *commands)
        assert reply.status == 200, reply
        return task

    def activity(self, **fields: Any) -> dict[str, Any] | None:
        reply = self.http.post("/tasks/poll", {"queue": self.queue, "worker_id": self.id, **fields})
        assert reply.status == 200, reply
        found = reply.json()
        return found if "id" in found else None

    def complete(self, task: dict[str, Any], result: Any = None) -> Reply:
        return self.http.post(f"/tasks/{task['id']}/complete", {"result": result})

    def fail(self, task: dict[str, Any], error: str = "broken") -> Reply:
        return self.http.post(f"/tasks/{task['id']}/fail", {"error": error})


def claimed(http: Http, **fields: Any) -> tuple[Worker, str]:
    """A run whose first task a worker holds."""
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue, **fields)["workflow_id"]
    assert worker.task() is not None
    return worker, name


def activity(seq: int = 1, name: str = "charge", **fields: Any) -> dict[str, Any]:
    return {"type": "ScheduleActivity", "seq": seq, "name": name, **fields}


def complete(result: Any = None) -> dict[str, Any]:
    return {"type": "CompleteWorkflow", "result": result}


class Server:
    """`assay serve` in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        python: tuple[str, ...] = ("-m", "assay.cli.main"),
        **environment: str,
    ) -> None:
        self.folder = folder
        command = [sys.executable, *python, "serve", "--port", "0", *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "DATABASE_"))}
        self.errors = folder / f"server-{next(_numbers)}.log"
        with self.errors.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**inherited, **environment},
                text=True,
            )
        self.greeting: list[str] = []
        self._connections: list[http.client.HTTPConnection] = []
        self.port = self._listening()

    def _listening(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.greeting.append(line.rstrip())
            if "database" in line:
                api = next(one for one in self.greeting if "API " in one and "docs" not in one)
                return int(api.split(":")[2].split("/")[0])
        self.process.wait(START_SECONDS)
        self.process.stdout.close()
        raise NotStarted(self.process.returncode, self.errors.read_text())

    def http(self, prefix: str = PREFIX) -> Http:
        return Http(self.port, self._connections, prefix)

    def stop(self, seconds: float = 15) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        if self.process.poll() is None:
            self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()


class NotStarted(Exception):
    """The server ended before it served."""

    def __init__(self, code: int, output: str) -> None:
        super().__init__(f"exit code {code}: {output}")
        self.code = code
        self.output = output


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[Server]:
    server = Server(folder, *arguments, **environment)
    try:
        yield server
        assert server.process.poll() is None, "the server has ended by itself"
        assert not traces(server), traces(server)
    finally:
        server.close()


def sound(url: str) -> list[object]:
    """What `assay verify` finds wrong in a database, but for runs whose worker in a test wanted nothing more."""

    async def found() -> list[object]:
        return [violation async for violation in violations(url) if violation.invariant != "L1"]

    return asyncio.run(found())


def traces(server: Server) -> list[str]:
    """What the server's log says of mistakes of its own."""
    return [line for line in server.errors.read_text().splitlines() if '"exception"' in line or "Traceback" in line]


class Listener:
    """An event stream, read in a thread."""

    def __init__(self, port: int, query: str = "", last: str | None = None, key: str | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        header = "" if last is None else f"Last-Event-ID: {last}\r\n"
        header += "" if key is None else f"Authorization: Bearer {key}\r\n"
        request = f"GET {PREFIX}/events/stream{query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"
        self._socket.sendall(request.encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        self.events: list[dict[str, Any]] = []
        self.comments: list[str] = []
        self._arrived = threading.Condition()
        self.ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        if self.status == 200:
            self._thread.start()
            self.until(lambda: bool(self.comments))

    def _read(self) -> None:
        buffer = b""
        try:
            while size := int(self._file.readline().strip() or b"0", 16):
                buffer += self._file.read(size)
                self._file.readline()
                *blocks, buffer = buffer.split(b"\n\n")
                for block in blocks:
                    self._take(block.decode())
        except (OSError, ValueError):
            pass
        with self._arrived:
            self.ended = True
            self._arrived.notify_all()

    def _take(self, block: str) -> None:
        with self._arrived:
            if block.startswith(":"):
                self.comments.append(block)
            else:
                fields = dict(line.split(": ", 1) for line in block.split("\n"))
                event = {"id": int(fields["id"]), "event": fields["event"], "data": json.loads(fields["data"])}
                self.events.append(event)
            self._arrived.notify_all()

    def until(self, ready: Any, seconds: float = 15) -> None:
        """Wait until `ready` says so."""
        deadline = time.monotonic() + seconds
        with self._arrived:
            while not ready():
                left = deadline - time.monotonic()
                assert left > 0, f"waited in vain; got {[event['event'] for event in self.events]}"
                self._arrived.wait(left)

    def wait(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many events of a kind."""
        self.until(lambda: sum(event["event"] == kind for event in self.events) >= count)
        return [event for event in self.events if event["event"] == kind]

    def kinds(self) -> list[str]:
        with self._arrived:
            return [event["event"] for event in self.events]

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self.status == 200:
            self._thread.join(5)
        else:
            self._file.close()
