"""Schedules: created, changed, paused, asked to fire by hand or for the past."""

from collections import Counter
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from assay.core.model.errors import AlreadyExists, Invalid, NotFound
from assay.core.model.ids import SECOND, Namespace
from assay.core.model.payload import NULL, Payload
from assay.core.schedules import requests as rq
from assay.core.schedules import timetable
from assay.core.schedules.model import FireOutcome, Overlap, Schedule, Trigger, named_by, schedule_key
from assay.core.schedules.rules import MAX_NAME_BYTES, decide_schedule
from tests.core.schedules.schedule_support import DAY, HOUR, MIDNIGHT, MINUTE, NAME, Timed, times
from tests.core.support import MAIN, refused


def create(**options: Any) -> rq.CreateSchedule:
    fields = {"namespace": MAIN, "name": NAME, "workflow_type": "Report", "cron_expr": "@daily", **options}
    return rq.CreateSchedule(MAIN, NAME, Schedule(**fields))


def test_a_schedule_knows_its_next_fire_from_the_start():
    world = Timed("0 30 9 * * *", timezone="Europe/Berlin")
    assert world.state.created_at == world.state.updated_at == MIDNIGHT
    assert world.state.next_run_at == MIDNIGHT + 8 * HOUR + 30 * MINUTE
    assert world.state.wakes_at() == world.state.next_run_at


def test_a_name_is_taken_once():
    world = Timed()
    with pytest.raises(AlreadyExists):
        world.ask(create())


