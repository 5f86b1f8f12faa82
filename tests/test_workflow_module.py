import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay import (
    AlreadyExists,
    AssayError,
    Client,
    Invalid,
    NotFound,
    Record,
    Unavailable,
    WorkflowCancelled,
    WorkflowFailed,
    workflow,
)
from assay.sdk.default_app import DEFAULT_APP


@workflow.define
async def Greet(ctx: Any, name: str) -> str:
    greeting: str = await ctx.execute_activity(compose, name)
    return greeting


@workflow.activity
def compose(name: str) -> str:
    return f"hello, {name}"


@workflow.define
async def Wait(ctx: Any) -> str:
    ctx.register_query("stage", lambda: "waiting")
    received: str = await ctx.wait_for_signal("go")
    return received


@workflow.define(name="Nested")
async def nested(ctx: Any) -> None:
    workflow.describe("anything")


@workflow.activity
async def on_the_loop() -> str:
    try:
        workflow.describe("anything")
    except Invalid as error:
        return error.code
    return "it blocked its own loop, and came back"


@workflow.activity
def in_a_thread() -> str:
    record = workflow.describe("asks")
    assert record is not None
    return str(record.status)


@workflow.define
async def Asks(ctx: Any) -> list[str]:
    return [await ctx.execute_activity(on_the_loop), await ctx.execute_activity(in_a_thread)]


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ASSAY_ENGINE_URL", raising=False)
    workflow.connect(f"sqlite://{tmp_path}/engine.db")
    yield
    workflow.close()


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_ENGINE_URL", raising=False)


CALLS = {
    "listen": lambda: workflow.listen(),
    "start": lambda: workflow.start("Greet"),
    "run": lambda: workflow.run(Greet, "Ada"),
    "result": lambda: workflow.result("w"),
    "signal": lambda: workflow.signal("w", "go"),
    "spawn": lambda: workflow.spawn("Greet"),
    "exec": lambda: workflow.exec("Greet"),
    "update": lambda: workflow.update("w", "add", 1),
    "send": lambda: workflow.send("wf://main/w", "go"),
    "session": lambda: workflow.session(),
    "describe": lambda: workflow.describe("w"),
    "cancel": lambda: workflow.cancel("w"),
    "terminate": lambda: workflow.terminate("w"),
    "list": lambda: workflow.list(),
    "get_events": lambda: workflow.get_events("w"),
    "get_state": lambda: workflow.get_state("w"),
    "query": lambda: workflow.query("w", "stage"),
    "list_children": lambda: workflow.list_children("w"),
    "list_runs": lambda: workflow.list_runs("w"),
    "continue_as_new": lambda: workflow.continue_as_new("w"),
    "retry": lambda: workflow.retry("w", reason="again"),
    "schedules": lambda: workflow.schedules.list(),
    "namespaces": lambda: workflow.namespaces.list(),
    "workers": lambda: workflow.workers.list(),
    "queues": lambda: workflow.queues.stats(),
}


@pytest.mark.usefixtures("unconnected")
@pytest.mark.parametrize("name", CALLS)
def test_every_call_before_connect_says_what_to_do(name: str):
    with pytest.raises(Unavailable, match=rf"call workflow\.connect\(url\) before workflow\.{name}"):
        CALLS[name]()


def test_the_calls_above_are_all_there_are():
    assert {*CALLS, "connect", "close", "define", "activity"} == set(workflow.__all__)


@pytest.mark.usefixtures("unconnected")
def test_connect_needs_a_url():
    with pytest.raises(Invalid, match="ASSAY_ENGINE_URL"):
        workflow.connect()
    with pytest.raises(Invalid):
        workflow.connect("ftp://engine")
    workflow.close()


def test_the_url_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASSAY_ENGINE_URL", f"sqlite://{tmp_path}/engine.db")
    assert workflow.describe("w") is None
    workflow.close()
    workflow.connect()
    assert workflow.list() == []
    workflow.close()


@pytest.mark.usefixtures("connection")
def test_a_script_of_ten_lines():
    assert workflow.run(Greet, "Ada") == "hello, Ada"
    assert workflow.run("Greet", "Bob", workflow_id="bob") == "hello, Bob"
    assert workflow.result("bob") == "hello, Bob"
    assert len(workflow.list(type="Greet", status="COMPLETED")) == 2


