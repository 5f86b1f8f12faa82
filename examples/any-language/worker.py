"""A worker in nothing but the standard library: what it takes to serve assay from any language.

It speaks the smallest form of the protocol: register, then poll for one task at a time. Workflow code here is a
generator that yields commands; on every task it is run from the beginning, and what the history already knows is handed
back to it, so that only the next unfinished step is sent. Run it beside `assay serve`:

    python examples/any-language/worker.py http://127.0.0.1:8080

and start something:

    curl -X POST http://127.0.0.1:8080/api/v1/workflows -H 'Content-Type: application/json' \\
        -d '{"workflow_type": "GreetWorkflow", "workflow_id": "hello-1", "input": {"who": "you"}}'
    curl 'http://127.0.0.1:8080/api/v1/workflows/hello-1/result?wait_secs=10'
"""

import contextlib
import http.client
import json
import random
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import quote

Command = dict[str, Any]
Code = Generator[Command, Any, Any]


AWAY = (502, 503, 504)
"""What is answered for an engine that is away for a while."""
LONGEST_PAUSE = 30


class Stopped(Exception):
    """Somebody has asked the worker to stop."""


class Engine:
    """The engine's REST API, as far as a worker needs it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") + "/api/v1"
        self.calls = 0
        self.stopping = False

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer; an engine that is away, as when it is restarted, is waited for.

        Nothing is done twice because it is sent twice: an engine knows a report that it has had.
        """
        self.calls += 1
        pause = 1
        while True:
            try:
                status, answer = self._send(method, path, body)
                if status not in AWAY:
                    return status, answer
                trouble = f"it answered {status}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                trouble = str(error) or type(error).__name__
            print(f"the engine is away ({trouble}): trying again in {pause} s", flush=True)
            self.rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  # the user names the engine
            self.url + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            content = error.read()
            return error.code, None if error.code in AWAY else json.loads(content or b"null")

    def rest(self, seconds: float) -> None:
        """Wait, but not beyond the moment when somebody wants the worker to stop."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.stopping:
                raise Stopped
            time.sleep(0.1)

    def stop(self, number: int, _: Any) -> None:
        """A signal has come: what has begun is finished. A second one ends the worker at once."""
        self.stopping = True
        signal.signal(number, signal.SIG_DFL)


# workflow code


def greet_workflow(given: Any) -> Code:
    """The smallest workflow: one activity."""
    greeting = yield activity("greet", {"who": given["who"]})
    return {"greeting": greeting["message"]}


def approve_and_deploy(given: Any) -> Code:
    """Build, wait for a human, deploy."""
    artifact = yield activity("build", {"ref": given["git_sha"]})
    approval = yield {"type": "WaitForSignal", "name": "approve"}
    deployed = yield activity("deploy", {"image": artifact["image"], "approver": approval["by"]})
    return {"url": deployed["url"], "approved_by": approval["by"]}


def nightly_report(given: Any) -> Code:
    """A report id that is issued once, a scan, and a child workflow for each anomaly."""
    report = yield {"type": "RecordSideEffect", "name": "issue_report_id", "make": new_report_id}
    scan = yield activity("scan_anomalies", {"region": given["region"], "report_id": report})
    for number, anomaly in enumerate(scan["anomalies"], 1):
        yield {
            "type": "StartChildWorkflow",
            "workflow_type": "HandleAnomaly",
            "workflow_id": f"{report}-anomaly-{number}",
            "input": {"anomaly": anomaly, "report_id": report},
        }
    return {"report_id": report, "region": given["region"], "anomalies_handled": len(scan["anomalies"])}


def handle_anomaly(given: Any) -> Code:
    """Remediate one anomaly."""
    done = yield activity("remediate", given)
    return {"fixed": done["fixed"], "anomaly": given["anomaly"]}


def new_report_id() -> str:
    """Different each time it is called, which is why it is recorded."""
    return f"rep-{int(time.time())}-{random.randint(10_000, 99_999)}"  # noqa: S311  # an id is no secret


def activity(name: str, given: Any) -> Command:
    """The command that schedules an activity."""
    return {"type": "ScheduleActivity", "name": name, "input": given, "task_queue": "default"}


WORKFLOWS: dict[str, Callable[[Any], Code]] = {
    "GreetWorkflow": greet_workflow,
    "ApproveAndDeploy": approve_and_deploy,
    "NightlyReport": nightly_report,
    "HandleAnomaly": handle_anomaly,
}

ACTIVITIES: dict[str, Callable[[Any], Any]] = {
    "greet": lambda given: {"message": f"hello, {given['who']}"},
    "build": lambda given: {"image": f"app:{given['ref']}"},
    "deploy": lambda given: {"url": f"https://example.test/{given['image']}"},
    "scan_anomalies": lambda given: {"anomalies": [{"id": "a-1"}, {"id": "a-2"}, {"id": "a-3"}]},
    "remediate": lambda given: {"fixed": True, "anomaly": given["anomaly"]},
}


# replay


class Failed(Exception):
    """A step whose failure is in the history."""


class Past:
    """What a history says about the steps of a workflow, looked up by kind and number."""

    def __init__(self, history: list[dict[str, Any]]) -> None:
        self.results: dict[tuple[str, Any], Any] = {}
        self.signals: dict[str, list[Any]] = {}
        self.awaited: set[tuple[str, int]] = set()
        self.cancelled = False
        for event in history:
            self._read(event["event_type"], event["payload"])

    def _read(self, kind: str, payload: Any) -> None:
        if kind == "ActivityCompleted":
            self.results["activity", payload["activity_seq"]] = payload["result"]
        elif kind in ("ActivityFailed", "ChildWorkflowFailed"):
            key = ("activity", payload["activity_seq"]) if "activity_seq" in payload else _child(payload)
            self.results[key] = Failed(payload["error"])
        elif kind == "SideEffectRecorded":
            self.results["effect", payload["side_effect_seq"]] = payload["value"]
        elif kind == "ChildWorkflowCompleted":
            self.results[_child(payload)] = payload["result"]
        elif kind == "SignalReceived":
            self.signals.setdefault(payload["signal"], []).append(payload["payload"])
        elif kind == "WorkflowCancelRequested":
            self.cancelled = True


def _child(payload: Any) -> tuple[str, Any]:
    return "child", payload["child_workflow_id"]


class Turn:
    """Workflow code run against its past, up to the first step that is not there."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.numbers = {"activity": 0, "effect": 0}
        self.taken: dict[str, int] = {}

    def commands(self, code: Code) -> list[Command]:
        """What the engine is to do next."""
        try:
            command = next(code)
            while True:
                known, result = self.known(command)
                if not known:
                    return [{"type": "CancelWorkflow"}] if self.past.cancelled else [self.sent(command)]
                command = code.throw(result) if isinstance(result, Failed) else code.send(result)
        except StopIteration as end:
            return [{"type": "CompleteWorkflow", "result": end.value}]
        except Exception as error:  # noqa: BLE001  # whatever the code raises is how the run fails
            return [{"type": "FailWorkflow", "error": str(error)}]

    def known(self, command: Command) -> tuple[bool, Any]:
        """Is the outcome of a command in the past, and what is it?"""
        kind = command["type"]
        if kind == "WaitForSignal":
            place = self.taken.get(command["name"], 0)
            arrived = self.past.signals.get(command["name"], [])
            self.taken[command["name"]] = place + 1
            return (True, arrived[place]) if place < len(arrived) else (False, None)
        if kind == "StartChildWorkflow":
            key: tuple[str, Any] = ("child", command["workflow_id"])
        else:
            space = "activity" if kind == "ScheduleActivity" else "effect"
            self.numbers[space] += 1
            command["seq"] = self.numbers[space]
            key = (space, command["seq"])
        return key in self.past.results, self.past.results.get(key)

    def sent(self, command: Command) -> Command:
        """A command as the engine takes it; what is recorded once is made now."""
        make = command.pop("make", None)
        return command if make is None else {**command, "value": make()}


