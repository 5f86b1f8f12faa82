"""Rules of retrying a failed run: it goes on from before its last failed activity, as a new run of its id (R20).

The new run begins with a copy of the history up to that failure. What was open there is open again: activities wait
for a worker, timers are armed, children are its own; those that have ended since are recorded with their outcome. The
failed run stays as it was, but for the name of its successor.
"""

from msgspec.structs import replace

from assay.core import requests as rq
from assay.core.effects import (
    ArmTimer,
    CloseActivity,
    Decision,
    PutActivity,
    PutAttributes,
    PutChild,
    SetNext,
)
from assay.core.errors import Kind, Refused
from assay.core.events import (
    DEFAULT_OPTIONS,
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    Adopted,
    AttributesUpserted,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    Event,
    ParentLink,
    Recorded,
    Reopening,
    StartData,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    WorkflowStarted,
)
from assay.core.failure import FailureInfo
from assay.core.ids import SECOND, RunId, WorkflowId
from assay.core.moment import Moment
from assay.core.options import check_text
from assay.core.payload import NULL
from assay.core.policies import ParentClose
from assay.core.replies import Reopened
from assay.core.rules import activities, attributes, children
from assay.core.run import CANCELLED, COMPLETED, FAILED, PENDING, Activity, Child, Run, Task

REOPENED = "reopen"
"""The initiator of a run that begins with another's history."""


def retry(run: Run, request: rq.RetryFailed, at: Moment) -> Decision:
    """Open the run again, or say why that cannot be."""
    check_text(request.requested_by, "requested_by")
    check_text(request.reason, "reason")
    _check(run, at)
    cut = last_failure(request.history)
    if cut is None:
        raise Refused(f"workflow {run.workflow_id} has no failed activity to retry", code="no_failed_activity")
    failed = request.history[cut].event
    seq = failed.activity_seq if isinstance(failed, ActivityFailed) else 0
    decision = _Copy(run, request, at, cut, seq).made()
    ended = Decision.of(run, at.now)
    ended.add(SetNext(decision.run.run_id))
    decision.others.append(ended)
    later = sum(isinstance(recorded.event, ActivityScheduled) for recorded in request.history[cut:])
    decision.reply = Reopened(decision.run.key, *_tried_again(decision, seq), later)
    return decision


def _tried_again(decision: Decision, seq: int) -> tuple[Activity, str]:
    """The activity as the decision leaves it, and its status."""
    put = next(
        effect
        for effect in reversed(decision.effects)
        if isinstance(effect, PutActivity | CloseActivity) and effect.activity.seq == seq
    )
    return put.activity, put.status if isinstance(put, CloseActivity) else PENDING


def _check(run: Run, at: Moment) -> None:
    name = run.workflow_id
    if run.status != FAILED:
        message = f"workflow {name} is {run.status}; only FAILED workflows can retry an activity"
        raise Refused(message, code="not_failed")
    if run.start.parent is not None:
        raise Refused(f"workflow {name} is a child workflow; its parent decides what follows", code="is_child")
    if run.next_run_id is not None or at.current.get(name, run).number != run.number:
        raise Refused(f"workflow {name} has gone on in another run already", code="already_continued")


def last_failure(history: tuple[Recorded, ...]) -> int | None:
    """The place of the final `ActivityFailed` in a history."""
    places = (place for place in reversed(range(len(history))) if isinstance(history[place].event, ActivityFailed))
    return next(places, None)


def open_children(history: tuple[Recorded, ...]) -> dict[WorkflowId, ChildWorkflowStarted]:
    """The children that a history has started and not seen end."""
    found: dict[WorkflowId, ChildWorkflowStarted] = {}
    for recorded in history:
        event = recorded.event
        if isinstance(event, ChildWorkflowStarted):
            found[WorkflowId(event.child_workflow_id)] = event
        elif isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
            found.pop(WorkflowId(event.child_workflow_id), None)
    return found


