"""Due times: each fires once, or is recorded with the reason why not (I11)."""

from collections import Counter

import pytest

from assay.core.model import commands as cmd
from assay.core.model.ids import SECOND, WorkflowId
from assay.core.model.payload import Payload
from assay.core.schedules.fires import FIRES_PER_DECISION, MAX_MISSED_RECORDS, MAX_WAITING_FIRES, MAX_WATCHED_RUNS
from assay.core.schedules.model import RECHECK_INTERVAL, Missed, Overlap
from tests.core.schedules.schedule_support import DAY, HOUR, MIDNIGHT, MINUTE, NAME, Timed, times
from tests.core.support import ONE, delivered, starts, turned

ALL = Overlap.ALLOW_ALL


def test_a_fire_starts_the_run_that_the_schedule_describes():
    documents = {"search_attributes": Payload(b'{"team":"ops"}'), "memo": Payload(b'{"why":"nightly"}')}
    world = Timed(input=Payload(b'{"region":"eu"}'), task_queue="reports", **documents).pass_time(MINUTE)
    run = world.last_run()
    assert run.workflow_id == f"{NAME}-{(MIDNIGHT + MINUTE) // SECOND}"
    assert (run.start.workflow_type, run.start.task_queue) == ("Report", "reports")
    assert (run.start.schedule, run.start.scheduled_for) == (NAME, MIDNIGHT + MINUTE)
    assert (run.start.search_attributes, run.start.memo) == tuple(documents.values())
    assert world.history(run.workflow_id)[0].input == Payload(b'{"region":"eu"}')
    (fire,) = world.fires
    assert (fire.workflow_id, fire.run_id, fire.fired_at) == (run.workflow_id, run.run_id, MIDNIGHT + MINUTE)
    assert (world.state.last_run_at, world.state.last_workflow_id) == (MIDNIGHT + MINUTE, run.workflow_id)


def test_a_due_time_fires_once_however_often_somebody_looks():
    world = Timed(overlap_policy=ALL)
    for _ in range(5):
        world.now += MINUTE
        for _ in range(4):
            world.elapse()
    assert world.started() == times(1, 2, 3, 4, 5)
    assert world.outcomes() == {"started": 5}


def test_nothing_fires_early():
    world = Timed()
    world.now += MINUTE - 1
    assert not world.elapse().changed


def test_every_counts_from_the_creation_and_keeps_fractions_apart():
    world = Timed("@every 90s", overlap_policy=ALL, now=MIDNIGHT + 250_000)
    world.pass_time(3 * MINUTE)
    assert world.started() == [90 * SECOND + 250_000, 180 * SECOND + 250_000]
    assert world.open_runs()[0] == f"{NAME}-{(MIDNIGHT // SECOND) + 90}.250000"


# overlap


def test_skip_drops_the_fire_while_a_run_is_open():
    world = Timed(overlap_policy=Overlap.SKIP).pass_time(2 * MINUTE)
    world.close(world.last_run().workflow_id)
    world.pass_time(MINUTE)
    assert world.recorded() == [(MINUTE, "started"), (2 * MINUTE, "skipped"), (3 * MINUTE, "started")]
    assert world.fires[1].reason == f"run {world.fires[0].workflow_id} is still open"


def test_skip_waits_for_the_end_of_the_whole_chain():
    world = Timed().pass_time(MINUTE)
    name = world.last_run().workflow_id
    world.take(turned(cmd.ContinueAsNew(ONE), of=WorkflowId(name)))
    assert world.last_run().start.schedule == NAME
    world.pass_time(MINUTE)
    assert world.recorded()[-1] == (2 * MINUTE, "skipped")
    world.close(name)
    world.pass_time(MINUTE)
    assert world.recorded()[-1] == (3 * MINUTE, "started")


def test_queue_keeps_fires_in_due_order_and_starts_one_at_each_close():
    world = Timed(overlap_policy=Overlap.QUEUE).pass_time(4 * MINUTE)
    assert world.recorded() == [(MINUTE, "started")]
    assert [waiting.due_at - MIDNIGHT for waiting in world.state.waiting] == times(2, 3, 4)
    for minute in (2, 3, 4):
        world.close(world.last_run().workflow_id)
        assert world.recorded()[-1] == (minute * MINUTE, "started")
        assert len(world.open_runs()) == 1
    world.close(world.last_run().workflow_id)
    assert world.started() == times(1, 2, 3, 4)
    assert world.open_runs() == []


