"""Random lives of a schedule: whatever is asked and whenever nobody looks, every due time is accounted for (I11)."""

import random
from collections import Counter

import pytest

from assay.core.model.ids import SECOND, Time, WorkflowId
from assay.core.schedules.model import FireOutcome, Missed, Overlap, Trigger
from assay.core.schedules.requests import ScheduledRunClosed
from tests.core.schedules.schedule_support import HOUR, MINUTE, NAME, Timed
from tests.core.support import MAIN, delivered

CRONS = ["*/7 * * * * *", "0 * * * * *", "*/5 * * * *", "@every 11s", "@every 90s", "0 30 * * * *"]
STEPS = 60


class Walk:
    """A schedule to which things happen at random, and the due times that it should have had."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311  # a test that can be repeated
        self.world = Timed(
            self.chance.choice(CRONS),
            missed=self.chance.choice(list(Missed)),
            window=self.chance.choice([0, MINUTE, HOUR]),
            jitter=self.chance.choice([0, 0, 3 * SECOND, 2 * MINUTE]),
            overlap_policy=self.chance.choice(list(Overlap)),
        )
        self.due: list[Time] = []
        self._since = self.world.now

    def expect(self) -> None:
        """What is due by the present times up to now belongs to the account, whatever the times are from here on."""
        schedule, now = self.world.state, self.world.now
        self.due += schedule.timetable().fires_between(self._since, now, 10**6, schedule.created_at)
        self._since = now

    def span(self) -> Time:
        return self.chance.choice([SECOND, 9 * SECOND, 40 * SECOND, 3 * MINUTE, 20 * MINUTE])

    def step(self) -> None:
        deeds = [
            self.pass_time,
            self.sleep,
            self.close,
            self.patch,
            self.overlap,
            self.by_hand,
            self.backfill,
            self.toggle,
        ]
        self.chance.choices(deeds, [5, 3, 4, 1, 1, 1, 1, 1])[0]()

    def pass_time(self) -> None:
        self.world.pass_time(self.span())

    def sleep(self) -> None:
        self.world.now += self.span()
        if self.chance.random() < 0.8:  # otherwise something else is asked before the engine looks
            self.world.pass_time(0)

    def close(self) -> None:
        for name in self.world.open_runs():
            if self.chance.random() < 0.5 and not self.world.newest[WorkflowId(name)].closed:
                self.world.close(name, notify=self.chance.random() < 0.7)

    def patch(self) -> None:
        self.expect()
        self.world.patch(cron_expr=self.chance.choice(CRONS), timezone=self.chance.choice(["UTC", "Asia/Kolkata"]))

    def overlap(self) -> None:
        self.world.patch(overlap_policy=self.chance.choice(list(Overlap)), missed=self.chance.choice(list(Missed)))

    def by_hand(self) -> None:
        self.world.trigger(overlap=self.chance.choice([None, *Overlap]))

    def backfill(self) -> None:
        start = self.world.now - self.span()
        self.world.backfill(start, self.world.now, overlap=self.chance.choice([None, *Overlap]))

    def toggle(self) -> None:
        (self.world.resume if self.world.state.paused else self.world.pause)()

    def finish(self) -> None:
        """Nothing is left to wait for: neither a pause, nor a jitter, nor an open run."""
        world = self.world
        if world.state.paused:
            world.resume()
        self.expect()
        world.patch(cron_expr="0 0 0 1 1 *", jitter=0)
        for _ in range(300):
            world.take(delivered())
            for name in world.open_runs():
                world.close(name, notify=False)
            world.ask(ScheduledRunClosed(MAIN, NAME))
            if not world.state.waiting and not world.open_runs():
                return
        raise AssertionError("the queue does not end")


@pytest.mark.parametrize("seed", range(40))
def test_every_due_time_is_accounted_for_once(seed: int):
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.finish()
    world = walk.world
    recorded = sorted(due for fire in world.fires if fire.trigger is Trigger.TIME for due in stood_for(walk, fire))
    assert recorded == sorted(walk.due)
    runs = Counter(run.start.scheduled_for for run in world.runs.values() if "-manual-" not in run.workflow_id)
    started = {fire.due_at for fire in world.fires if fire.outcome is FireOutcome.STARTED}
    assert all(count == 1 for count in runs.values())
    assert set(runs) <= started
    assert all(fire.reason for fire in world.fires if fire.outcome in (FireOutcome.SKIPPED, FireOutcome.MISSED))


def stood_for(walk: Walk, fire: object) -> list[Time]:
    """The due times of a record."""
    first, until = getattr(fire, "due_at", 0), getattr(fire, "until", None)
    return [first] if until is None else [due for due in walk.due if first <= due <= until]
