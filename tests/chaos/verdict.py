"""Compares what was promised with what is there; every check yields a sentence for each thing that is wrong."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import assay
from assay.testing.replay import replay_history
from tests.chaos.evidence import Evidence, RunStory
from tests.chaos.plan import Program, agrees, predicted
from tests.chaos.program import workflow_id
from tests.chaos.workflows import LIMITS, app

CLOSINGS = {
    "complete": "WorkflowCompleted",
    "fail": "WorkflowFailed",
    "cancel": "WorkflowCancelled",
    "terminate": "WorkflowTerminated",
}
TERMINAL = {*CLOSINGS.values(), "WorkflowTimedOut", "WorkflowContinuedAsNew"}
OUTCOMES = {
    "ActivityCompleted": "activity_seq",
    "ActivityFailed": "activity_seq",
    "ActivityCancelled": "activity_seq",
    "TimerFired": "timer_seq",
    "StepCompleted": "step_seq",
    "StepFailed": "step_seq",
    "ChildWorkflowCompleted": "child_seq",
    "ChildWorkflowFailed": "child_seq",
    "SideEffectRecorded": "side_effect_seq",
}
"""Events that end a step, and what names the step among those of its kind."""

MICROSECOND = 1e-6


def lost(evidence: Evidence, plans: list[Program]) -> Iterator[str]:
    """What was acknowledged and is not there, or is not what it must be."""
    started = {line["id"] for line in evidence.acks if line["what"] == "start"}
    for index, program in enumerate(plans):
        workflow = workflow_id(index)
        chain = evidence.chains.get(workflow)
        if workflow not in started:
            yield f"{workflow}: its start was never acknowledged"
        elif chain is None:
            yield f"{workflow}: acknowledged and not there"
        else:
            yield from _unlike(workflow, chain[-1], program)
    yield from _lost_signals(evidence)


def _unlike(workflow: str, last: RunStory, program: Program) -> Iterator[str]:
    closing = last.events[-1]
    wanted = CLOSINGS[program["ending"]]
    if closing.event_type != wanted:
        yield f"{workflow}: {wanted} was expected, its last event is {closing.event_type}"
    elif program["ending"] == "complete":
        expected, found = [predicted(step) for step in program["steps"]], [value for value, _ in closing.payload]
        if not agrees(expected, found):
            yield f"{workflow}: {expected} was expected, its result is {found}"


def _lost_signals(evidence: Evidence) -> Iterator[str]:
    for line in evidence.acked("signal"):
        chain = evidence.chains.get(line["id"], [])
        found = [_nonces(story).count(line["nonce"]) for story in chain]
        if not any(found):
            yield f"{line['id']}: acknowledged {line['what']} is not in its history"


def _nonces(story: RunStory) -> list[str]:
    return [event.payload["payload"]["nonce"] for event in story.of("SignalReceived")]


def duplicated(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """What is there more than once, or that nobody did."""
    for story in evidence.stories:
        name = f"{story.record.id} {story.record.run_id}"
        yield from (f"{name}: {step} ended twice" for step, times in _endings(story).items() if times > 1)
        yield from (f"{name}: signal {one} twice" for one, times in Counter(_nonces(story)).items() if times > 1)
    for workflow, chain in evidence.chains.items():
        if sum(story.record.initiator == "start" for story in chain) != 1:
            yield f"{workflow}: started more than once"
    yield from _from_nowhere(evidence)
    yield from _other_values(evidence)


def _endings(story: RunStory) -> Counter[tuple[str, int]]:
    kinds = {"ActivityFailed": "ActivityCompleted", "ActivityCancelled": "ActivityCompleted"}
    kinds |= {"StepFailed": "StepCompleted", "ChildWorkflowFailed": "ChildWorkflowCompleted"}
    found = story.of(*OUTCOMES)
    return Counter(
        (kinds.get(event.event_type, event.event_type), event.payload[OUTCOMES[event.event_type]]) for event in found
    )


def _from_nowhere(evidence: Evidence) -> Iterator[str]:
    """Every recorded result is one that some execution returned."""
    executed = {line["nonce"] for line in evidence.effects}
    for story, event, nonce in _results(evidence):
        if nonce not in executed:
            yield f"{story.record.id}: {event.payload['name']} has a result that no execution returned"


def repeated(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """What ran again after its result was recorded: the execution whose result is recorded must be the last."""
    last: dict[tuple[str, Any], str] = {}
    for line in evidence.effects:
        key = ("activity", line["activity_id"]) if line["kind"] == "activity" else (line["run_id"], line["place"])
        last[key] = line["nonce"]
    latest = set(last.values())
    for story, event, nonce in _results(evidence):
        if nonce not in latest:
            yield f"{story.record.id}: {event.payload['name']} ran again after its result was recorded"


def _results(evidence: Evidence) -> Iterator[tuple[RunStory, assay.Record, str]]:
    for story in evidence.stories:
        for event in story.of("ActivityCompleted", "StepCompleted"):
            nonce = _nonce_in(event.payload["result"])
            if nonce is not None:
                yield story, event, nonce


def _nonce_in(result: Any) -> str | None:
    return result[1] if isinstance(result, list) and len(result) == 2 else None


def _other_values(evidence: Evidence) -> Iterator[str]:
    """What code was given must be what is recorded: every nonce in a result is one of some history."""
    recorded = {
        nonce for story in evidence.stories for event in story.events for nonce in _strings(_value_of(event)) if nonce
    }
    for story in evidence.stories:
        for event in story.of("WorkflowCompleted"):
            strange = [nonce for nonce in _strings(event.payload) if len(nonce) == 32 and nonce not in recorded]
            if strange:
                yield f"{story.record.id}: its code was given {strange}, which no history has"


def _value_of(event: assay.Record) -> Any:
    match event.event_type:
        case "ActivityCompleted" | "StepCompleted":
            return event.payload["result"]
        case "SideEffectRecorded":
            return event.payload["value"]
        case "SignalReceived":
            return event.payload["payload"]
    return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)


def two_outcomes(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """Runs that ended twice, and ends that somebody saw and that are no longer true."""
    for story in evidence.stories:
        closings = story.of(*TERMINAL)
        if len(closings) > 1 or (closings and closings[0] is not story.events[-1]):
            yield f"{story.record.id}: closed by {[event.event_type for event in closings]}"
        if [event.seq for event in story.events] != list(range(1, len(story.events) + 1)):
            yield f"{story.record.id}: its history has gaps"
    for line in evidence.acks:
        if line["what"] == "closed":
            seen = line["outcome"]
            chain = evidence.chains.get(line["id"])
            if chain is None or not _still(seen, chain[-1]):
                yield f"{line['id']}: somebody saw {seen}, which is no longer so"


def _still(seen: list[Any], last: RunStory) -> bool:
    closing = last.events[-1]
    if seen[0] == "COMPLETED":
        return bool(closing.event_type == "WorkflowCompleted" and closing.payload == seen[1])
    return bool(closing.event_type == seen[0])


def early(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """Timers that fired before their time."""
    for story in evidence.stories:
        armed = {event.payload["timer_seq"]: event for event in story.of("TimerScheduled")}
        for fired in story.of("TimerFired"):
            scheduled = armed[fired.payload["timer_seq"]]
            due = scheduled.timestamp + scheduled.payload["duration_secs"]
            if fired.timestamp < fired.payload["fire_at"] - MICROSECOND or fired.timestamp < due - 2 * MICROSECOND:
                yield f"{story.record.id}: timer {fired.payload['timer_seq']} fired {due - fired.timestamp:.6f} s early"


def over(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """Activities that were tried more often than allowed, or attempts that were begun twice."""
    attempts: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for line in evidence.effects:
        if line["kind"] == "activity":
            attempts[line["activity_id"], line["name"]].append(line["attempt"])
    for (number, name), tried in attempts.items():
        if len(tried) > LIMITS[name] or max(tried) > LIMITS[name] or len(set(tried)) < len(tried):
            yield f"activity {number} ({name}): attempts {tried}"


def stuck(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """Runs that are still open."""
    for story in evidence.stories:
        if story.record.completed_at is None:
            yield f"{story.record.id}: still {story.record.status} after {story.events[-1].event_type}"


def unordered(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """Signals that stand in another order than they were acknowledged in."""
    acked: defaultdict[str, list[str]] = defaultdict(list)
    for line in evidence.acked("signal"):
        acked[line["id"]].append(line["nonce"])
    for workflow, nonces in acked.items():
        for story in evidence.chains.get(workflow, []):
            found = [nonce for nonce in _nonces(story) if nonce in nonces]
            if found != [nonce for nonce in nonces if nonce in found]:
                yield f"{workflow}: signals are out of order"


def unfaithful(evidence: Evidence, _: list[Program]) -> Iterator[str]:
    """Histories that the very code that made them does not follow."""
    for story in evidence.stories:
        try:
            replay_history(story.history, app)
        except assay.NonDeterminismError as error:
            yield f"{story.record.id} {story.record.run_id}: {error}"


CHECKS: dict[str, Callable[[Evidence, list[Program]], Iterator[str]]] = {
    "lost": lost,
    "dup": duplicated,
    "repeated": repeated,
    "two_outcomes": two_outcomes,
    "early_timers": early,
    "attempts_over": over,
    "unordered": unordered,
    "unfaithful": unfaithful,
    "stuck": stuck,
}


def lateness(evidence: Evidence) -> list[float]:
    """Seconds by which each timer was late; a timer that was due while everything was down counts too."""
    return [
        fired.timestamp - fired.payload["fire_at"] for story in evidence.stories for fired in story.of("TimerFired")
    ]
