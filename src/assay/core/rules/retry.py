"""Rules of retrying a closed run: a new run of the same id continues with a copy of the history up to the cut.

Work that was open at the cut is open again: activities wait for a worker, timers are armed. Children that ended because
their parent closed are reopened with the parent, at all levels. Children that ended by themselves are recorded with
their outcome. Open children without a cancel request are adopted. The closed runs do not change, except for the id of
the next run.
"""

from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from assay.core.model import requests as rq
from assay.core.model.addresses import parse_address
from assay.core.model.effects import (
    ArmTimer,
    CloseActivity,
    Decision,
    PutActivity,
    PutAttributes,
    PutChild,
    PutPeer,
    PutVersion,
    Send,
    SetNext,
)
from assay.core.model.errors import Invalid, Kind, Refused
from assay.core.model.events import (
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
    OptionsSet,
    ParentLink,
    PeerExited,
    Recorded,
    Reopening,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    VersionRecorded,
    WatchAdded,
    WatchRemoved,
    WorkflowCancelRequested,
    WorkflowStarted,
    WorkflowTerminated,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, RunId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.options import check_text
from assay.core.model.payload import NULL
from assay.core.model.peers import LINK, WATCHES, Peer
from assay.core.model.policies import ParentClose
from assay.core.model.replies import Reopened
from assay.core.model.run import CANCELLED, COMPLETED, FAILED, Activity, Child, ChildKey, Run, Task, child_key
from assay.core.rules import activities, attributes, children, lifecycle, new_runs, watches
from assay.core.rules.moment import Moment, Unprepared
from assay.core.rules.retry_cut import (
    already_continued,
    carried_signals,
    cut_by,
    cut_of,
    is_cancelled_with,
    open_children,
    outcomes_of_sends,
    refusal_of,
    replay_until,
    started_children,
)

REOPENED = "reopen"
"""The initiator of a run that begins with a copied history."""


def retry(run: Run, request: rq.RetryFailed, at: Moment) -> Decision:
    """Reopen the run, and the children that ended because of its end; raise `Refused` if this is impossible."""
    check_requester(request.requested_by, request.reason)
    _check(run, request, at)
    history = _history_of(run, request)
    cut = cut_of(run.status, history, request.from_seq)
    copies = _copies(_Part(run, history, cut, at.ids.run_id()), request, at)
    decision = copies[0].decision
    for copy in copies:
        if copy is not copies[0]:
            decision.others.append(copy.decision)
        decision.others.append(copy.superseded())
    later = sum(isinstance(recorded.event, ActivityScheduled) for recorded in history[cut:])
    decision.reply = Reopened(decision.run.key, copies[0].tried_again(), later, copies[0].dropped())
    return decision


def check_requester(requested_by: str | None, reason: str | None) -> None:
    """Raise `Invalid` unless a retry request has a requester and a reason."""
    for name, text in (("requested_by", requested_by), ("reason", reason)):
        if not (check_text(text, name) or "").strip():
            raise Invalid("requested_by and reason are required", field=name)


def _check(run: Run, request: rq.RetryFailed, at: Moment) -> None:
    if request.run_id is None and not run.closed and run.start.reopening is not None:
        # The second of two simultaneous requests finds the run that the first has opened.
        raise Refused(f"workflow {run.workflow_id} was retried already and is open", code="already_continued")
    refusal = refusal_of(run)
    if refusal is None and at.current.get((run.namespace, run.workflow_id), run).number != run.number:
        refusal = already_continued(run)
    if refusal is not None:
        raise refusal


def _history_of(run: Run, request: rq.RetryFailed) -> Sequence[Recorded]:
    """Return the whole history of a run, read before this decision."""
    history = request.histories.get(run.run_id, ())
    if len(history) != run.last_seq:
        raise Unprepared(run.run_id) if request.complete else _too_many()
    return history


def _too_many() -> Refused:
    message = f"more than {LIMITS.reopened_children} children would be reopened; nothing was changed"
    return Refused(message, code="too_many_children")


class _Part(msgspec.Struct, frozen=True):
    """A run to reopen: its history, the cut, the new run's id and, for a child, its new parent."""

    run: Run
    history: Sequence[Recorded]
    cut: int
    run_id: RunId
    parent: ParentLink | None = None


def _copies(root: _Part, request: rq.RetryFailed, at: Moment) -> "list[_Copy]":
    """Return the copy of a run, followed by the copies of all children that are reopened with the run."""
    waiting = deque([root])
    made: list[_Copy] = []
    while waiting:
        copy = _Copy(waiting.popleft(), request, at)
        made.append(copy)
        waiting.extend(copy.reopened)
        if len(made) + len(waiting) > LIMITS.reopened_children + 1:
            raise _too_many()
        copy.fill()
    return made


class _Copy:
    """A new run under construction: its events, and the rows that correspond to them."""

    def __init__(self, part: _Part, request: rq.RetryFailed, at: Moment) -> None:
        self._part = part
        self._old = part.run
        self._at = at
        self._request = request
        self._prefix = part.history[: part.cut]
        self._waiting = open_children(self._prefix)
        self._address = children.address(part.run)
        cancels = [recorded.seq for recorded in self._prefix if isinstance(recorded.event, WorkflowCancelRequested)]
        self._cancel_seq = max(cancels, default=0)
        scheduled = (recorded.event for recorded in self._prefix)
        self._numbers = {event.activity_seq: at.ids.number() for event in scheduled if type(event) is ActivityScheduled}
        self._by_seq: dict[int, Activity] = {}
        self._cancelled: set[int] = set()
        self._timers: dict[int, float] = {}
        self._watches: dict[int, WatchAdded] = {}
        self._options: OptionsSet | None = None
        self.reopened: list[_Part] = []
        self._taken: dict[ChildKey, Child] = {}
        self._outcomes: list[Event] = []
        self._adopted: dict[Adopted, None] = {}
        self._take_children()
        self.decision = Decision.of(self._fresh(request), at.now)

    @property
    def _retried_seq(self) -> int | None:
        """Return the seq of the retried activity: its failure is the first event after the cut."""
        event = self._part.history[self._part.cut].event if self._part.cut < len(self._part.history) else None
        return event.activity_seq if isinstance(event, ActivityFailed) else None

    def _fresh(self, request: rq.RetryFailed) -> Run:
        old, now = self._old, self._at.now
        seq = self._retried_seq
        deadline = old.start.execution_deadline
        start = replace(
            old.start,
            initiator=REOPENED,
            previous_run_id=old.run_id,
            parent=self._part.parent,
            first_task_at=None,
            execution_deadline=deadline if deadline is not None and deadline > now else None,
            reopening=Reopening(
                request.requested_by,
                request.reason,
                seq or 0,
                tuple(self._adopted),
                _origin(old),
                0 if seq is None else self._numbers.get(seq, 0),
                replay_until(self._prefix),
            ),
        )
        first = self._prefix[0].event if self._prefix else None
        input = first.input if isinstance(first, WorkflowStarted) else NULL
        return new_runs.empty_run(
            old.namespace, old.workflow_id, self._part.run_id, old.number + 1, start, input, self._at
        )

    def fill(self) -> None:
        """Record the events before the cut again, and the signals after the cut."""
        decision = self.decision
        for recorded in self._prefix:
            decision.record(self._copied(recorded.event), recorded.time)
        for recorded in carried_signals(self._part.history, self._part.cut):
            decision.record(recorded.event, recorded.time)
        for outcome in outcomes_of_sends(self._part.history, self._part.cut):
            decision.record(outcome)
        for seq, activity in self._by_seq.items():
            if seq in self._cancelled:
                activities.withdraw(decision, activity)
            else:
                decision.add(PutActivity(activity))
        for seq, fire_at in self._timers.items():
            decision.add(ArmTimer(seq, round(fire_at * SECOND)))
        self._watch_again()
        for child in self._taken.values():
            decision.add(PutChild(child))
        for outcome in self._outcomes:
            decision.record(outcome)
        # The prefix does not show whether the code has handled its last events, so a workflow task is due.
        decision.task = Task(since=self._at.now, epoch=1)

    def _watch_again(self) -> None:
        """Set up the options and the watches that are open at the cut: a target that has closed meanwhile fires."""
        decision = self.decision
        if self._options is not None:
            options = self._options
            watches.put_options(decision, trap_links=options.trap_links, trap_cancel=options.trap_cancel)
        spawned = {children.address_of(decision.run.namespace, child.workflow_id) for child in self._taken.values()}
        for event in self._watches.values():
            own = Peer(WATCHES[event.mode], str(event.watch_id), event.watch_id, event.pid)
            if event.pid not in spawned and parse_address(event.pid) is not None:
                decision.add(PutPeer(own))
                decision.add(Send(watches.watch_message(decision.run, own)))
            if event.mode == LINK:
                watches.link_back(decision, event.pid)

    def superseded(self) -> Decision:
        """Return the decision about the old run: set its next run, and close the old run if it is open."""
        decision = Decision.of(self._old, self._at.now)
        if self._old.closed:
            decision.add(SetNext(self._part.run_id))
        else:
            # The parent's message that ends the child may be in the outbox: closed now, the child ignores the message.
            parent = self._old.start.parent
            space = None if parent is None else parent.namespace or self._old.namespace
            by = None if parent is None or space is None else children.address_of(space, parent.workflow_id)
            lifecycle.close(decision, WorkflowTerminated("parent closed", by, self._part.run_id), self._at)
        return decision

    def tried_again(self) -> Activity | None:
        """Return the activity whose failure was cut off, unless the old run had cancelled the activity."""
        seq = self._retried_seq
        return None if seq is None or seq in self._cancelled else self._by_seq.get(seq)

    def dropped(self) -> int:
        """Return the number of events after the cut that are not in the copy."""
        later = self._part.history[self._part.cut :]
        kept = sum(1 for _ in carried_signals(self._part.history, self._part.cut))
        ends = {_end(event) for event in self._outcomes}
        return len(later) - kept - sum(_end(recorded.event) in ends for recorded in later)

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
            case WorkflowCancelRequested():
                open_ones = self._by_seq.values()
                self._cancelled.update(one.seq for one in open_ones if not one.options.survives_cancel)
            case ChildWorkflowStarted():
                return self._child_started(event)
            case WatchAdded():
                self._watches[event.watch_id] = event
            case WatchRemoved():
                self._watches.pop(event.watch_id, None)
            case PeerExited():
                self._watches.pop(event.watch_id, None)
            case OptionsSet():
                self._options = event
            case TimerScheduled():
                self._timers[event.timer_seq] = event.fire_at
            case TimerFired() | TimerCancelled():
                self._timers.pop(event.timer_seq, None)
            case AttributesUpserted():
                search, memo = attributes.attributes(self.decision)
                search = attributes.merge(search, event.search, "search_attributes")
                self.decision.add(PutAttributes(search, attributes.merge(memo, event.memo, "memo")))
            case VersionRecorded():
                self.decision.add(PutVersion(event.change_id, event.version))
        return event

    def _started(self, event: WorkflowStarted) -> Event:
        return replace(event, start=self.decision.run.start)

    def _child_started(self, event: ChildWorkflowStarted) -> Event:
        """Replace the run id in the start event of an open child by the child's new run."""
        child = self._taken.get(child_key(event.child_seq, event.child_workflow_id))
        if child is None or child.adopted_seq is not None:
            return event
        return replace(event, run_id=child.run_id)

    def _scheduled(self, event: ActivityScheduled) -> Event:
        """Schedule an activity of the copy, with a new id: ids are unique across runs."""
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

    # children

    def _take_children(self) -> None:
        """Decide about each child started before the cut, and note the children started after the cut."""
        before = () if self._old.start.reopening is None else self._old.start.reopening.adopted
        self._adopted = dict.fromkeys(before)
        for recorded in self._waiting.values():
            started = recorded.event
            if isinstance(started, ChildWorkflowStarted):
                self._take_child(recorded.seq, started)
        for later in started_children(self._part.history[self._part.cut :]):
            child = self._own(later)
            if child is not None and _is_of(child, later):
                self._adopted[_adoption(child)] = None

    def _own(self, started: ChildWorkflowStarted) -> Run | None:
        """Return the newest run of a child's id, if this run or an earlier copy of it is the parent."""
        name = WorkflowId(started.child_workflow_id)
        child = self._at.current.get((started.namespace or self._old.namespace, name))
        if child is None or child.start.parent is None:
            return None
        adopted = () if self._old.start.reopening is None else self._old.start.reopening.adopted
        family = {self._old.run_id, *(one.run_id for one in adopted if one.workflow_id == name)}
        return child if child.start.parent.run_id in family else None

    def _take_child(self, seq: int, started: ChildWorkflowStarted) -> None:
        name, key = WorkflowId(started.child_workflow_id), child_key(started.child_seq, started.child_workflow_id)
        child = self._own(started)
        if child is None or child.start.parent is None or not _is_of(child, started):
            self._outcomes.append(self._recorded_end(started) or _unknown_end(started))
            return
        link = child.start.parent
        cancelled = self._was_cancelled_before(child, link, seq)
        if not child.closed and (cancelled or link.close_policy is ParentClose.ABANDON):
            self._adopted[_adoption(child)] = None
            sent = cancelled or child.cancel_seq > 0
            known = Child(
                name, child.run_id, started.child_seq, link.close_policy, sent, link.child_seq, started.namespace
            )
            self._taken[key] = known
            return
        cut = None if cancelled else self._cut_of_child(child)
        if cut is None:
            closing = self._closing(child)
            mine = replace(link, child_seq=started.child_seq)
            self._outcomes.append(children.outcome(child, mine, closing))
            return
        run_id = self._at.ids.run_id()
        parent = replace(link, workflow_id=self._old.workflow_id, run_id=self._part.run_id, child_seq=started.child_seq)
        self.reopened.append(_Part(child, _history_of(child, self._request), cut, run_id, parent))
        self._taken[key] = Child(name, run_id, started.child_seq, link.close_policy, namespace=started.namespace)

    def _was_cancelled_before(self, child: Run, link: ParentLink, seq: int) -> bool:
        """Return whether the child was cancelled because of a cancel request that is also in the copy."""
        if not self._cancel_seq or link.close_policy is ParentClose.ABANDON:
            return False
        if seq < self._cancel_seq:
            return True
        # Started after the request, by code that had not received it. With the policy `request_cancel` the end of the
        # parent, which is not in the copy, may have cancelled the child instead: only the reason tells them apart.
        return child.cancel_seq > 0 and (
            link.close_policy is ParentClose.TERMINATE
            or is_cancelled_with(self._address, _history_of(child, self._request))
        )

    def _cut_of_child(self, child: Run) -> int | None:
        if child.closed and child.status not in (FAILED, CANCELLED):
            return None
        if child.closed and len(self._request.histories.get(child.run_id, ())) == 1 < child.last_seq:
            return None  # only the closing event was read, because the child ended by itself
        return cut_by(self._address, _history_of(child, self._request))

    def _closing(self, child: Run) -> Event:
        history = self._request.histories.get(child.run_id, ())
        if not history or history[-1].seq != child.last_seq:
            raise Unprepared(child.run_id) if self._request.complete else _too_many()
        return history[-1].event

    def _recorded_end(self, started: ChildWorkflowStarted) -> Event | None:
        """Return the end of a child from the events after the cut, if the child's id was used again since."""
        for recorded in self._part.history[self._part.cut :]:
            event = recorded.event
            if _end(event) is not None and _end(event) == (started.child_workflow_id, started.child_seq):
                return event
        return None


def _end(event: Event) -> tuple[str, int] | None:
    if isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
        return event.child_workflow_id, event.child_seq
    return None


def _is_of(child: Run, started: ChildWorkflowStarted) -> bool:
    """Return whether this event started or adopted the child."""
    link = child.start.parent
    return started.run_id == child.run_id or (link is not None and link.child_seq == started.child_seq)


def _adoption(child: Run) -> Adopted:
    link = child.start.parent
    return Adopted(child.run_id if link is None else link.run_id, child.workflow_id)


def _unknown_end(started: ChildWorkflowStarted) -> Event:
    message = "the child has ended, and its id belongs to another run now"
    failure = FailureInfo(kind=Kind.NOT_FOUND, message=message, details=NULL, retryable=False)
    name = started.child_workflow_id
    return ChildWorkflowFailed(name, message, failure, "terminated", started.run_id, started.child_seq)


def _origin(old: Run) -> RunId:
    """Return the run that had this history first, before any copy."""
    reopening = old.start.reopening
    return old.run_id if reopening is None or reopening.origin is None else reopening.origin
