"""The checks themselves: each must notice what it is there for, in evidence that was tampered with."""

import asyncio
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import assay
from tests.chaos import evidence as evidences
from tests.chaos.evidence import Evidence, RunStory
from tests.chaos.lives import Scenario, survive
from tests.chaos.plan import Program, programs
from tests.chaos.verdict import CHECKS

SEED, WORKFLOWS = 10, 60


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """What a run without any kill leaves behind."""
    folder: Path = tmp_path_factory.mktemp("honest")
    scenario = Scenario("sqlite", f"sqlite://{folder}/honest.db", folder, 0, WORKFLOWS, SEED)
    survive(scenario)
    return asyncio.run(evidences.gather(scenario.url, folder, 1))


@pytest.fixture(scope="module")
def plans() -> list[Program]:
    return programs(SEED, WORKFLOWS)


def found_by(evidence: Evidence, plans: list[Program]) -> set[str]:
    return {name for name, check in CHECKS.items() if list(check(evidence, plans))}


def test_an_honest_run_passes(honest: Evidence, plans: list[Program]):
    assert found_by(honest, plans) == set()


def with_event(evidence: Evidence, *kinds: str) -> Iterator[tuple[RunStory, assay.Record]]:
    return ((story, event) for story in evidence.stories for event in story.of(*kinds))


def repeat(story: RunStory, event: assay.Record) -> None:
    """Record an event once more, before the one that closes the run."""
    story.events.insert(-1, deepcopy(event))
    for seq, each in enumerate(story.events, 1):
        each["seq"] = seq


def forget_a_workflow(evidence: Evidence) -> None:
    del evidence.chains["program-0"]


def forget_a_signal(evidence: Evidence) -> None:
    line = evidence.acked("signal")[0]
    for story in evidence.chains[line["id"]]:
        story.events[:] = [
            event
            for event in story.events
            if event.event_type != "SignalReceived" or event.payload["payload"]["nonce"] != line["nonce"]
        ]


def change_a_result(evidence: Evidence) -> None:
    for story, event in with_event(evidence, "WorkflowCompleted"):
        if story.record.parent_id is None:
            event["payload"] = []


def complete_an_activity_twice(evidence: Evidence) -> None:
    repeat(*next(with_event(evidence, "ActivityCompleted")))


def fire_a_timer_twice(evidence: Evidence) -> None:
    repeat(*next(with_event(evidence, "TimerFired")))


def record_a_signal_twice(evidence: Evidence) -> None:
    repeat(*next(with_event(evidence, "SignalReceived")))


def run_again_what_is_recorded(evidence: Evidence) -> None:
    line = next(line for line in evidence.effects if line["kind"] == "step")
    evidence.effects.append({**line, "nonce": "another"})


def record_what_nobody_did(evidence: Evidence) -> None:
    _, event = next(with_event(evidence, "StepCompleted"))
    event.payload["result"][1] = "another"


def give_code_another_value(evidence: Evidence) -> None:
    for _, event in with_event(evidence, "SideEffectRecorded"):
        event["payload"]["value"] = "another"


def close_twice(evidence: Evidence) -> None:
    story, event = next(with_event(evidence, "WorkflowCompleted"))
    repeat(story, event)


def leave_a_gap(evidence: Evidence) -> None:
    evidence.stories[0].events.pop(0)


def fire_early(evidence: Evidence) -> None:
    _, event = next(with_event(evidence, "TimerFired"))
    event["timestamp"] -= 10


def try_too_often(evidence: Evidence) -> None:
    line = next(line for line in evidence.effects if line.get("name") == "gamble")
    evidence.effects.append({**line, "attempt": 2})


def begin_an_attempt_twice(evidence: Evidence) -> None:
    line = next(line for line in evidence.effects if line.get("name") == "doom")
    evidence.effects.append(line)


def swap_signals(evidence: Evidence) -> None:
    for story in evidence.stories:
        received = story.of("SignalReceived")
        if len(received) > 1:
            received[0]["payload"], received[1]["payload"] = received[1]["payload"], received[0]["payload"]
            return
    raise AssertionError("no run has two signals")


def replay_other_code(evidence: Evidence) -> None:
    for workflow, chain in evidence.chains.items():
        evidence.chains[workflow] = [
            replace(story, history=msgspec.structs.replace(story.history, workflow_type="Errand")) for story in chain
        ]


def leave_a_run_open(evidence: Evidence) -> None:
    evidence.stories[0].record["completed_at"] = None


LIES = [
    (forget_a_workflow, "lost"),
    (forget_a_signal, "lost"),
    (change_a_result, "lost"),
    (complete_an_activity_twice, "dup"),
    (fire_a_timer_twice, "dup"),
    (record_a_signal_twice, "dup"),
    (run_again_what_is_recorded, "repeated"),
    (record_what_nobody_did, "dup"),
    (give_code_another_value, "dup"),
    (change_a_result, "two_outcomes"),
    (close_twice, "two_outcomes"),
    (leave_a_gap, "two_outcomes"),
    (fire_early, "early_timers"),
    (try_too_often, "attempts_over"),
    (begin_an_attempt_twice, "attempts_over"),
    (swap_signals, "unordered"),
    (replay_other_code, "unfaithful"),
    (leave_a_run_open, "stuck"),
]


@pytest.mark.parametrize(("lie", "check"), LIES)
def test_a_lie_is_noticed(honest: Evidence, plans: list[Program], lie: Callable[[Evidence], None], check: str):
    tampered = deepcopy(honest)
    lie(tampered)
    assert check in found_by(tampered, plans)