@pytest.mark.usefixtures("connection")
def test_management_returns_records():
    started = workflow.start(Wait, workflow_id="w-1", search_attributes={"env": "prod"})
    assert isinstance(started, Record)
    assert (started.workflow_id, started["status"], started.started) == ("w-1", "PENDING", True)
    assert workflow.describe("nothing") is None
    assert workflow.get_state("w-1") is None
    workflow.signal("w-1", "go", {"x": 1})
    record = workflow.describe("w-1")
    assert record is not None
    assert record.search_attributes == {"env": "prod"}
    again = workflow.continue_as_new("w-1")
    assert again.run_id != started.run_id
    assert [run.run_id for run in workflow.list_runs("w-1")] == [started.run_id, again.run_id]
    assert [event.event_type for event in workflow.get_events("w-1", started.run_id)][-1] == "WorkflowContinuedAsNew"
    assert workflow.list_children("w-1") == []
    workflow.cancel("w-1", "no more")
    with pytest.raises(WorkflowCancelled, match="no more"):
        workflow.result("w-1")
    with pytest.raises(NotFound):
        workflow.terminate("w-1")


@pytest.mark.usefixtures("connection")
def test_namespaces_workers_and_queues():
    workflow.namespaces.create("tenant")
    assert [space.name for space in workflow.namespaces.list()] == ["main", "tenant"]
    with pytest.raises(AlreadyExists):
        workflow.namespaces.create("tenant")
    workflow.start(Wait, workflow_id="w-1", namespace="tenant", task_queue="later")
    described = workflow.namespaces.describe("tenant")
    assert isinstance(described, Record)
    assert (described.namespace, described.pending, described["workers"]) == ("tenant", 1, 0)
    assert workflow.namespaces.stats("tenant") == described
    assert [queue.queue for queue in workflow.queues.stats(namespace="tenant")] == ["later"]
    with pytest.raises(AssayError, match="open runs"):
        workflow.namespaces.delete("tenant")
    workflow.cancel("w-1", namespace="tenant")
    workflow.namespaces.delete("tenant")
    assert workflow.run(Greet, "Ada") == "hello, Ada"
    (worker,) = workflow.workers.list()
    assert (worker.task_queue, worker.namespace) == ("default", "main")
    assert "Greet" in worker.workflows
    assert workflow.workers.list(namespace="tenant") == []
    assert [(queue.queue, queue.workers) for queue in workflow.queues.stats()] == [("default", 1)]


@pytest.mark.usefixtures("connection")
def test_listen_in_a_thread_ends_with_close():
    listener = threading.Thread(target=workflow.listen)
    listener.start()
    workflow.start(Wait, workflow_id="w-1")
    workflow.signal("w-1", "go", "done")
    assert workflow.result("w-1") == "done"
    assert workflow.query("w-1", "stage") == "waiting"
    workflow.close()
    listener.join(10)
    assert not listener.is_alive()


@pytest.mark.usefixtures("connection")
def test_a_call_from_a_workflow_fails_the_run_with_advice():
    with pytest.raises(WorkflowFailed, match="do it in an activity"):
        workflow.run(nested)


@pytest.mark.usefixtures("connection")
def test_a_call_on_the_loop_is_refused_and_one_from_a_thread_is_not():
    assert workflow.run(Asks, workflow_id="asks") == ["would_deadlock", "RUNNING"]


def test_reconnecting_closes_what_was_connected(tmp_path: Path):
    workflow.connect(f"sqlite://{tmp_path}/one.db")
    workflow.start(Wait, workflow_id="w-1")
    workflow.connect(f"sqlite://{tmp_path}/two.db", namespace="other")
    assert workflow.describe("w-1") is None

    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/one.db") as client:
            assert await client.describe("w-1") is not None

    asyncio.run(main())  # its lock is free
    workflow.close()


def test_close_leaves_no_thread_and_no_handler(tmp_path: Path):
    before = {thread.name for thread in threading.enumerate()}, signal.getsignal(signal.SIGINT)
    workflow.connect(f"sqlite://{tmp_path}/engine.db")
    workflow.run(Greet, "Ada")
    assert "assay-loop" in {thread.name for thread in threading.enumerate()}
    workflow.close()
    workflow.close()
    assert ({thread.name for thread in threading.enumerate()}, signal.getsignal(signal.SIGINT)) == before


