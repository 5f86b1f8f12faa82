import asyncio
import gc
import io
import linecache
import logging
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.sdk.workflow.replay import guard
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.workflow_flag import FLAG, WorkflowIOError

HERE = str(Path(__file__).parent)


def read() -> str:
    return Path(__file__).read_text()


class NoTimers:
    def start_timer(self, delay_seconds: float) -> int:
        return 1

    def cancel_timer(self, seq: int) -> None: ...

    def now(self) -> float:
        return 0.0


def in_workflow(function: Callable[[], Any]) -> Any:
    """What `function` returns or raises when a workflow calls it."""

    async def main() -> Any:
        return function()

    loop = WorkflowLoop(NoTimers())
    task = loop.create_task(main())
    loop.run_until_blocked()
    try:
        return task.result()
    finally:
        loop.drop()


FORBIDDEN: dict[str, Callable[[], Any]] = {
    "open(": read,
    "os.listdir": lambda: os.listdir(HERE),
    "os.scandir": lambda: os.scandir(HERE),
    "os.mkdir": lambda: os.mkdir("never"),
    "os.remove": lambda: os.remove("never"),
    "os.rename": lambda: os.rename("never", "ever"),
    "shutil.rmtree": lambda: shutil.rmtree("never"),
    "tempfile.mkdtemp": tempfile.mkdtemp,
    "sqlite3.connect": lambda: sqlite3.connect(":memory:"),
    "subprocess.Popen": lambda: subprocess.run(["/bin/true"]),
    "os.system": lambda: os.system("/bin/true"),  # noqa: S605 - it never runs
    "os.posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "os.fork": os.fork,
    "_thread.start_": lambda: threading.Thread(target=print).start(),
    "time.sleep": lambda: time.sleep(0),  # noqa: TID251 - it never sleeps
    "socket.__new__": socket.socket,
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 80),
}


@pytest.mark.parametrize("called", FORBIDDEN)
def test_workflow_code_is_refused(called: str):
    with pytest.raises(WorkflowIOError, match=rf"workflow code called {called.replace('(', '[(]')}") as refused:
        in_workflow(FORBIDDEN[called])
    for way_out in ("activity", "ctx.run", "ctx.side_effect"):
        assert way_out in str(refused.value)


def test_the_refusal_names_the_file():
    with pytest.raises(WorkflowIOError, match=r"test_guard\.py"):
        in_workflow(read)


@pytest.mark.parametrize(
    ("called", "attempt"),
    [
        ("run_in_executor", lambda: asyncio.to_thread(print)),
        ("create_connection", lambda: asyncio.open_connection("localhost", 80)),
        ("create_server", lambda: asyncio.start_server(print, "localhost", 80)),
        ("create_unix_connection", lambda: asyncio.open_unix_connection("socket")),
        ("subprocess_exec", lambda: asyncio.create_subprocess_exec("true")),
        ("subprocess_shell", lambda: asyncio.create_subprocess_shell("true")),
        ("getaddrinfo", lambda: asyncio.get_running_loop().getaddrinfo("localhost", 80)),
        ("sock_recv", lambda: asyncio.get_running_loop().sock_recv(None, 1)),
        ("add_reader", lambda: asyncio.get_running_loop().add_reader(0, print)),
        ("add_signal_handler", lambda: asyncio.get_running_loop().add_signal_handler(2, print)),
    ],
)
def test_the_loop_does_no_io(called: str, attempt: Callable[[], Any]):
    async def main() -> None:
        await attempt()

    loop = WorkflowLoop(NoTimers())
    task = loop.create_task(main())
    loop.run_until_blocked()
    with pytest.raises(WorkflowIOError, match=rf"loop\.{called}.*activity.*ctx\.run"):
        task.result()


def test_every_method_of_a_loop_is_answered():
    """None is left with asyncio's NotImplementedError, whatever a later Python adds."""
    inherited = [
        name
        for name, method in vars(asyncio.AbstractEventLoop).items()
        if callable(method) and not name.startswith("_") and getattr(WorkflowLoop, name) is method
    ]
    assert inherited == []


def test_recorded_functions_are_free():
    def recorded() -> str:
        with guard.outside():
            text = read()
        with pytest.raises(WorkflowIOError):
            read()
        return text

    assert "recorded_functions_are_free" in in_workflow(recorded)


def test_workflow_code_elsewhere_can_be_guarded():
    with guard.inside(), pytest.raises(WorkflowIOError):
        read()
    assert read()


