"""Cases of `waiting.json`: a run, facts and a time, and the explanation as the wire shows it. Times are seconds.

The dashboard has the same sentences in TypeScript and is tested with the same file.
"""

import json
from pathlib import Path
from typing import Any

from assay.core.model.events import ActivityOptions, StartData
from assay.core.model.explanation import ActivityCounts, ChildFact, Facts, QueueFacts, StepFact
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL
from assay.core.model.policies import RetryPolicy
from assay.core.model.run import Activity, Run, Stuck, Task
from assay.core.model.waits import AwaitedSignal, CancelRequest, ReportedWait, Waits

CORPUS = Path(__file__).with_name("waiting.json")
TIMES = {"since", "until", "next_try_at", "not_before", "leased_at", "last_seen", "created_at", "queued_at"}


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(CORPUS.read_text(encoding="utf-8"))
    return found


def micro(seconds: float | None) -> Time | None:
    return None if seconds is None else round(seconds * SECOND)


def timed(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: micro(value) if name in TIMES else value for name, value in fields.items()}


def run_of(given: dict[str, Any], now: float) -> Run:
    failure = given.get("last_failure")
    start = StartData(
        workflow_type=given.get("workflow_type", "Order"),
        task_queue=given.get("task_queue", "default"),
        first_run_id=RunId("run-1"),
        initiator=given.get("initiator", "start"),
        attempt=given.get("attempt", 1),
        cron_schedule=given.get("cron_schedule"),
        last_failure=None if failure is None else FailureInfo("UNKNOWN", failure),
    )
    task = timed(given.get("task", {}))
    if task.get("stuck"):
        task["stuck"] = Stuck(**timed(task["stuck"]))
    created = micro(now - 600) or 0
    run = Run(Namespace("main"), WorkflowId("order-81"), RunId("run-1"), 1, start, created, updated_at=created)
    run.status = given.get("status", "RUNNING")
    run.closed_at, run.task = micro(given.get("closed_at")), Task(**task)
    run.cancel_deadline = micro(given.get("cancel_deadline"))
    run.last_time = micro(given.get("last_time", now)) or 0
    run.activities = {activity.seq: activity for activity in map(activity_of, given.get("activities", ()))}
    run.timers = {int(seq): micro(due) or 0 for seq, due in given.get("timers", {}).items()}
    run.waits = Waits(
        tuple(AwaitedSignal(**timed(signal)) for signal in given.get("signals", ())),
        CancelRequest(**timed(given["cancel"])) if "cancel" in given else None,
        tuple(
            ReportedWait(**{**timed(one), "topics": tuple(one.get("topics", ()))}) for one in given.get("reported", ())
        ),
    )
    return run


def reported_of(given: dict[str, Any]) -> ReportedWait:
    return ReportedWait(**{**timed(given), "topics": tuple(given.get("topics", ()))})


def activity_of(given: dict[str, Any]) -> Activity:
    fields = timed({**given})
    retry = RetryPolicy(max_attempts=fields.pop("max_attempts", 3))
    error = fields.pop("error", None)
    for name in ("scheduled_at", "started_at", "heartbeat_at", "cancel_requested_at"):
        fields[name] = micro(fields.get(name))
    if fields.get("worker") is not None:
        fields["worker"] = WorkerId(fields["worker"])
    return Activity(
        input=NULL,
        options=ActivityOptions(retry=retry),
        attempt_id=1,
        last_failure=None if error is None else FailureInfo("UNKNOWN", error),
        **fields,
    )


def facts_of(given: dict[str, Any]) -> Facts:
    step, counts = given.get("step"), given.get("activities")
    return Facts(
        {name: queue_of(queue) for name, queue in given.get("queues", {}).items()},
        given.get("identities", {}),
        [ChildFact(**timed(child)) for child in given.get("children", ())],
        given.get("open_children", 0),
        given.get("total_children", 0),
        None if step is None else StepFact(**timed(step)),
        None if counts is None else ActivityCounts(**counts),
    )


def queue_of(given: dict[str, Any]) -> QueueFacts:
    fields = timed(given)
    for name in ("workflows", "activities"):
        fields[name] = frozenset(fields.get(name, ()))
    return QueueFacts(**fields)
