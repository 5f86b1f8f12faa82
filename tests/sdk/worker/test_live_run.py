"""The states of a run in a worker: every event is in the table for a state, or refused there without a trace."""

import itertools
from typing import Any

import pytest

from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId
from assay.sdk.worker.live_run import (
    ACCEPT,
    AHEAD,
    CLOSING,
    DROP,
    GONE,
    GRANT,
    GRANTED,
    KEEP,
    KEPT,
    OWE_NOTHING,
    OWE_TURN,
    OWING,
    RELEASE,
    RESTING,
    SEND_CLOSING,
    SEND_OUTCOMES,
    SEND_TURN,
    SENT,
    TRANSITIONS,
    UNLEASED,
    IllegalEvent,
    LiveRun,
)

TURN = (RESTING, SENT, AHEAD, OWING, CLOSING, GONE)
TURN_EVENTS = (SEND_TURN, SEND_OUTCOMES, OWE_TURN, OWE_NOTHING, SEND_CLOSING, ACCEPT, DROP)
LEASE = (UNLEASED, KEPT, GRANTED)
LEASE_EVENTS = (GRANT, KEEP, RELEASE)


def live_run(state: str = RESTING, lease: str = UNLEASED) -> LiveRun:
    """A run in a state, without a coroutine."""
    execution: Any = None
    run = LiveRun(RunKey(Namespace("main"), WorkflowId("order-1"), RunId("run-1")), execution)
    run.state, run.lease = state, lease
    return run


def test_the_table_has_these_states_and_events_and_no_others():
    assert set(TRANSITIONS) == {*TURN, *LEASE}
    for states, events in ((TURN, TURN_EVENTS), (LEASE, LEASE_EVENTS)):
        known = {(event, after) for state in states for event, after in TRANSITIONS[state].items()}
        assert known <= set(itertools.product(events, states))
        assert {event for event, _ in known} == set(events)


@pytest.mark.parametrize(("state", "event"), [*itertools.product(TURN, (*TURN_EVENTS, *LEASE_EVENTS))])
def test_a_turn_takes_the_events_of_the_table_and_refuses_all_others(state: str, event: str):
    run = live_run(state)
    if event in TRANSITIONS[state]:
        run.turn_event(event)
        assert run.state == TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalEvent, match=f"run-1 is {state} and has no event '{event}'"):
            run.turn_event(event)
        assert run.state == state
    assert run.lease == UNLEASED


@pytest.mark.parametrize(("lease", "event"), [*itertools.product(LEASE, (*LEASE_EVENTS, *TURN_EVENTS))])
def test_a_lease_takes_the_events_of_the_table_and_refuses_all_others(lease: str, event: str):
    run = live_run(lease=lease)
    if event in TRANSITIONS[lease]:
        run.lease_event(event)
        assert run.lease == TRANSITIONS[lease][event]
    else:
        with pytest.raises(IllegalEvent, match=f"run-1 is {lease} and has no event '{event}'"):
            run.lease_event(event)
        assert run.lease == lease
    assert run.state == RESTING


@pytest.mark.parametrize(("first", "states"), [(RESTING, TURN), (UNLEASED, LEASE)])
def test_every_state_is_reached(first: str, states: tuple[str, ...]):
    reached, unread = {first}, [first]
    while unread:
        following = set(TRANSITIONS[unread.pop()].values()) - reached
        reached |= following
        unread += following
    assert reached == set(states)


@pytest.mark.parametrize("state", TURN)
def test_a_run_can_be_dropped_at_any_time_and_is_gone_for_good(state: str):
    run = live_run(state)
    run.turn_event(DROP)
    run.turn_event(DROP)
    assert run.state == GONE
    assert set(TRANSITIONS[run.state].values()) == {GONE}


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((SEND_TURN, ACCEPT), RESTING),
        ((SEND_OUTCOMES, OWE_NOTHING, ACCEPT), RESTING),
        ((SEND_OUTCOMES, OWE_TURN, ACCEPT, SEND_TURN), SENT),
        ((OWE_TURN, ACCEPT, DROP), GONE),
        ((SEND_TURN, SEND_CLOSING, DROP), GONE),
        ((SEND_OUTCOMES, OWE_TURN, SEND_CLOSING), CLOSING),
    ],
)
def test_turns_go_their_ways(events: tuple[str, ...], state: str):
    run = live_run()
    for event in events:
        run.turn_event(event)
    assert run.state == state


def test_at_most_one_turn_is_unacknowledged():
    """Nothing can be sent before the answer, but for the turn that fails a run whose turn was refused."""
    for state in (SENT, OWING, CLOSING):
        assert not {SEND_TURN, SEND_OUTCOMES, OWE_TURN} & set(TRANSITIONS[state])
    assert SEND_CLOSING not in TRANSITIONS[CLOSING]


def test_only_a_grant_occupies_a_slot():
    assert [
        (lease, event) for lease in LEASE for event in TRANSITIONS[lease] if TRANSITIONS[lease][event] == GRANTED
    ] == [
        (UNLEASED, GRANT),
        (GRANTED, KEEP),
    ]


@pytest.mark.parametrize(("state", "lease"), [*itertools.product(TURN, LEASE)])
def test_a_run_is_idle_that_rests_without_a_lease(state: str, lease: str):
    run = live_run(state, lease)
    assert run.idle == (state == RESTING and lease == UNLEASED)
    run.waiting.append(("outcome", "event"))  # type: ignore[arg-type]  # nothing looks at it
    assert not run.idle