class _Copy:
    """A new run in the making: the events, and beside them the rows that they stand for."""

    def __init__(self, run: Run, request: rq.RetryFailed, at: Moment, cut: int, seq: int) -> None:
        self._old = run
        self._at = at
        self._prefix = request.history[:cut]
        self._endings = dict(request.endings)
        self._waiting = open_children(self._prefix)
        scheduled = (recorded.event for recorded in self._prefix)
        self._numbers = {event.activity_seq: at.ids.number() for event in scheduled if type(event) is ActivityScheduled}
        self._by_seq: dict[int, Activity] = {}
        self._cancelled: set[int] = set()
        self._timers: dict[int, float] = {}
        self.decision = Decision.of(self._fresh(request, seq), at.now)

    def _fresh(self, request: rq.RetryFailed, seq: int) -> Run:
        old, now = self._old, self._at.now
        adopted = tuple(
            Adopted(self._parent_of(child), child.workflow_id) for name in self._waiting if (child := self._open(name))
        )
        deadline = old.start.execution_deadline
        start = replace(
            old.start,
            initiator=REOPENED,
            previous_run_id=old.run_id,
            first_task_at=None,
            execution_deadline=deadline if deadline is not None and deadline > now else None,
            reopening=Reopening(
                request.requested_by, request.reason, seq, adopted, _origin(old), self._numbers.get(seq, 0)
            ),
        )
        fresh = Run(old.namespace, old.workflow_id, self._at.ids.run_id(), old.number + 1, start, now)
        fresh.updated_at = now
        fresh.memo, fresh.search = start.memo, start.search_attributes
        fresh.open_steps = set()
        if start.run_timeout is not None:
            fresh.run_deadline = now + start.run_timeout
        return fresh

    def made(self) -> Decision:
        """Everything that the prefix says, once more."""
        for recorded in self._prefix:
            self.decision.record(self._copied(recorded.event), recorded.time)
        for seq, activity in self._by_seq.items():
            if seq in self._cancelled:
                activities.withdraw(self.decision, activity)
            else:
                self.decision.add(PutActivity(activity))
        for seq, fire_at in self._timers.items():
            self.decision.add(ArmTimer(seq, round(fire_at * SECOND)))
        for name, started in self._waiting.items():
            self._take_child(name, started)
        # whether the last events of the prefix were answered cannot be told from it: the code looks once more
        self.decision.task = Task(since=self._at.now, epoch=1)
        return self.decision

    def _copied(self, event: Event) -> Event:
        match event:
            case WorkflowStarted():
                return self._started(event)
            case ActivityScheduled():
                return self._scheduled(event)
            case ActivityCompleted() | ActivityFailed() | ActivityCancelled():
                return self._ended(event)
            case ActivityCancelRequested():
                self._cancelled.add(event.activity_seq)
            case TimerScheduled():
                self._timers[event.timer_seq] = event.fire_at
            case TimerFired() | TimerCancelled():
                self._timers.pop(event.timer_seq, None)
            case AttributesUpserted():
                search, memo = attributes.attributes(self.decision)
                search = attributes.merge(search, event.search, "search_attributes")
                self.decision.add(PutAttributes(search, attributes.merge(memo, event.memo, "memo")))
        return event

    def _started(self, event: WorkflowStarted) -> Event:
        start: StartData = self.decision.run.start
        if start.retry_policy is not None or start.cron_schedule is not None:
            self.decision.run.input = event.input
        return replace(event, start=start)

    def _scheduled(self, event: ActivityScheduled) -> Event:
        """Activities have ids of their own in every run (R35)."""
        number, now = self._numbers[event.activity_seq], self._at.now
        self._by_seq[event.activity_seq] = Activity(
            seq=event.activity_seq,
            id=number,
            name=event.name,
            queue=event.task_queue,
            input=event.input,
            options=event.options or DEFAULT_OPTIONS,
            scheduled_at=now,
            queued_at=now,
            attempt_id=number + 1,
        )
        return replace(event, activity_id=number)

    def _ended(self, event: ActivityCompleted | ActivityFailed | ActivityCancelled) -> Event:
        activity = self._by_seq.pop(event.activity_seq, None)
        if activity is None:
            return event
        self.decision.add(PutActivity(activity))
        match event:
            case ActivityCompleted():
                self.decision.add(CloseActivity(replace(activity, attempt=1), COMPLETED, event.result))
            case ActivityFailed():
                done = replace(activity, attempt=event.final_attempt)
                self.decision.add(CloseActivity(done, FAILED, error=event.error))
            case ActivityCancelled():
                self.decision.add(CloseActivity(activity, CANCELLED))
        return replace(event, activity_id=activity.id)

    def _own(self, name: WorkflowId) -> Run | None:
        """The newest run of a child's id, if it is still this family's child."""
        child = self._at.current.get(name)
        if child is None or child.start.parent is None:
            return None
        adopted = () if self._old.start.reopening is None else self._old.start.reopening.adopted
        family = {self._old.run_id, *(one.run_id for one in adopted if one.workflow_id == name)}
        return child if child.start.parent.run_id in family else None

    def _open(self, name: WorkflowId) -> Run | None:
        child = self._own(name)
        return None if child is None or child.closed else child

    def _parent_of(self, child: Run) -> RunId:
        return child.start.parent.run_id if child.start.parent is not None else self._old.run_id

    def _take_child(self, name: WorkflowId, started: ChildWorkflowStarted) -> None:
        child = self._own(name)
        if child is not None and not child.closed:
            parent = child.start.parent
            policy = ParentClose.TERMINATE if parent is None else parent.close_policy
            known = Child(name, child.run_id, started.child_seq, policy, cancel_sent=child.cancel_seq > 0)
            self.decision.add(PutChild(known))
            return
        self.decision.record(self._outcome(name, started, child))

    def _outcome(self, name: WorkflowId, started: ChildWorkflowStarted, child: Run | None) -> Event:
        ending = self._endings.get(name)
        if child is not None and child.tail:
            ending = child.tail[-1].event
        if child is not None and ending is not None and ending.closes is not None:
            link = child.start.parent or ParentLink(self._old.workflow_id, self._old.run_id, started.child_seq)
            return children.outcome(child, link, ending)
        message = "the child has ended, and its id belongs to another run now"
        failure = FailureInfo(kind=Kind.NOT_FOUND, message=message, details=NULL, retryable=False)
        return ChildWorkflowFailed(name, message, failure, "terminated", started.run_id, started.child_seq)


def _origin(old: Run) -> RunId:
    """The run that had this history first, however often it was copied."""
    reopening = old.start.reopening
    return old.run_id if reopening is None or reopening.origin is None else reopening.origin