def test_the_flag_comes_down_whatever_happens():
    with pytest.raises(SystemExit):
        in_workflow(lambda: sys.exit(1))
    with pytest.raises(ZeroDivisionError), guard.inside():
        _ = 1 / 0
    assert not FLAG.inside
    assert read()


def test_finally_blocks_of_a_leaving_run_are_guarded():
    seen: list[BaseException] = []

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                read()
            except WorkflowIOError as error:
                seen.append(error)

    loop = WorkflowLoop(NoTimers())
    loop.create_task(main())
    loop.run_until_blocked()
    loop.drop()
    assert len(seen) == 1


def test_imports_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "data.txt").write_text("42")
    text = "import pathlib\nvalue = (pathlib.Path(__file__).parent / 'data.txt').read_text()\n"
    (tmp_path / "imported_in_a_workflow.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def importing() -> Any:
        import imported_in_a_workflow  # type: ignore[import-not-found]

        return imported_in_a_workflow.value

    assert in_workflow(importing) == "42"
    monkeypatch.delitem(sys.modules, "imported_in_a_workflow")


def test_a_workflow_that_runs_during_an_import_is_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A script may start its worker at the top of a module; what lies below the workflow does not count."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "runs_a_workflow.py").write_text("import tests_hand_over\ntests_hand_over.call()\n")
    refused: list[BaseException] = []

    class HandOver:
        @staticmethod
        def call() -> None:
            try:
                in_workflow(read)
            except WorkflowIOError as error:
                refused.append(error)

    monkeypatch.setitem(sys.modules, "tests_hand_over", HandOver)  # type: ignore[arg-type]
    __import__("runs_a_workflow")
    monkeypatch.delitem(sys.modules, "runs_a_workflow")
    assert len(refused) == 1


def test_tracebacks_show_their_source():
    def failing() -> str:
        linecache.clearcache()
        try:
            raise ValueError("no")
        except ValueError:
            return traceback.format_exc()

    assert 'raise ValueError("no")' in in_workflow(failing)


def test_printing_and_logging_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    logger = logging.getLogger("tests.guard")
    stream = io.StringIO()
    handlers = [logging.StreamHandler(stream), logging.FileHandler(tmp_path / "log", delay=True)]
    for handler in handlers:
        logger.addHandler(handler)

    def talking() -> None:
        print("printed")  # noqa: T201 - that is the test
        logger.warning("logged")

    in_workflow(talking)
    for handler in handlers:
        logger.removeHandler(handler)
        handler.close()
    assert capsys.readouterr().out == "printed\n"
    assert stream.getvalue() == "logged\n"
    assert (tmp_path / "log").read_text() == "logged\n"


@pytest.mark.skipif(not zoneinfo.available_timezones(), reason="this machine has no time zone data")
def test_time_zones_work():
    assert str(in_workflow(lambda: zoneinfo.ZoneInfo.no_cache("UTC"))) == "UTC"


def test_other_threads_are_free():
    texts: list[str] = []
    turn, done = threading.Event(), threading.Event()

    def elsewhere() -> None:
        turn.wait(10)
        texts.append(read())
        done.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()

    def meanwhile() -> bool:
        turn.set()
        return done.wait(10)

    assert in_workflow(meanwhile)
    thread.join()
    assert len(texts) == 1


def test_garbage_of_others_is_finalized_freely():
    texts: list[str] = []

    class Cyclic:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            texts.append(read())

    Cyclic()
    in_workflow(gc.collect)
    assert len(texts) == 1
    assert not FLAG.inside


PROGRAM = """
from _thread import start_new_thread
from time import sleep as nap
import asyncio

from assay import Client, App, WorkflowFailed

app = App()

@app.workflow(name="Nap")
async def nap_in_workflow(ctx, how):
    nap(0.01) if how == "nap" else start_new_thread(print, ())

async def main():
    async with await Client.connect("sqlite://nap.db", app=app) as client:
        for how in ("nap", "thread"):
            try:
                await client.run("Nap", how)
            except WorkflowFailed as failure:
                print(failure.message.split(",")[0])

asyncio.run(main())
nap(0.01)
"""


def test_names_that_a_module_imported_before_are_guarded_too(tmp_path: Path):
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    output = ran.stdout.splitlines()
    assert output[0] == "workflow code called time.sleep", ran.stderr
    assert output[1].startswith("workflow code called _thread.start_"), ran.stderr
    assert len(output) == 2


def test_a_guarded_sleep_still_sleeps():
    before = time.monotonic()
    time.sleep(0.01)  # noqa: TID251 - that is the test
    assert time.monotonic() - before >= 0.01
