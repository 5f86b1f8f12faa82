"""The parts of a world do what the simulation relies on: time, nodes, tables, messages."""

import asyncio

import pytest

from assay.core.model.ids import SECOND
from assay.core.model.run import Run
from assay.storage.ports import Changes, Conflict, StoredEvent, StoredRun
from simulation.loop import Node, SimLoop, Stalled
from simulation.net import Network
from simulation.programs import Author, OneOf, expected, matches, walk
from simulation.settings import Settings, chance_of
from simulation.tables import Tables
from tests.core.support import given, started

FAR = 1_000 * SECOND


def loop_of(seed: int = 1, **options: int) -> SimLoop:
    return SimLoop(chance_of(seed), **options)


def forever() -> bool:
    return False


# time and nodes


def test_time_jumps_to_the_next_timer():
    loop, node, seen = loop_of(), Node("a"), []

    async def sleep():
        await asyncio.sleep(100)
        seen.append(loop.time())

    loop.spawn(node, sleep())
    loop.run_until(lambda: bool(seen), FAR)
    assert seen[0] == pytest.approx(100, abs=0.001)


def test_a_crashed_node_runs_nothing_not_even_its_cleanup():
    loop, node, seen = loop_of(), Node("a"), []

    async def tidy():
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("cleaned up")

    loop.spawn(node, tidy())
    loop.run_until(forever, SECOND)
    loop.crash(node)
    loop.run_until(forever, FAR)
    assert seen == []


def test_a_paused_node_finds_out_how_late_it_is():
    loop, node, seen = loop_of(), Node("a"), []

    async def sleep():
        await asyncio.sleep(1)
        seen.append(loop.time())

    loop.spawn(node, sleep())
    loop.run_until(forever, SECOND // 2)
    loop.pause(node)
    loop.run_until(forever, 9 * SECOND)
    assert seen == []
    loop.resume(node)
    loop.run_until(forever, 10 * SECOND)
    assert seen[0] >= 9


def test_callbacks_of_one_node_keep_their_order_and_nodes_do_not_wait_for_each_other():
    orders = set()
    for seed in range(20):
        loop, seen = loop_of(seed), []
        for node in (Node("a"), Node("b")):
            for number in range(3):
                loop.post(node, 0, seen.append, f"{node}{number}")
        loop.run_until(forever, SECOND)
        assert [one for one in seen if one[0] == "a"] == ["a0", "a1", "a2"]
        orders.add(tuple(seen))
    assert len(orders) > 1


def test_a_world_that_turns_in_circles_is_stopped():
    loop, node = loop_of(limit=100), Node("a")

    async def spin():
        while True:
            await asyncio.sleep(0)

    loop.spawn(node, spin())
    with pytest.raises(Stalled):
        loop.run_until(forever, FAR)


# messages


class Place:
    def __init__(self, name: str):
        self.name = name
        self.node = Node(name)


def test_a_call_that_is_not_answered_ends_in_doubt():
    loop = loop_of()
    network, here, there = Network(loop, Settings(seed=1)), Place("here"), Place("there")
    network.cut.add("there")
    answers = []
    asyncio._set_running_loop(loop)
    here.node.context.run(
        lambda: network.call(here, there, loop.create_future).add_done_callback(
            lambda answer: answers.append(answer.exception())
        )
    )
    loop.run_until(lambda: bool(answers), FAR)
    assert answers[0].code == "no_answer"


# tables


def row_of(run: Run, version: int) -> StoredRun:
    stored = StoredRun.of(run)
    stored.version = version
    return stored


def test_a_run_is_changed_only_by_whoever_read_it_last():
    tables, run = Tables(), given(started()).run
    tables.write(Changes(new_runs=[row_of(run, 1)]))
    assert tables.write(Changes(runs=[row_of(run, 2)]))[1] == frozenset()
    assert tables.write(Changes(runs=[row_of(run, 2)]))[1] == {run.run_id}


def test_a_conflict_leaves_nothing_behind():
    tables, run = Tables(), given(started()).run
    event = StoredEvent(run.run_id, 1, 1, "WorkflowStarted", b"null", None)
    with pytest.raises(Conflict):
        tables.write(Changes(new_runs=[row_of(run, 1)], events=[event, event]))
    assert tables.rows["runs"] == tables.rows["events"] == {}


def test_an_id_has_one_open_run():
    tables, world = Tables(), given(started())
    tables.write(Changes(new_runs=[row_of(world.run, 1)]))
    second = row_of(given(started()).run, 1)
    second.run_id, second.number = "another", 2
    with pytest.raises(Conflict):
        tables.write(Changes(new_runs=[second]))


# programs


def test_the_model_says_what_is_possible():
    assert matches([1, OneOf(2, "late")], [1, "late"])
    assert not matches([1, OneOf(2, "late")], [1, 3])
    assert not matches([True], [1])


def test_a_program_and_its_prediction_have_the_same_shape():
    for seed in range(50):
        program = Author(chance_of(seed)).program("w")
        steps = [step for step in program["steps"] if step["do"] != "again"]
        assert len(expected(program)) == len(steps)
        assert {workflow_id.split(".")[0] for workflow_id, _ in walk(program)} <= {"w"}