def test_waiting_ends_when_the_connection_is_closed(tmp_path: Path):
    workflow.connect(f"sqlite://{tmp_path}/engine.db")
    workflow.start(Wait, workflow_id="w-1")
    errors: list[AssayError] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            workflow.result("w-1")
        except AssayError as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    waiting.wait()
    workflow.close()
    waiter.join(10)
    assert [type(error) for error in errors] == [Unavailable]


@pytest.mark.usefixtures("connection")
def test_a_forked_child_is_told_to_connect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of the loop's thread
        child = os.fork()
    if child == 0:
        code = 1
        try:
            workflow.describe("w-1")
        except Unavailable as error:
            code = 0 if "forked" in error.message else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert workflow.list() == []


def test_definitions_go_to_the_default_app():
    assert {"Greet", "Wait", "Nested", "Asks"} <= DEFAULT_APP.workflows.keys()
    assert {"compose", "on_the_loop", "in_a_thread"} <= DEFAULT_APP.activities.keys()


# whole programs

PROGRAM = """
import sys, threading, time
from assay import workflow

@workflow.define
async def Work(ctx, seconds):
    return await ctx.execute_activity(work, seconds)

@workflow.activity
def work(seconds):
    print("working", flush=True)
    threading.Event().wait(seconds)
    return "done"

workflow.connect(f"sqlite://{sys.argv[1]}/engine.db")
"""


def program(folder: Path, text: str) -> "subprocess.Popen[str]":
    path = folder / "program.py"
    path.write_text(PROGRAM + textwrap.dedent(text), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "ASSAY_ENGINE_URL"}
    return subprocess.Popen(  # noqa: S603 - written just now
        [sys.executable, "-W", "error", str(path), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def received(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == line


def statuses(folder: Path) -> dict[str, str]:
    async def main() -> dict[str, str]:
        async with await Client.connect(f"sqlite://{folder}/engine.db") as client:
            return {run.id: run.status for run in await client.list()}

    return asyncio.run(main())


def test_a_program_that_just_ends_leaves_everything_in_order(tmp_path: Path):
    process = program(tmp_path, "print(workflow.run(Work, 0, workflow_id='w-1'))")
    out, err = process.communicate(timeout=30)
    assert (out.split(), err, process.returncode) == (["working", "done"], "", 0)
    assert statuses(tmp_path) == {"w-1": "COMPLETED"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_what_has_begun(tmp_path: Path, number: signal.Signals):
    process = program(
        tmp_path,
        """
        import signal
        before = signal.getsignal(signal.SIGTERM)
        workflow.start(Work, 0.5, workflow_id="w-1")
        workflow.listen()
        print("handler is back:", signal.getsignal(signal.SIGTERM) == before, flush=True)
        """,
    )
    received(process, "working")
    process.send_signal(number)
    out, err = process.communicate(timeout=12)
    assert (out.strip(), err, process.returncode) == ("handler is back: True", "", 0)
    assert statuses(tmp_path) == {"w-1": "COMPLETED"}


def test_a_drain_has_an_end_and_the_work_goes_back(tmp_path: Path):
    process = program(tmp_path, "workflow.start(Work, 3600, workflow_id='w-1')\nworkflow.listen()\n")
    received(process, "working")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=11)
    assert process.returncode == 0
    assert statuses(tmp_path) == {"w-1": "RUNNING"}


def test_a_second_signal_ends_at_once(tmp_path: Path):
    process = program(tmp_path, "workflow.start(Work, 3600, workflow_id='w-1')\nworkflow.listen()\n")
    received(process, "working")
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=3)
    assert process.returncode == 128 + signal.SIGTERM


def test_an_interrupt_ends_a_call_that_waits(tmp_path: Path):
    process = program(
        tmp_path,
        """
        try:
            workflow.run(Work, 3600, workflow_id="w-1")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """,
    )
    received(process, "working")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=11)
    assert (out.strip(), process.returncode) == ("interrupted", 0)
    assert statuses(tmp_path) == {"w-1": "RUNNING"}


def test_a_program_that_was_killed_is_taken_over_at_once(tmp_path: Path):
    process = program(tmp_path, "workflow.start(Work, 3600, workflow_id='w-1')\nworkflow.listen()\n")
    received(process, "working")
    process.kill()
    process.communicate()
    assert statuses(tmp_path) == {"w-1": "RUNNING"}