# the loop


class Worker:
    """Asks for one task at a time and does it."""

    def __init__(self, engine: Engine, queue: str = "default") -> None:
        self.engine = engine
        self.queue = queue
        body = {
            "identity": "any-language",
            "queue": queue,
            "workflows": sorted(WORKFLOWS),
            "activities": sorted(ACTIVITIES),
        }
        _, registered = engine.call("POST", "/workers/register", body)
        self.id = registered["worker_id"]

    def step(self) -> bool:
        """Do one task; False if there was none."""
        self.engine.call("POST", "/workers/heartbeat", {"worker_id": self.id})
        poll = {"queue": self.queue, "worker_id": self.id}
        _, task = self.engine.call("POST", "/workflow-tasks/poll", poll)
        if task and "workflow_id" in task:
            self.turn(task)
            return True
        _, task = self.engine.call("POST", "/tasks/poll", poll)
        if task and "id" in task:
            self.attempt(task)
            return True
        return False

    def turn(self, task: dict[str, Any]) -> None:
        """Replay a run and send what its code asks for next."""
        code = WORKFLOWS[task["workflow_type"]](task["input"])
        commands = Turn(Past(task["history"])).commands(code)
        path = f"/workflow-tasks/{quote(task['workflow_id'], safe='')}/commands"
        self.engine.call("POST", path, {"worker_id": self.id, "commands": commands})

    def attempt(self, task: dict[str, Any]) -> None:
        """Do an activity and report on it."""
        try:
            result = ACTIVITIES[task["name"]](json.loads(task["input"] or "null"))
        except Exception as error:  # noqa: BLE001  # the engine decides what follows a failure
            self.engine.call("POST", f"/tasks/{task['id']}/fail", {"error": str(error)})
        else:
            self.engine.call("POST", f"/tasks/{task['id']}/complete", {"result": result})


def main() -> None:
    """Work until somebody says stop, with Ctrl-C or SIGTERM."""
    engine = Engine(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, engine.stop)
    with contextlib.suppress(Stopped):
        worker = Worker(engine)
        print(f"worker {worker.id} serves {', '.join(WORKFLOWS)}", flush=True)
        while not engine.stopping:
            if not worker.step():
                engine.rest(0.5)
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