def test_a_fire_does_not_overtake_those_that_wait():
    world = Timed(overlap_policy=Overlap.QUEUE).pass_time(2 * MINUTE)
    world.close(world.last_run().workflow_id, notify=False)  # and before anybody is told, the next one is due
    world.now += MINUTE
    world.elapse()
    assert world.started() == times(1, 2)
    assert [waiting.due_at - MIDNIGHT for waiting in world.state.waiting] == times(3)


def test_a_close_that_nobody_told_of_is_found_out():
    world = Timed("0 0 * * * *", overlap_policy=Overlap.QUEUE, end_at=MIDNIGHT + 2 * HOUR).pass_time(2 * HOUR)
    assert world.state.wakes_at() == world.state.updated_at + RECHECK_INTERVAL
    world.pass_time(5 * MINUTE)  # looking again and again is no harm
    world.close(world.last_run().workflow_id, notify=False)
    world.pass_time(RECHECK_INTERVAL)
    assert world.started() == [HOUR, 2 * HOUR]
    assert world.state.wakes_at() is None


def test_a_full_queue_drops_the_newest_fire():
    world = Timed(overlap_policy=Overlap.QUEUE).pass_time((MAX_WAITING_FIRES + 3) * MINUTE)
    assert len(world.state.waiting) == MAX_WAITING_FIRES
    assert world.recorded()[1:] == [(time, "dropped") for time in times(MAX_WAITING_FIRES + 2, MAX_WAITING_FIRES + 3)]
    assert world.fires[-1].reason == "100 fires are waiting already"


def test_what_waits_stays_while_the_schedule_is_paused():
    world = Timed(overlap_policy=Overlap.QUEUE).pass_time(2 * MINUTE)
    world.pause()
    world.close(world.last_run().workflow_id)
    assert world.open_runs() == []
    world.resume()
    assert world.started() == times(1, 2)


def test_a_waiting_fire_that_cannot_start_makes_way():
    world = Timed(overlap_policy=Overlap.QUEUE).pass_time(3 * MINUTE)
    blocked = world.state.waiting[0].workflow_id
    world.take(starts(blocked))
    world.close(f"{NAME}-{(MIDNIGHT + MINUTE) // SECOND}")
    assert world.recorded()[1:] == [(2 * MINUTE, "failed"), (3 * MINUTE, "started")]


def test_cancel_old_asks_the_open_run_to_end_and_starts_at_once():
    world = Timed(overlap_policy=Overlap.CANCEL_OLD).pass_time(MINUTE)
    old = world.last_run()
    world.take(turned(of=WorkflowId(old.workflow_id)))
    world.pass_time(MINUTE)
    assert [(message.kind, message.run_id) for message in world.outbox.values()] == [("cancel", old.run_id)]
    assert len(world.open_runs()) == 2
    world.take(delivered())
    assert old.cancel_seq
    world.pass_time(MINUTE)  # the first one takes its time: it is not asked twice
    assert [message.workflow_id for message in world.outbox.values()] == [world.open_runs()[1]]


def test_cancel_old_of_several_fires_at_once_asks_each_run_but_the_last():
    world = Timed("* * * * * *", overlap_policy=Overlap.CANCEL_OLD, missed=Missed.ALL).sleep(4 * SECOND)
    assert len(world.started()) == 4
    world.take(delivered())
    assert world.open_runs() == [world.last_run().workflow_id]


def test_terminate_old_ends_the_open_run_in_the_same_transaction():
    world = Timed(overlap_policy=Overlap.TERMINATE_OLD).pass_time(MINUTE)
    old = world.last_run()
    world.now += MINUTE
    decision = world.elapse()
    assert [run.run.run_id for run in decision.runs] == [old.run_id, world.last_run().run_id]
    assert (old.close_reason, world.open_runs()) == ("terminated", [world.last_run().workflow_id])
    assert NAME in (old.error or "")


def test_allow_all_starts_whatever_is_open():
    world = Timed(overlap_policy=ALL).pass_time(5 * MINUTE)
    assert len(world.open_runs()) == 5
    world.patch(overlap_policy=Overlap.SKIP)
    world.close(world.last_run().workflow_id)
    world.pass_time(MINUTE)
    assert world.recorded()[-1] == (6 * MINUTE, "skipped")


def test_the_list_of_open_runs_is_bounded():
    world = Timed(overlap_policy=ALL).pass_time((MAX_WATCHED_RUNS + 5) * MINUTE)
    assert len(world.state.running) == MAX_WATCHED_RUNS
    assert world.state.running[-1] == world.last_run().workflow_id


