"""Nightly reports on a server: `python -m examples.server_demo`, until Ctrl-C.

Three processes, as in real life: the engine (`assay serve`), a worker (`assay run` of this very file) and this client,
which starts a report every few seconds and shows what happens to it. While it runs, look at the addresses it prints, or
kill the worker or the engine and start them again by hand: the reports go on where they were.
"""

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import assay
from assay import Context, workflow

PORT = 8080
PAUSE = 3.0
REGIONS = ("eu-west-1", "us-east-2", "ap-south-1")
KINDS = ("stale_lock", "missing_index", "orphaned_record", "slow_query")
COLOURS = {"grey": "\x1b[2m", "green": "\x1b[32m", "yellow": "\x1b[33m", "bold": "\x1b[1m"}


# what the worker serves


class Anomaly(TypedDict):
    id: str
    kind: str


@workflow.define
async def NightlyReport(ctx: Context, input: dict[str, str]) -> dict[str, Any]:
    report_id = await ctx.side_effect("issue_report_id", lambda: f"rep-{uuid.uuid4().hex[:8]}")
    anomalies = await ctx.execute_activity(scan_anomalies, input, max_attempts=5)
    for number, anomaly in enumerate(anomalies, 1):
        await ctx.start_child_workflow(HandleAnomaly, workflow_id=f"{report_id}-{number}", input=anomaly)
    return {"report_id": report_id, "anomalies_handled": len(anomalies)}


@workflow.define
async def HandleAnomaly(ctx: Context, anomaly: Anomaly) -> str:
    await ctx.sleep(0.5)
    return await ctx.execute_activity(remediate, anomaly)


@workflow.activity
def scan_anomalies(input: dict[str, str]) -> list[Anomaly]:
    time.sleep(random.uniform(0.3, 0.9))  # noqa: S311
    return [{"id": f"a-{n}", "kind": random.choice(KINDS)} for n in range(1, random.randint(2, 4))]  # noqa: S311


@workflow.activity
def remediate(anomaly: Anomaly) -> str:
    time.sleep(random.uniform(0.1, 0.4))  # noqa: S311
    return f"{anomaly['kind']} fixed"


@workflow.define
async def Release(ctx: Context, input: dict[str, str]) -> str:
    """Shows its steps in the dashboard, where somebody approves the first one."""
    names = ("Approval", "Tag image", "Deploy", "Health check")
    steps: list[dict[str, Any]] = [{"name": name, "status": "waiting"} for name in names]
    steps[0].update(status="running", actions=["approve", "reject"])
    log: list[dict[str, Any]] = [{"time": "", "msg": f"Release {input['version']} waits for approval", "step": 1}]
    ctx.register_query("pipeline_state", lambda: {"status": "running", "steps": steps, "log": log})
    answer = await ctx.wait_for_signal("step_action")
    who = answer.get("user") or "somebody"
    del steps[0]["actions"]
    if answer.get("action") != "approve":
        steps[0]["status"] = "cancelled"
        for step in steps[1:]:
            step["status"] = "skipped"
        log.append({"time": "", "msg": f"Rejected by {who}", "step": 1})
        return "rejected"
    log.append({"time": "", "msg": f"Approved by {who}", "step": 1})
    for number, step in enumerate(steps[1:], 2):
        steps[number - 2]["status"] = "done"
        step["status"] = "running"
        log.append({"time": "", "msg": f"{step['name']} begins", "step": number})
        await ctx.execute_activity(release_step, {"step": step["name"]})
    steps[-1]["status"] = "done"
    return "released"


@workflow.define
async def Payment(ctx: Context, input: dict[str, Any]) -> str:
    """Waits between the tries of an activity that does not succeed for some time."""
    return await ctx.execute_activity(charge, input, max_attempts=8, initial_interval_secs=5)


@workflow.define
async def Import(ctx: Context, input: dict[str, str]) -> None:
    """Fails: its file cannot be read."""
    await ctx.execute_activity(read_file, input, max_attempts=1)


@workflow.activity
def release_step(input: dict[str, str]) -> str:
    time.sleep(1.5)
    return f"{input['step']} done"


@workflow.activity
def charge(input: dict[str, Any]) -> str:
    raise ConnectionError(f"the card service does not answer for customer {input['customer']}")


@workflow.activity
def read_file(input: dict[str, str]) -> None:
    try:
        raise ValueError("line 17 has 3 columns instead of 4")
    except ValueError as error:
        raise RuntimeError(f"{input['file']} cannot be imported") from error


# what this client shows


class Screen:
    """One line per fact; in colour on a terminal."""

    def __init__(self) -> None:
        self._coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str = "", colour: str | None = None) -> None:
        if colour is not None and self._coloured:
            text = f"{COLOURS[colour]}{text}\x1b[0m"
        print(text, flush=True)

    def fact(self, report: int, began: float, what: str, colour: str | None = None) -> None:
        self.line(f"  report {report:<3} {time.monotonic() - began:5.1f} s  {what}", colour)


