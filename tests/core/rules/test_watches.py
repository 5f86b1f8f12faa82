"""Watches as given, when, then: decided on the watched run, fired once at the end of its chain."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model.errors import Kind
from assay.core.model.events import (
    OptionsSet,
    PeerExited,
    WatchAdded,
    WatchRemoved,
    WorkflowCancelRequested,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, WorkflowId
from assay.core.model.peers import LINK, MONITOR
from assay.core.model.requests import Deliver
from tests.core.support import (
    CHILD,
    ONE,
    ORDER,
    asks_to_cancel,
    bore,
    claimed,
    delivered,
    events,
    given,
    later,
    refused,
    sent,
    signals,
    started,
    terminated,
    turned,
)

PEER = WorkflowId("peer-1")
HERE, THERE = f"wf://main/{ORDER}", f"wf://main/{PEER}"


def watching(mode=MONITOR, *more, **options):
    """A run that watches another, which has heard of it."""
    return given(started(), started(PEER), does(), does(of=PEER), watches(mode, **options), delivered(), *more)


def does(*commands, of=ORDER):
    """The code of a run does a turn, for which a signal is the occasion."""

    def make(world):
        if world.newest[of].task.since is None:
            world.take(signals("go", of=of))
        return turned(*commands, of=of)(world)

    return make


def watches(mode=MONITOR, number=1, target=THERE, of=ORDER, **options):
    return does(cmd.Watch(number, target, mode, **options), of=of)


def exits(world, of=ORDER):
    return [event for event in world.history(of) if isinstance(event, PeerExited)]


def test_a_watch_leaves_no_event_in_its_target():
    world = given(started(), started(PEER), does(of=PEER))
    before = len(world.history(PEER)), world.newest[PEER].task
    assert events(world.when(watches())) == [WatchAdded(1, THERE, MONITOR)]
    world.take(watches())
    world.take(delivered())
    assert (len(world.history(PEER)), world.newest[PEER].task) == before
    assert {(peer.kind, peer.number) for peer in world.newest[PEER].peers.values()} == {("monitored_by", 1)}


@pytest.mark.parametrize("mode", [MONITOR, LINK])
def test_a_normal_end_is_recorded_once(mode):
    world = watching(mode, does(cmd.CompleteWorkflow(ONE), of=PEER), delivered())
    assert exits(world) == [PeerExited(1, mode, THERE, world.newest[PEER].run_id, "COMPLETED", ONE)]
    assert world.run.task.ready
    assert world.run.peers is None


def test_a_monitored_and_linked_workflow_exits_before_its_link_goes_down():
    failure = FailureInfo(Kind.CONFLICT, "no")
    end = does(cmd.FailWorkflow("no", failure), of=PEER)
    world = watching(LINK, watches(MONITOR, 2), delivered(), end)
    world.take(delivered())
    run_id = world.newest[PEER].run_id
    assert exits(world) == [
        PeerExited(2, MONITOR, THERE, run_id, "FAILED", failure=failure),
        PeerExited(1, LINK, THERE, run_id, "FAILED", failure=failure),
    ]


@pytest.mark.parametrize("normal", [True, False])
def test_of_a_normal_end_a_monitor_and_a_link_bring_one_event(normal):
    command = cmd.CompleteWorkflow() if normal else cmd.FailWorkflow("no")
    world = watching(LINK, watches(MONITOR, 2), delivered(), does(command, of=PEER), delivered())
    assert len(exits(world)) == (1 if normal else 2)


def test_only_the_end_of_the_chain_fires():
    again = does(cmd.ContinueAsNew(), of=PEER)
    world = watching(MONITOR, again, delivered(), later(SECOND))
    assert exits(world) == []
    world.take(does(cmd.CompleteWorkflow(ONE), of=PEER))
    world.take(delivered())
    assert [event.run_id for event in exits(world)] == [world.newest[PEER].run_id]


def test_a_closed_target_fires_at_once_and_an_unknown_one_too():
    world = given(started(), started(PEER), terminated(of=PEER), watches(), delivered())
    world.take(watches(number=2, target="wf://main/nobody"))
    world.take(watches(number=3, target="no address"))
    world.take(delivered())
    text = FailureInfo(Kind.CANCELED, "workflow terminated", retryable=False)
    first, third, second = exits(world)
    assert first == PeerExited(1, MONITOR, THERE, world.newest[PEER].run_id, "FAILED", failure=text)
    assert [event.failure.kind for event in (second, third)] == [Kind.NOT_FOUND] * 2
    assert (second.watch_id, third.watch_id) == (2, 3)


def test_a_second_watch_after_the_end_fires_again():
    world = watching(MONITOR, terminated(of=PEER), delivered(), watches(number=2), delivered())
    assert [event.watch_id for event in exits(world)] == [1, 2]


def test_an_ended_watch_does_not_fire():
    unwatch = does(cmd.Unwatch(1, THERE, MONITOR))
    world = watching(MONITOR, unwatch, delivered(), terminated(of=PEER), delivered())
    assert exits(world) == []
    assert WatchRemoved(1) in world.history()


def test_an_end_on_its_way_to_a_watch_that_has_ended_is_not_recorded():
    world = watching(MONITOR, terminated(of=PEER), does(cmd.Unwatch(1, THERE, MONITOR)), delivered())
    assert exits(world) == []


def test_the_end_of_an_older_watch_leaves_the_newer_alone():
    steps = (does(cmd.Unwatch(1, THERE, MONITOR)), watches(number=2))
    world = watching(MONITOR, *steps)
    unwatch, watch = world.outbox.values()
    for message in (watch, unwatch):  # in the wrong order
        world.take(Deliver.of(message))
    world.take(terminated(of=PEER))
    world.take(delivered())
    assert [event.watch_id for event in exits(world)] == [2]


def test_a_link_reaches_its_target_if_the_linker_fails_in_the_same_turn():
    world = given(started(), started(PEER), does(of=PEER))
    world.take(does(cmd.Watch(1, THERE, LINK), cmd.FailWorkflow("no")))
    world.take(delivered())
    (event,) = exits(world, PEER)
    assert (event.watch_id, event.mode, event.pid, event.failure.message) == (0, LINK, HERE, "no")


def test_two_links_between_two_workflows_bring_one_event():
    world = watching(LINK, watches(LINK, 1, HERE, PEER), delivered(), does(cmd.FailWorkflow("no")), delivered())
    assert len(exits(world, PEER)) == 1


@pytest.mark.parametrize("who", [ORDER, PEER])
def test_unlink_removes_both_directions(who):
    own, target = (1, THERE) if who == ORDER else (0, HERE)
    world = watching(LINK, does(cmd.Unwatch(own, target, LINK), of=who), delivered())
    world.take(does(cmd.FailWorkflow("no"), of=PEER))
    world.take(does(cmd.FailWorkflow("no")))
    world.take(delivered())
    assert (exits(world), exits(world, PEER)) == ([], [])


def test_a_watch_moves_to_the_next_run_of_the_watcher():
    world = watching(MONITOR, does(cmd.ContinueAsNew()), terminated(of=PEER), delivered())
    assert [watch.watch_id for watch in world.run.start.watches] == [1]
    assert [event.watch_id for event in exits(world)] == [1]


def test_a_retried_run_keeps_its_watchers_and_drops_its_watches():
    policy = {"max_attempts": 2, "initial_interval": 1}
    world = given(started(), started(PEER), does(of=PEER), bore(retry_policy=policy))
    world.take(does(cmd.Watch(1, f"wf://main/{CHILD}", MONITOR), of=PEER))
    world.take(does(cmd.Watch(1, THERE, MONITOR), of=CHILD))
    world.take(delivered())
    world.take(does(cmd.FailWorkflow("no"), of=CHILD))
    world.take(terminated(of=PEER))
    world.take(delivered())
    assert world.newest[CHILD].number == 2
    assert exits(world, CHILD) == []


def test_a_watcher_that_closes_is_forgotten():
    world = watching(MONITOR, does(cmd.CompleteWorkflow()), delivered())
    assert world.newest[PEER].peers is None


@pytest.mark.parametrize(
    "command",
    [cmd.Watch(1, HERE, MONITOR), cmd.Watch(1, "wf://other/x", LINK), cmd.Watch(1, THERE, "stare")],
    ids=["itself", "a link far away", "no mode"],
)
def test_watches_that_are_refused(command):
    world = given(started(), claimed())
    with refused("invalid"):
        world.when(does(command))


def test_a_trapped_cancel_is_recorded_and_nothing_else():
    world = given(started(), does(cmd.SetOptions(trap_cancel=True), cmd.ScheduleActivity(1, "a")))
    world.take(does(cmd.StartChildWorkflow("Child", CHILD, seq=1)))
    assert OptionsSet(False, True) in world.history()
    decision = world.when(asks_to_cancel(reason="please", deadline=5 * SECOND))
    assert [type(event) for event in events(decision)] == [WorkflowCancelRequested]
    assert sent(decision) == []
    world.take(asks_to_cancel(reason="please", deadline=5 * SECOND))
    assert world.run.cancel_deadline is not None
    assert set(world.run.activities) == {1}


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_request_to_another_run_has_one_outcome(kind):
    make = cmd.RequestCancelExternal if kind == "cancel" else cmd.TerminateExternal
    world = given(started(), started(PEER), does(of=PEER), does(make(1, THERE, "now")))
    (message,) = world.outbox.values()
    world.take(delivered())
    world.take(does(make(2, THERE if kind == "terminate" else "wf://main/nobody")))
    world.take(delivered())
    names = [event.recorded_name for event in world.history() if "External" in event.recorded_name][1:]
    word = kind.capitalize()
    assert names == [f"External{word}{part}" for part in ("Delivered", "Requested", "Failed")]
    assert message.sender == HERE