def test_an_id_in_use_by_somebody_else_is_recorded_as_a_failure():
    world = Timed()
    world.take(starts(f"{NAME}-{(MIDNIGHT + MINUTE) // SECOND}"))
    world.pass_time(2 * MINUTE)
    assert world.recorded() == [(MINUTE, "failed"), (2 * MINUTE, "started")]
    assert "already running" in (world.fires[0].reason or "")


# missed fires


def test_by_default_the_last_missed_fire_within_an_hour_is_made_up_for():
    world = Timed("0 */10 * * * *", overlap_policy=ALL).sleep(45 * MINUTE)
    assert world.recorded() == [(time, "missed") for time in times(10, 20, 30)] + [(40 * MINUTE, "started")]
    assert world.fires[0].reason == "no engine was running"
    assert world.state.next_run_at == MIDNIGHT + 50 * MINUTE


def test_a_missed_fire_older_than_the_window_is_not_made_up_for():
    world = Timed("0 0 0 * * *", overlap_policy=ALL).sleep(DAY + 2 * HOUR)
    assert world.recorded() == [(DAY, "missed")]
    assert world.state.next_run_at == MIDNIGHT + 2 * DAY


def test_missed_skip_makes_up_for_nothing():
    world = Timed(missed=Missed.SKIP, overlap_policy=ALL).sleep(3 * MINUTE + 30 * SECOND)
    assert world.outcomes() == {"missed": 3}


def test_missed_all_makes_up_for_everything_within_the_window():
    world = Timed(missed=Missed.ALL, window=10 * MINUTE, overlap_policy=ALL).sleep(HOUR + 30 * SECOND)
    assert world.outcomes() == {"missed": 50, "started": 10}
    assert world.started() == times(*range(51, 61))


def test_a_long_outage_is_made_up_for_in_several_transactions():
    world = Timed("* * * * * *", missed=Missed.ALL, overlap_policy=ALL)
    world.now += 5 * FIRES_PER_DECISION * SECOND
    assert len(world.elapse().runs) == FIRES_PER_DECISION
    assert world.state.wakes_at() < world.now
    world.pass_time(0)
    assert len(world.runs) == 5 * FIRES_PER_DECISION
    assert len(set(world.started())) == 5 * FIRES_PER_DECISION


@pytest.mark.parametrize("missed", Missed)
def test_a_fire_that_is_merely_late_still_starts(missed: Missed):
    world = Timed(missed=missed, overlap_policy=ALL).sleep(MINUTE + 4 * SECOND)
    assert world.recorded() == [(MINUTE, "started")]


