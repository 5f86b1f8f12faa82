"""Both ends of the protocol, connected in memory: whatever happens to messages, nothing is lost or done twice."""

import pytest

from assay.core.model.events import ActivityCompleted
from tests.worker_protocol.ends import ACTIVITIES_PER_RUN, ACTIVITY_SLOTS, TASK_SLOTS, Ends

FAULTY_STEPS, CALM_STEPS = 1_500, 5_000
RUNS = 30


def run_seed(seed: int, *, restarts: bool) -> Ends:
    ends = Ends(seed, RUNS, restarts=restarts)
    for _ in range(FAULTY_STEPS):
        ends.step()
    ends.faulty = False
    ends.connect()
    for _ in range(CALM_STEPS):
        if ends.done:
            break
        ends.step()
    return ends


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_done_twice(seed: int, restarts: bool):
    ends = run_seed(seed, restarts=restarts)
    # No lease is lost for good: leases do not expire here, and yet every run ends.
    assert [run.workflow_id for run in ends.engine.world.runs.values() if not run.closed] == []
    # No report is applied twice.
    assert [key for key, times in ends.engine.applied.items() if times > 1] == []
    for history in ends.engine.world.histories.values():
        assert sum(isinstance(recorded.event, ActivityCompleted) for recorded in history) == ACTIVITIES_PER_RUN
    # Every report is answered once, however often it was sent.
    assert ends.worker_side.idle
    assert set(ends.worker.callbacks) == set(range(1, ends.worker.reports + 1))
    assert set(ends.worker.callbacks.values()) == {1}
    # A report that is sent again gets its first answer again; only an engine that was restarted refuses it.
    assert restarts or ends.worker.refused == []
    # No attempt is begun twice in one worker, no more is leased than it has slots for, and both ends count alike.
    assert set(ends.worker.begun.values()) == {1}
    assert ends.engine.most_leased == (TASK_SLOTS, ACTIVITY_SLOTS)
    assert (ends.worker.slots.tasks, ends.worker.slots.activities) == (TASK_SLOTS, ACTIVITY_SLOTS)
    assert ends.engine_side is not None
    assert (ends.engine_side.slots.tasks, ends.engine_side.slots.activities) == (TASK_SLOTS, ACTIVITY_SLOTS)
