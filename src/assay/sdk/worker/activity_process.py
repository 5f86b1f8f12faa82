"""An activity process, seen from its worker: a thread starts it and waits for its exit, a socket carries messages."""

import asyncio
import contextlib
import json
import logging
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from assay.sdk.worker import process_child
from assay.sdk.worker.process_child import FromProcess, FromWorker, Ready

log = logging.getLogger("assay.worker")
TERMINATE_SECONDS: Final = 1.0
"""The time between SIGTERM and SIGKILL."""
LAST_MESSAGES_SECONDS: Final = 1.0
"""Seconds for which the socket of an exited process is read: a grandchild may hold its other end open."""
PROGRAM: Final = (
    "import json, sys; beginning = json.load(sys.stdin); sys.path[:] = beginning['sys_path'];"
    " from assay.sdk.worker.process_child import main; main(beginning)"
)
"""The code of a new process, which imports this package from the same path as this program."""


class ActivityProcess:
    """A spawned process that runs one activity at a time.

    `run` lasts from the start of the process to its exit. `received` is called with each message, on the loop.
    """

    def __init__(self, modules: Sequence[str], received: Callable[["ActivityProcess", FromProcess], None]) -> None:
        self.ready = False
        self.doomed = False
        """True once the process is to exit."""
        self.served = 0
        """The number of attempts that were sent to the process."""
        self.attempt_id: int | None = None
        self.exit_code: int | None = None
        self._modules = modules
        self._received = received
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._killing: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Start the process and read its messages until it has exited."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        exited: asyncio.Future[int | None] = loop.create_future()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        reading = loop.create_task(self._read(reader))
        threading.Thread(target=self._live, args=(loop, theirs, exited), name="assay-process", daemon=True).start()
        try:
            self.exit_code = await exited
            await asyncio.wait({reading}, timeout=LAST_MESSAGES_SECONDS)
        finally:
            reading.cancel()
            self._writer.close()
            if self._killing is not None:
                self._killing.cancel()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                size = int.from_bytes(await reader.readexactly(process_child.HEADER_BYTES), "big")
                message = process_child.decode_from_process(await reader.readexactly(size))
                self.ready = self.ready or isinstance(message, Ready)
                self._received(self, message)

    def _live(
        self, loop: asyncio.AbstractEventLoop, channel: socket.socket, exited: "asyncio.Future[int | None]"
    ) -> None:
        """Start the process and wait for its exit; runs in a thread, because both block."""
        code: int | None = None
        try:
            process = _started(channel, self._modules)
            _call_soon(loop, self._has_started, process)
            code = process.wait()
        except Exception:
            log.exception("a process for activities cannot be started")
        finally:
            channel.close()
            _call_soon(loop, _settle, exited, code)

    def _has_started(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        if self.doomed:
            self.terminate()

    def send(self, message: FromWorker) -> None:
        """Send a message; lost if the process has just exited."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(process_child.framed(message))

    def terminate(self) -> None:
        """Send SIGTERM, and SIGKILL a second later if the process is still alive."""
        self.doomed = True
        if self._killing is None and self._process is not None:
            self._process.terminate()
            self._killing = asyncio.get_running_loop().call_later(TERMINATE_SECONDS, self.kill)

    def kill(self) -> None:
        """Kill the process; a process that is just starting exits when it finds its socket closed."""
        self.doomed = True
        if self._process is not None:
            self._process.kill()
        if self._writer is not None:
            self._writer.close()


def _started(channel: socket.socket, modules: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a new interpreter that loads this program, as the spawn method of multiprocessing does.

    A fork of a program with threads and an open database may deadlock or corrupt the database. A
    `multiprocessing.Process` would block the exit of the interpreter until the worker is stopped.
    """
    from multiprocessing import spawn  # programs without process activities do not pay for the import

    beginning = {**spawn.get_preparation_data(process_child.NAME), "channel": channel.fileno(), "modules": modules}
    beginning.pop("authkey")  # a secret that the process does not need
    command = spawn.get_command_line()
    # Ctrl-C must not reach the process before it ignores SIGINT: the mask is inherited.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(  # noqa: S603  # our own command, given as a list
            [*command[: command.index("-c")], "-c", PROGRAM], stdin=subprocess.PIPE, pass_fds=[channel.fileno()]
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        channel.close()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # the process may have exited already
            process.stdin.write(json.dumps(beginning, default=str).encode())
    return process


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the socket, which ends the process
        loop.call_soon_threadsafe(function, *args)


def _settle(exited: "asyncio.Future[int | None]", code: int | None) -> None:
    if not exited.done():
        exited.set_result(code)