def test_of_an_outage_only_the_last_fire_is_made_up_for_however_short_ago():
    world = Timed("* * * * * *", overlap_policy=ALL).sleep(20 * SECOND + SECOND // 2)
    assert world.outcomes() == {"missed": 19, "started": 1}
    assert world.started() == [20 * SECOND]


def test_of_an_outage_nothing_is_made_up_for_if_missed_fires_are_skipped():
    world = Timed("* * * * * *", missed=Missed.SKIP, overlap_policy=ALL).sleep(20 * SECOND + SECOND // 2)
    assert world.outcomes() == {"missed": 20}


@pytest.mark.parametrize("missed", Missed)
def test_what_is_due_at_this_very_moment_is_not_missed(missed: Missed):
    world = Timed("* * * * * *", missed=missed, overlap_policy=ALL).sleep(20 * SECOND)
    assert world.started()[-1] == 20 * SECOND


def test_an_outage_of_years_is_recorded_in_no_time():
    world = Timed("* * * * * *", overlap_policy=ALL).sleep(1_000 * DAY)
    assert world.outcomes() == {"missed": MAX_MISSED_RECORDS + 1, "started": 1}
    (lump,) = [fire for fire in world.fires if fire.until is not None]
    assert (lump.due_at, lump.until) == (MIDNIGHT + 1_001 * SECOND, world.now - SECOND)


def test_missed_fires_obey_the_overlap_policy():
    world = Timed(missed=Missed.ALL, window=DAY, overlap_policy=Overlap.QUEUE).sleep(3 * MINUTE)
    assert world.recorded() == [(MINUTE, "started")]
    assert len(world.state.waiting) == 2


def test_nothing_is_made_up_for_that_was_due_after_the_end():
    world = Timed(missed=Missed.ALL, window=DAY, overlap_policy=ALL, end_at=MIDNIGHT + 2 * MINUTE).sleep(HOUR)
    assert world.started() == times(1, 2)
    assert world.state.next_run_at is None


# limits and jitter


def test_a_schedule_ends_at_its_end():
    world = Timed(end_at=MIDNIGHT + 3 * MINUTE, overlap_policy=ALL).pass_time(HOUR)
    assert world.started() == times(1, 2, 3)
    assert (world.state.next_run_at, world.state.wakes_at()) == (None, None)


def test_a_schedule_starts_no_more_runs_than_it_may():
    world = Timed(remaining=2, overlap_policy=ALL).pass_time(HOUR)
    assert world.started() == times(1, 2)
    assert (world.state.remaining, world.state.next_run_at) == (0, None)


def test_making_up_for_missed_fires_does_not_exceed_the_limit():
    world = Timed(remaining=2, missed=Missed.ALL, window=DAY, overlap_policy=ALL).sleep(HOUR)
    assert world.started() == times(1, 2)
    assert world.state.remaining == 0


def test_a_skipped_fire_does_not_count():
    world = Timed(remaining=2).pass_time(3 * MINUTE)
    assert world.state.remaining == 1
    world.close(world.last_run().workflow_id)
    world.pass_time(MINUTE)
    assert (world.state.remaining, world.started()) == (0, times(1, 4))


def test_a_fire_that_waits_counts_at_once():
    world = Timed(remaining=2, overlap_policy=Overlap.QUEUE).pass_time(HOUR)
    assert (world.state.remaining, len(world.state.waiting)) == (0, 1)
    world.close(world.last_run().workflow_id)
    assert world.started() == times(1, 2)
    assert world.state.remaining == 0


def test_jitter_spreads_fires_the_same_way_for_everybody():
    world = Timed(jitter=30 * SECOND, overlap_policy=ALL)
    delays = [world.state.delay(MIDNIGHT + minute * MINUTE) for minute in range(200)]
    assert delays == [Timed(jitter=30 * SECOND).state.delay(MIDNIGHT + minute * MINUTE) for minute in range(200)]
    assert 0 <= min(delays) < 3 * SECOND
    assert 27 * SECOND < max(delays) < 30 * SECOND
    world.pass_time(3 * MINUTE + 30 * SECOND)
    assert world.started() == times(1, 2, 3)
    for fire in world.fires:
        assert fire.fired_at == fire.due_at + world.state.delay(fire.due_at)


def test_jitter_longer_than_the_period_loses_no_fire():
    world = Timed("* * * * * *", jitter=20 * SECOND, overlap_policy=ALL).pass_time(5 * MINUTE)
    started = world.started()
    assert started == [SECOND * second for second in range(1, len(started) + 1)]
    assert len(started) >= 280
    assert all(fire.fired_at >= fire.due_at + world.state.delay(fire.due_at) for fire in world.fires)


# a year


@pytest.mark.parametrize(
    ("cron_expr", "timezone", "dst", "count"),
    [
        ("0 30 2 * * *", "Europe/Berlin", "skip", 364),  # one day has no 02:30
        ("0 30 2 * * *", "Europe/Berlin", "shift", 365),
        ("0 30 2 * * *", "Europe/Berlin", "both", 365),  # one day has none, one has two
        ("*/15 * * * *", "America/New_York", "skip", 365 * 96),
        ("0 0 9 * * mon-fri", "Asia/Tokyo", "skip", 261),
        ("@every 1h30m", "UTC", "skip", 365 * 16),
    ],
)
def test_a_year_of_fires(cron_expr: str, timezone: str, dst: str, count: int):
    world = Timed(cron_expr, timezone=timezone, dst=dst)
    year = 365 * DAY
    due = world.state.timetable().fires_between(MIDNIGHT, MIDNIGHT + year, 10**6, MIDNIGHT)
    world.pass_time(year)
    recorded = Counter(fire.due_at for fire in world.fires)
    assert sorted(recorded) == due
    assert set(recorded.values()) == {1}
    assert len(due) == count
    assert world.outcomes() == {"started": 1, "skipped": count - 1}


def test_outages_and_pauses_account_for_every_due_time():
    world = Timed("*/7 * * * * *", missed=Missed.ALL, window=MINUTE, overlap_policy=Overlap.QUEUE)
    for round_number in range(40):
        world.pass_time(23 * SECOND)
        world.sleep((round_number % 9) * 17 * SECOND)
        if round_number % 5 == 0:
            world.pause()
            world.pass_time(31 * SECOND)
            world.resume()
        for name in world.open_runs()[:2]:
            world.close(name, notify=round_number % 3 == 0)
    due = world.state.timetable().fires_between(MIDNIGHT, world.now, 10**6, MIDNIGHT)
    recorded = [fire.due_at for fire in world.fires] + [waiting.due_at for waiting in world.state.waiting]
    assert sorted(recorded) == due
