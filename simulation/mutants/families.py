"""Planted bugs between runs: children, cancels, continue-as-new, signals and the outbox (I14-I18)."""

from typing import Any

from assay.core.model import effects as fx
from assay.core.model import requests as rq
from assay.core.model.effects import Decision, OutboxMessage, Send
from assay.core.model.events import ChildWorkflowCompleted, ChildWorkflowFailed, WorkflowContinuedAsNew
from assay.core.model.ids import SECOND, Time
from assay.core.model.run import Run
from assay.core.rules import children, lifecycle, messages
from assay.core.rules.fold import EFFECTS
from assay.core.rules.moment import Moment
from assay.engine import outbox_relay
from assay.engine.commit.batch import GATHER, Batch
from assay.engine.commit.committer import Committer
from assay.engine.outbox_relay import OutboxRelay
from simulation.mutants.planting import Mutant, Patch, does_nothing

CRASHES = ("crash_after", "crash_before", "kill_engine")


def _split(continuing: bool) -> list[Patch]:
    """Runs that a decision creates are written in a second transaction."""
    take, publish = Batch.take, Committer._publish

    def take_half(self: Batch, decision: Decision) -> bool:
        closing = decision.events[-1].event if decision.events else None
        if isinstance(closing, WorkflowContinuedAsNew) == continuing and decision.events:
            vars(self).setdefault("later", []).extend(decision.others)
            decision.others = []
        return take(self, decision)

    async def write_rest(self: Committer, later: list[Decision]) -> None:
        rest = Batch()
        for decision in later:
            take(rest, decision)
        rest.seal(self._tools.clock.now())
        await self._tools.store.write(rest.changes)
        for listener in self._loss_listeners:
            listener()

    def publish_half(self: Committer, turn: Any, lost: Any) -> Any:
        again = publish(self, turn, lost)
        later = vars(turn.batch).get("later")
        if later:
            self._loop().create_task(write_rest(self, later))
        return again

    return [(Batch, "take", take_half), (Committer, "_publish", publish_half)]


def _unheard_cancel() -> list[Patch]:
    original = children.start

    def start(decision: Decision, command: Any, at: Moment, seen_seq: int, denied: Any = ()) -> None:
        before = len(decision.effects)
        original(decision, command, at, seen_seq, denied)
        kept = [e for e in decision.effects[before:] if not (isinstance(e, Send) and e.message.kind == "cancel")]
        decision.effects[before:] = kept

    return [(children, "start", start)]


def _children_first() -> list[Patch]:
    """A cancel goes to the children, and comes back to the parent by the outbox."""
    original = lifecycle.cancel_decision

    def cancel(run: Run, reason: str | None, sender: str | None, deadline: Any, at: Moment) -> Decision:
        if not run.children or sender == "itself" or run.cancel_seq:
            return original(run, reason, sender, deadline, at)
        decision = Decision.of(run, at.now)
        children.cancel_children(decision, reason)
        own = OutboxMessage(
            f"{run.run_id}/self", run.namespace, run.workflow_id, run.run_id, "cancel", reason, None, "itself"
        )
        decision.add(Send(own))
        return decision

    def carry(self: OutboxRelay, committed: Any) -> None:
        committed.messages = [message for message in committed.messages if not message.key.endswith("/self")]
        original_deliver(self, committed)

    original_deliver = OutboxRelay.deliver
    return [(lifecycle, "cancel_decision", cancel), (OutboxRelay, "deliver", carry)]


def _told_twice() -> list[Patch]:
    def child_closed(run: Run, message: OutboxMessage, at: Moment) -> Decision:
        decision = Decision.of(run, at.now)
        if isinstance(message.event, ChildWorkflowCompleted | ChildWorkflowFailed):
            decision.record(message.event)
            decision.wake()
        return decision

    async def run_twice(self: OutboxRelay) -> Time | None:
        self._min_age = 0
        again = await run_once(self)
        return None if again is None else min(again, self._clock.now() + 1_000_000)

    run_once = OutboxRelay.run_once
    return [
        (messages, "_child_closed", child_closed),
        (GATHER, fx.Acknowledge, does_nothing),  # type: ignore[list-item]  # found by the type of its effect
        (OutboxRelay, "run_once", run_twice),
    ]


def _outbox_forgotten() -> list[Patch]:
    async def run_once(self: OutboxRelay) -> Time | None:
        return self._clock.now() + 30_000_000

    return [(OutboxRelay, "run_once", run_once)]


def _signals_lost() -> list[Patch]:
    original = lifecycle.continue_as_new

    def continue_as_new(decision: Decision, command: Any, at: Moment, unread: Any) -> None:
        original(decision, command, at, ())

    return [(lifecycle, "continue_as_new", continue_as_new)]


def _close_untold() -> list[Patch]:
    return [(children, "parent_closed", does_nothing)]


def _parent_untold() -> list[Patch]:
    return [(children, "notify_parent", does_nothing)]


def _child_kept() -> list[Patch]:
    """Deliveries are made to overlap: then only the parent's list of children tells one from the next."""
    return [
        (EFFECTS, fx.DropChild, does_nothing),  # type: ignore[list-item]  # found by the type of its effect
        (outbox_relay, "LOST_MESSAGE_AGE", 0),
        (outbox_relay, "RELAY_PAUSE", SECOND // 20),
    ]


def _request_id_ignored() -> list[Patch]:
    original = lifecycle.start

    def start(run: Run | None, request: rq.StartWorkflow, at: Moment) -> Decision:
        if run is not None and request.request_id == run.start.request_id:
            request = _renamed(request)
        return original(run, request, at)

    return [(lifecycle, "start", start)]


def _renamed(request: rq.StartWorkflow) -> rq.StartWorkflow:
    from msgspec.structs import replace

    return replace(request, request_id=f"{request.request_id}'")


CANCELLED = {"cancels": 1.0, "kinds": ("child", "orphan", "sleep", "act", "all")}
BORN = {"programs": 8, "kinds": ("child",)}
CARRIED = {"again": 1.0, "kinds": ("signal", "act", "sleep")}
FAMILIES = (
    Mutant("continue-as-new in two transactions", "I18", lambda: _split(True), faults=CRASHES, world={"again": 1.0}),
    Mutant("a child starts in a second transaction", "I2, outbox", lambda: _split(False), faults=CRASHES),
    Mutant("a cancel misses a child that is being started", "I16", _unheard_cancel, world=CANCELLED),
    Mutant(
        "a cancel reaches children before their parent", "order of work", _children_first, faults=(), world=CANCELLED
    ),
    Mutant("a parent is told twice", "I17", _told_twice, faults=()),
    Mutant("the outbox is not delivered after a crash", "I17, outbox", _outbox_forgotten, faults=CRASHES, world=BORN),
    Mutant("continue-as-new loses signals", "unread signals", _signals_lost, world=CARRIED),
    Mutant("children do not hear of a close", "I16", _close_untold, faults=()),
    Mutant("a parent does not hear of a close", "I17", _parent_untold, faults=()),
    Mutant("a closed child stays open in its parent", "I2", _child_kept, faults=()),
    Mutant("a repeated start is another start", "I3, I15", _request_id_ignored, faults=("lose", "delay", "repeat")),
)