@pytest.mark.parametrize(
    ("options", "code", "field"),
    [
        ({"cron_expr": "61 * * * * *"}, "bad_cron", "cron_expr"),
        ({"cron_expr": "@every 10ms"}, "bad_cron", "cron_expr"),
        ({"timezone": "Mars/Olympus"}, "bad_timezone", "timezone"),
        ({"dst": "maybe"}, "bad_dst", "dst"),
        ({"cron_expr": "0 0 0 1 1 * 2020"}, "never_fires", "cron_expr"),
        ({"end_at": MIDNIGHT + HOUR}, "never_fires", "end_at"),
        ({"name": ""}, "invalid", "name"),
        ({"name": "n" * (MAX_NAME_BYTES + 1)}, "invalid", "name"),
        ({"workflow_type": "a\nb"}, "invalid", "workflow_type"),
        ({"task_queue": ""}, "invalid", "task_queue"),
        ({"remaining": 0}, "invalid", "remaining"),
        ({"search_attributes": Payload(b'{"no.dots":1}')}, "invalid", "search_attributes.no.dots"),
        ({"memo": Payload(b"[1]")}, "invalid", "memo"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], code: str, field: str):
    world = Timed()
    world.schedule = None
    with pytest.raises(Invalid) as caught:
        world.ask(create(**options))
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_bad_expression_is_pointed_at():
    with pytest.raises(Invalid, match="second field '61' is wrong at character 0"):
        Timed("61 * * * * *")


@pytest.mark.parametrize("kind", [rq.PatchSchedule, rq.PauseSchedule, rq.DeleteSchedule, rq.ElapseSchedule])
def test_a_schedule_that_is_not_there_is_not_found(kind: type[rq.ScheduleRequest]):
    with pytest.raises(NotFound, match=NAME):
        decide_schedule(None, kind(MAIN, NAME), Timed().moment(), MIDNIGHT)


def test_a_deleted_schedule_leaves_its_runs_alone():
    world = Timed().pass_time(MINUTE)
    world.ask(rq.DeleteSchedule(MAIN, NAME))
    assert world.schedule is None
    assert len(world.open_runs()) == 1


@pytest.mark.parametrize("namespace", ["main", "a/b", "a%2Fb", "%", "ä/ö"])
def test_a_key_is_read_back(namespace: str):
    assert named_by(schedule_key(namespace, "x/y%2F")) == (namespace, "x/y%2F")
    assert schedule_key("main", NAME) == f"main/{NAME}"


def test_the_same_name_in_two_namespaces_is_two_schedules():
    here, there = Timed(), Timed(namespace=Namespace("other"))
    assert here.state.key != there.state.key
    assert there.pass_time(MINUTE).last_run().namespace == "other"


# patch


def test_an_empty_patch_changes_nothing():
    world = Timed()
    before = world.state
    assert not world.patch().changed
    assert world.patch(cron_expr=before.cron_expr).reply == before


def test_a_patch_of_the_times_computes_the_next_fire_anew():
    world = Timed("0 0 12 * * *").pass_time(HOUR)
    world.patch(cron_expr="0 30 * * * *")
    assert world.state.next_run_at == MIDNIGHT + HOUR + 30 * MINUTE
    world.patch(timezone="Asia/Kolkata")
    assert world.state.next_run_at == MIDNIGHT + 2 * HOUR
    world.patch(cron_expr="@every 45m")
    assert world.state.next_run_at == MIDNIGHT + 90 * MINUTE


def test_a_patch_of_anything_else_leaves_the_next_fire():
    world = Timed("@every 7m").pass_time(MINUTE)
    due = world.state.next_run_at
    world.patch(input=Payload(b"1"), task_queue="slow", overlap_policy=Overlap.ALLOW_ALL, jitter=SECOND)
    assert world.state.next_run_at == due
    assert (world.state.input, world.state.task_queue) == (Payload(b"1"), "slow")


def test_a_refused_patch_changes_nothing():
    world = Timed()
    before = world.state
    for changes in ({"cron_expr": "* *"}, {"timezone": "Nowhere"}, {"remaining": 0}, {"task_queue": ""}):
        with pytest.raises(Invalid):
            world.patch(**changes)
    assert world.state == before


def test_what_came_due_before_a_patch_fires_first():
    world = Timed()
    world.now += MINUTE  # the engine is about to look, but the patch is faster
    world.patch(cron_expr="0 0 12 * * *")
    assert world.recorded() == [(MINUTE, "started")]
    assert world.state.next_run_at == MIDNIGHT + 12 * HOUR


def test_a_patch_while_paused_records_what_was_due_by_the_old_times():
    world = Timed()
    world.pause("holidays")
    world.now += 2 * MINUTE
    world.patch(cron_expr="0 0 * * * *")
    assert world.recorded() == [(MINUTE, "paused"), (2 * MINUTE, "paused")]
    world.pass_time(2 * HOUR)
    world.resume()
    assert world.recorded()[2:] == [(HOUR, "paused"), (2 * HOUR, "paused")]


def test_a_fire_that_waits_for_its_jitter_is_recorded_when_the_times_change():
    world = Timed(jitter=30 * SECOND)
    world.now = MIDNIGHT + MINUTE
    assert world.state.wakes_at() > world.now
    world.patch(cron_expr="0 0 * * * *")
    assert world.recorded() == [(MINUTE, "skipped")]


def test_a_schedule_that_is_over_can_be_patched_and_set_going_again():
    world = Timed(remaining=1).pass_time(HOUR)
    assert (world.state.remaining, world.state.next_run_at) == (0, None)
    world.patch(input=Payload(b"2"))
    world.close(world.last_run().workflow_id)
    world.patch(remaining=2)
    assert world.state.next_run_at == MIDNIGHT + HOUR + MINUTE


def test_an_end_in_the_past_ends_a_schedule():
    world = Timed().pass_time(HOUR)
    world.patch(end_at=world.now - 1)
    assert world.state.next_run_at is None
    world.patch(end_at=None)
    assert world.state.next_run_at == MIDNIGHT + HOUR + MINUTE


# pause and resume


def test_a_paused_schedule_says_why_and_needs_no_attention():
    world = Timed()
    world.pause("broken upstream", "ada")
    state = world.state
    assert (state.paused, state.pause_reason, state.paused_by, state.paused_at) == (
        True,
        "broken upstream",
        "ada",
        MIDNIGHT,
    )
    assert state.wakes_at() is None
    assert not world.elapse().changed
    assert not world.pause().changed
    world.pause("another reason", "max")
    assert (world.state.pause_reason, world.state.paused_by) == ("another reason", "max")


def test_fires_due_while_paused_are_recorded_and_never_made_up_for():
    world = Timed(missed="all", window=DAY)
    world.pass_time(MINUTE)
    world.close(world.last_run().workflow_id)
    world.pause("holidays")
    world.now += 3 * MINUTE + 30 * SECOND
    world.resume()
    assert world.recorded()[1:] == [(time, "paused") for time in times(2, 3, 4)]
    assert {fire.reason for fire in world.fires[1:]} == {"holidays"}
    assert world.state.next_run_at == MIDNIGHT + 5 * MINUTE
    assert (world.state.paused, world.state.pause_reason, world.state.paused_at) == (False, None, None)
    world.pass_time(MINUTE)
    assert world.started() == times(1, 5)


def test_a_long_pause_is_recorded_without_counting_every_second():
    world = Timed("* * * * * *")
    world.pause()
    world.now += 400 * DAY
    world.resume()
    first, last = world.fires[0], world.fires[-1]
    assert len(world.fires) == 1_001
    assert (first.due_at, first.until) == (MIDNIGHT + SECOND, None)
    assert (last.due_at, last.until) == (MIDNIGHT + 1_001 * SECOND, world.now)
    assert world.state.next_run_at == world.now + SECOND


def test_what_is_due_when_a_schedule_is_paused_still_fires():
    world = Timed()
    world.now += MINUTE
    world.pause()
    assert world.recorded() == [(MINUTE, "started")]


def test_resuming_what_is_not_paused_changes_nothing():
    world = Timed("0 0 12 * * *")
    assert not world.resume().changed


def test_a_schedule_can_begin_paused():
    world = Timed(paused=True, pause_reason="not yet")
    assert world.state.paused_at == MIDNIGHT
    world.now += 90 * SECOND
    world.resume()
    assert world.state.next_run_at == MIDNIGHT + 2 * MINUTE


def test_a_zone_that_vanished_pauses_the_schedule_instead_of_stopping_the_engine(monkeypatch: pytest.MonkeyPatch):
    world = Timed("0 0 * * * *", timezone="Europe/Berlin")
    monkeypatch.setattr(timetable, "_load", lambda name: None if name == "Europe/Berlin" else ZoneInfo(name))
    forget_zones()
    world.now += HOUR
    world.elapse()
    assert (world.state.paused, world.state.paused_by, world.state.next_run_at) == (True, "engine", None)
    assert "Europe/Berlin" in (world.state.pause_reason or "")
    assert world.recorded() == [(HOUR, "failed")]
    world.patch(timezone="UTC")
    world.resume()
    assert world.state.next_run_at == MIDNIGHT + 2 * HOUR
    forget_zones()


def forget_zones() -> None:
    timetable.parse_zone.cache_clear()
    Schedule.timetable.__globals__["_timetable"].cache_clear()


# by hand


def test_a_trigger_starts_a_run_at_once():
    world = Timed("0 0 12 * * *", remaining=3)
    fire = world.trigger()
    assert (fire.outcome, fire.trigger, fire.due_at) == (FireOutcome.STARTED, Trigger.MANUAL, MIDNIGHT)
    assert fire.workflow_id == world.last_run().workflow_id
    assert world.last_run().start.scheduled_for == MIDNIGHT
    assert (world.state.remaining, world.state.next_run_at) == (3, MIDNIGHT + 12 * HOUR)
    assert world.fires == [fire]


def test_a_trigger_obeys_the_overlap_policy_unless_told_otherwise():
    world = Timed()
    first = world.trigger()
    second = world.trigger()
    assert (second.outcome, second.workflow_id) == (FireOutcome.SKIPPED, None)
    assert first.workflow_id in (second.reason or "")
    third = world.trigger(overlap=Overlap.ALLOW_ALL)
    assert third.outcome is FireOutcome.STARTED
    assert len(world.open_runs()) == 2
    assert [fire.outcome for fire in world.fires] == [fire.outcome for fire in (first, second, third)]


def test_a_trigger_that_allows_all_hides_no_open_run_from_the_next_fire():
    world = Timed().pass_time(MINUTE)
    extra = world.trigger(overlap=Overlap.ALLOW_ALL)
    world.close(extra.workflow_id or "")
    world.pass_time(MINUTE)
    assert world.recorded()[-1] == (2 * MINUTE, "skipped")


def test_a_paused_schedule_can_be_triggered():
    world = Timed()
    world.pause()
    assert world.trigger().outcome is FireOutcome.STARTED


def test_triggers_of_one_moment_are_runs_of_their_own():
    world = Timed(overlap_policy=Overlap.ALLOW_ALL)
    assert {world.trigger().outcome, world.trigger().outcome} == {FireOutcome.STARTED}
    assert len(set(world.open_runs())) == 2


def test_a_queued_trigger_keeps_its_name_and_its_cause():
    world = Timed("0 0 12 * * *", overlap_policy=Overlap.QUEUE)
    first, second = world.trigger(), world.trigger()
    assert second.outcome is FireOutcome.QUEUED
    world.close(first.workflow_id or "")
    started = world.fires[-1]
    assert (started.outcome, started.trigger, started.workflow_id) == (
        FireOutcome.STARTED,
        Trigger.MANUAL,
        second.workflow_id,
    )


# for the past


def test_a_backfill_starts_a_run_for_each_due_time_of_a_range():
    world = Timed("0 0 * * * *")
    fires = world.backfill(MIDNIGHT - 3 * HOUR, MIDNIGHT, overlap=Overlap.ALLOW_ALL)
    assert [fire.due_at - MIDNIGHT for fire in fires] == [-3 * HOUR, -2 * HOUR, -HOUR, 0]
    assert world.started() == [-3 * HOUR, -2 * HOUR, -HOUR, 0]
    assert world.outcomes() == {"started": 4}
    assert {fire.trigger for fire in fires} == {Trigger.BACKFILL}


def test_a_backfill_starts_no_run_twice():
    world = Timed("0 0 * * * *", overlap_policy=Overlap.ALLOW_ALL)
    world.pass_time(2 * HOUR)
    fires = world.backfill(MIDNIGHT, MIDNIGHT + DAY, overlap=Overlap.ALLOW_ALL)
    assert [fire.outcome.value for fire in fires] == ["started", "skipped", "skipped"]
    assert fires[1].workflow_id == f"{NAME}-{(MIDNIGHT + HOUR) // SECOND}"
    world.backfill(MIDNIGHT, MIDNIGHT + DAY)
    assert sorted(world.started()) == [0, HOUR, 2 * HOUR]


def test_a_backfill_makes_up_for_what_was_due_while_paused():
    world = Timed("0 0 * * * *", overlap_policy=Overlap.ALLOW_ALL)
    world.pause()
    world.now += 90 * MINUTE
    world.resume()
    (fire,) = world.backfill(MIDNIGHT + MINUTE, world.now)
    assert fire.outcome is FireOutcome.STARTED
    assert world.recorded() == [(HOUR, "paused"), (HOUR, "started")]


def test_a_backfill_obeys_the_overlap_policy():
    world = Timed("0 0 * * * *", overlap_policy=Overlap.SKIP)
    fires = world.backfill(MIDNIGHT - 2 * HOUR, MIDNIGHT, overlap=Overlap.SKIP)
    assert [fire.outcome.value for fire in fires] == ["started", "skipped", "skipped"]
    world.close(world.last_run().workflow_id)
    fires = world.backfill(MIDNIGHT - 2 * HOUR, MIDNIGHT, overlap=Overlap.QUEUE)
    assert [fire.outcome.value for fire in fires] == ["skipped", "started", "queued"]
    again = world.backfill(MIDNIGHT, MIDNIGHT, overlap=Overlap.QUEUE)
    assert [fire.reason for fire in again] == ["it waits already"]
    world.close(world.last_run().workflow_id)
    assert world.started() == [-2 * HOUR, -HOUR, 0]


@pytest.mark.parametrize("policy", Overlap)
@pytest.mark.parametrize("paused", [False, True])
def test_a_backfill_without_a_policy_runs_its_due_times_one_after_the_other(policy: Overlap, paused: bool):
    world = Timed("0 * * * * *", overlap_policy=policy)
    if paused:
        world.pause()
    fires = world.backfill(MIDNIGHT - 149 * MINUTE, MIDNIGHT)
    assert Counter(fire.outcome.value for fire in fires) == {"started": 1, "queued": 149}
    for _ in range(150):
        (name,) = world.open_runs()
        world.close(name)
    assert world.started() == [number * MINUTE for number in range(-149, 1)]
    assert world.open_runs() == []


def test_a_put_makes_a_schedule_and_replaces_its_definition():
    world = Timed("0 0 * * * *", overlap_policy=Overlap.ALLOW_ALL, remaining=5, memo=Payload(b'{"a":1}'))
    before = world.pass_time(HOUR).state
    world.pause("maintenance", "me")
    wanted = Schedule(MAIN, NAME, "Other", "0 30 * * * *", input=Payload(b"1"), paused=False)
    reply = world.ask(rq.PutSchedule(MAIN, NAME, wanted)).reply
    assert (reply.created, reply.schedule) == (False, world.state)
    after = world.state
    assert (after.workflow_type, after.cron_expr, after.input) == ("Other", "0 30 * * * *", Payload(b"1"))
    assert (after.overlap_policy, after.remaining, after.memo) == (Overlap.SKIP, None, NULL)
    for kept in ("created_at", "last_run_at", "last_workflow_id", "running"):
        assert getattr(after, kept) == getattr(before, kept)
    assert (after.paused, after.pause_reason, after.paused_by) == (True, "maintenance", "me")
    assert after.next_run_at == MIDNIGHT + HOUR + 30 * MINUTE
    with pytest.raises(Invalid):
        world.ask(rq.PutSchedule(MAIN, NAME, replace(wanted, cron_expr="nonsense")))
    assert world.state == after


def test_a_backfill_that_terminates_leaves_the_last_run():
    world = Timed("0 0 * * * *", overlap_policy=Overlap.TERMINATE_OLD)
    world.backfill(MIDNIGHT - 2 * HOUR, MIDNIGHT, overlap=Overlap.TERMINATE_OLD)
    assert world.outcomes() == {"started": 3}
    assert world.open_runs() == [world.last_run().workflow_id]
    assert [run.close_reason for run in world.runs.values()] == ["terminated", "terminated", None]


@pytest.mark.parametrize(
    ("start", "end"), [(MIDNIGHT, MIDNIGHT - 1), (MIDNIGHT - 1_001 * MINUTE, MIDNIGHT)], ids=["backwards", "too long"]
)
def test_a_range_that_makes_no_sense_is_refused(start: int, end: int):
    with pytest.raises(Invalid):
        Timed().backfill(start, end)


def test_a_refused_backfill_names_its_limit():
    with refused("limit_exceeded"):
        Timed("* * * * * *").backfill(MIDNIGHT - DAY, MIDNIGHT)