def counted(number: int) -> str:
    return "1 anomaly" if number == 1 else f"{number} anomalies"


def summary(event: Any) -> tuple[str, str | None] | None:
    """What an event of a report means to whoever watches it."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    match event.event_type:
        case "SideEffectRecorded":
            return f"is called {payload['value']}", "grey"
        case "ActivityCompleted":
            return f"scanned: {counted(len(payload['result']))}", None
        case "ChildWorkflowStarted":
            return f"  handling {payload['child_workflow_id']}", "grey"
        case "ChildWorkflowCompleted":
            return f"  {payload['result']}", "green"
    return None


async def watch(client: assay.Client, screen: Screen, number: int) -> None:
    """Start a report and show its history as it grows."""
    began, region = time.monotonic(), random.choice(REGIONS)  # noqa: S311
    handle = await client.start("NightlyReport", input={"region": region})
    screen.fact(number, began, f"started for {region} as {handle.workflow_id}", "bold")
    result, seen, ended = asyncio.create_task(handle.result()), 0, False
    try:
        while not ended:
            ended = bool((await asyncio.wait({result}, timeout=0.1))[0])
            events = await client.get_events(handle.workflow_id)
            for event in events[seen:]:
                if (fact := summary(event)) is not None:
                    screen.fact(number, began, *fact)
            seen = len(events)
    finally:
        result.cancel()
    screen.fact(number, began, f"done: {counted(result.result()['anomalies_handled'])} handled", "green")


async def begun(client: assay.Client) -> None:
    """Wait until the engine answers."""
    for _ in range(10):
        with suppress(assay.Unavailable):
            await client.list(limit=1)
            return
    raise SystemExit("the engine does not answer; its log says why")


async def furnish(client: assay.Client) -> None:
    """Start what the dashboard has to show beside reports: steps, tries, a failure, a queue without a worker."""
    await client.start("Release", input={"version": "1.4.0"}, workflow_id="release-1.4.0")
    await client.start("Payment", input={"customer": "acme", "amount": 120}, workflow_id="payment-81")
    await client.start("Import", input={"file": "stock.csv"}, workflow_id="import-stock")
    await client.start("ResizeImages", input={"folder": "summer"}, workflow_id="resize-summer", task_queue="images")
    await client.schedules.create("every-minute", "NightlyReport", "0 * * * * *", input={"region": "eu-west-1"})


async def demo(url: str, screen: Screen, reports: int | None) -> None:
    """A report every few seconds."""
    async with await assay.Client.connect(url) as client, asyncio.TaskGroup() as watching:
        await begun(client)
        await furnish(client)
        number = 0
        while reports is None or number < reports:
            number += 1
            watching.create_task(watch(client, screen, number))
            await asyncio.sleep(PAUSE)


# the other two processes


@contextmanager
def process(*arguments: str, log: Path, **variables: str) -> Iterator[None]:
    """A command of assay for the time of the block; its output is in a file."""
    command = [sys.executable, "-m", "assay.cli.main", *arguments]
    with log.open("w") as out:
        # In a session of its own, so that Ctrl-C on the terminal reaches the demo alone.
        running = subprocess.Popen(  # noqa: S603
            command, stdout=out, stderr=out, env={**os.environ, **variables}, start_new_session=True
        )
    try:
        yield
    finally:
        running.terminate()
        try:
            running.wait(12)
        except subprocess.TimeoutExpired:
            running.kill()


def free_port() -> int:
    """The usual port, or another if somebody listens there."""
    for port in (PORT, 0):
        with socket.socket() as trial, suppress(OSError):
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
            found: int = trial.getsockname()[1]
            return found
    raise OSError("no port is free")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, help="end after so many; otherwise it goes on until Ctrl-C")
    reports = parser.parse_args().reports
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    screen = Screen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-demo-")))
        url = f"http://127.0.0.1:{free_port()}"
        port = url.rpartition(":")[2]
        stack.enter_context(
            process("serve", "--port", port, "--backend", f"sqlite://{folder}/reports.db", log=folder / "engine.log")
        )
        stack.enter_context(process("run", __file__, log=folder / "worker.log", ASSAY_ENGINE_URL=url))
        screen.line("Nightly reports, one every few seconds. Ctrl-C ends it.\n", "bold")
        screen.line(f"  dashboard  {url}/workflow/", "bold")
        screen.line(f"  approve    {url}/workflow/workflows/release-1.4.0")
        screen.line(f"  API docs   {url}/api/v1/docs")
        screen.line(f"  reports    {url}/api/v1/workflows?type=NightlyReport")
        screen.line(f"  live       curl -N {url}/api/v1/events/stream")
        screen.line(f"  metrics    {url}/metrics")
        screen.line(f"  logs       {folder}\n")
        with suppress(KeyboardInterrupt):
            asyncio.run(demo(url, screen, reports))
        screen.line("\nstopping: the worker finishes what it has begun, then the engine follows", "yellow")


if __name__ == "__main__":
    main()
