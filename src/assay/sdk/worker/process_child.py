"""The code that runs in an activity process, and the messages between the process and its worker.

A message is a length of four bytes and a JSON document, in both directions over one socket. The process exits when the
socket ends, even in the middle of a computation: a killed worker leaves no processes behind.
"""

import asyncio
import contextlib
import importlib
import os
import queue
import signal
import socket
import sys
import threading
from typing import Any, Final

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.sdk.client.recorded_results import encode_result
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import judged, to_info
from assay.sdk.values.signatures import signature_of
from assay.sdk.workflow.activity_context import ActivityContext, ActivityInfo
from assay.sdk.workflow.carried import Carried

NAME: Final = "assay-activity"
HEADER_BYTES: Final = 4
WORKER_LOST_EXIT_CODE: Final = 70
"""The exit code of a process whose worker has ended."""


_loading = False


def refuse_while_loading() -> None:
    """Raise `Invalid` while this process loads a program for its activities: it must not start a worker of its own."""
    if _loading:
        raise Invalid(
            "this process loads the program to run its activities: put the start of a worker under"
            " `if __name__ == '__main__':`"
        )


class ProcessCall(msgspec.Struct, frozen=True, tag=True):
    """From the worker: run an attempt of an activity."""

    attempt_id: int
    module: str
    function: str
    info: ActivityInfo
    retry: RetryPolicy
    input: Payload = NULL
    details: Payload = NULL
    carried: Carried = Carried()


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """From the worker: the next heartbeat of an attempt raises `CancelRequested`."""

    attempt_id: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From the process: its modules are imported, and it accepts an attempt; `problems` are failed imports."""

    problems: tuple[str, ...] = ()


class ProcessHeartbeat(msgspec.Struct, frozen=True, tag=True):
    """From the process: a heartbeat; `cancelled` if it raised `CancelRequested`."""

    attempt_id: int
    details: Payload = NULL
    cancelled: bool = False


class Returned(msgspec.Struct, frozen=True, tag=True):
    """From the process: the function has returned."""

    attempt_id: int
    result: Payload = NULL


class Raised(msgspec.Struct, frozen=True, tag=True):
    """From the process: the function has raised; `cancelled` for `CancelRequested` or a `CancelledError`."""

    attempt_id: int
    failure: FailureInfo
    cancelled: bool = False


FromWorker = ProcessCall | Cancel
FromProcess = Ready | ProcessHeartbeat | Returned | Raised
decode_from_worker: Final = msgspec.json.Decoder(FromWorker).decode
decode_from_process: Final = msgspec.json.Decoder(FromProcess).decode
_encode: Final = msgspec.json.Encoder().encode


def framed(message: FromWorker | FromProcess) -> bytes:
    """Return the bytes of a message for the socket."""
    body = _encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def main(beginning: dict[str, Any]) -> None:
    """Load the program and the modules of its activities, then run attempts until the worker closes the socket."""
    global _loading
    _loading = True
    # Ctrl-C is sent to all processes of a terminal: ignored here, because the worker stops its activities.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    worker = _Worker(socket.socket(fileno=beginning["channel"]))
    threading.Thread(target=worker.watch, name="assay-watch", daemon=True).start()
    from multiprocessing import spawn  # not at the top: the worker imports this module too, and does not need it

    spawn.prepare(beginning)
    worker.send(Ready(tuple(filter(None, map(_problem_of_importing, beginning["modules"])))))
    _loading = False
    while True:
        call = worker.calls.get()
        outcome = _outcome(call, worker)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed or replaced by the activity
                stream.flush()
        worker.send(outcome)


def _problem_of_importing(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001  # reported; each attempt imports again and fails with the error
        failure = to_info(error)
        return f"{module}: {failure.stack or failure.message}"
    return None


class _Worker:
    """The connection of a process to its worker: calls to run, heartbeats and outcomes to send."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._cancelled = 0
        """The id of the attempt that is to stop; 0 for none, as ids begin with 1."""
        self.calls: queue.SimpleQueue[ProcessCall] = queue.SimpleQueue()

    def send(self, message: FromProcess) -> None:
        data = framed(message)
        with self._sending:  # an activity may send heartbeats from its own threads
            self._channel.sendall(data)

    def beat(self, attempt_id: int, details: Payload) -> bool:
        """Send a heartbeat; return True if the attempt is to stop."""
        cancelled = self._cancelled == attempt_id
        self.send(ProcessHeartbeat(attempt_id, details, cancelled))
        return cancelled

    def watch(self) -> None:
        """Read messages until the socket ends, then exit the process: its function may never return."""
        try:
            while True:
                size = int.from_bytes(self._read(HEADER_BYTES), "big")
                message = decode_from_worker(self._read(size))
                if isinstance(message, ProcessCall):
                    self.calls.put(message)
                else:
                    self._cancelled = message.attempt_id
        finally:
            os._exit(WORKER_LOST_EXIT_CODE)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._channel.recv(size - len(data), socket.MSG_WAITALL)
            if not more:
                raise ConnectionResetError
            data += more
        return data


def _outcome(call: ProcessCall, worker: _Worker) -> Returned | Raised:
    """Call the function of an attempt; return its outcome."""
    converter = Converter()
    try:
        function = _function_of(call)
        signature = signature_of(function)
        value = signature.value_of(call.input, converter)

        def beat(details: Any) -> bool:
            raw = NULL if details is None else Payload(converter.encode(details, name="heartbeat details"))
            return worker.beat(call.attempt_id, raw)

        context = ActivityContext(lambda: call.info, converter.decode(call.details), beat, lambda: call.carried)
        args, named = signature.arguments(context, value)
        result = function(*args, **named)
        name = f"result of activity '{call.info.name}'"
        raw = encode_result(converter, result, name, signature.result_annotation)
        return Returned(call.attempt_id, Payload(raw))
    except BaseException as error:  # noqa: BLE001  # every exception, SystemExit included, fails the attempt
        failure = judged(to_info(error, source="activity"), error, call.retry)
        return Raised(call.attempt_id, failure, cancelled=isinstance(error, asyncio.CancelledError))


def _function_of(call: ProcessCall) -> Any:
    found: Any = importlib.import_module(call.module)
    for part in call.function.split("."):
        found = getattr(found, part)
    return found
