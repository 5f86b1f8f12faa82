import pytest

from assay.core.model.commands import (
    RecordSideEffect,
    RecordSnapshot,
    RecordVersion,
    ScheduleTimer,
    UpsertAttributes,
    UpsertSearchAttributes,
)
from assay.core.model.effects import PutAttributes, PutSnapshot, PutVersion
from assay.core.model.events import AttributesUpserted, SideEffectRecorded, VersionRecorded
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from tests.core.support import ONE, TWO, effects, events, given, refused, signalled, started, turned


def document(text):
    return Payload(text.encode())


def test_an_upsert_is_recorded_and_merged_by_key():
    world = given(started(search_attributes=document('{"a":1,"b":1}')))
    patch = document('{"b":2,"c":[3]}')
    decision = world.take(turned(UpsertAttributes(search=patch)))
    assert events(decision) == [AttributesUpserted(search=patch)]
    assert world.run.search == document('{"a":1,"b":2,"c":[3]}')


def test_an_upsert_of_the_original_is_the_same():
    world = given(started(), turned(UpsertSearchAttributes(document('{"a":1}'))))
    assert (world.run.search, world.run.task.ready) == (document('{"a":1}'), False)


def test_null_removes_a_key():
    world = given(started(search_attributes=document('{"a":1,"b":1}'), memo=document('{"m":1}')))
    world.take(turned(UpsertAttributes(document('{"a":null}'), document('{"m":null}'))))
    assert (world.run.search, world.run.memo) == (document('{"b":1}'), NULL)


def test_the_memo_is_merged_without_the_search_attributes():
    world = given(started(search_attributes=document('{"a":1}')))
    world.take(turned(UpsertAttributes(memo=document('{"m":{"deep":[1]}}'))))
    assert (world.run.search, world.run.memo) == (document('{"a":1}'), document('{"m":{"deep":[1]}}'))


def test_upserts_of_one_turn_build_on_each_other():
    world = given(started())
    patches = [UpsertAttributes(document(text)) for text in ('{"a":1}', '{"b":2}', '{"a":null}')]
    decision = world.take(turned(*patches))
    assert len(effects(decision, PutAttributes)) == 3
    assert world.run.search == document('{"b":2}')


def test_values_keep_their_bytes():
    world = given(started(), turned(UpsertAttributes(document('{"n":1.0,"big":123456789012345678901}'))))
    assert world.run.search == document('{"n":1.0,"big":123456789012345678901}')


@pytest.mark.parametrize(
    "search",
    [
        "[1]",
        "1",
        '"text"',
        '{"1st":1}',
        '{"with space":1}',
        '{"":1}',
        f'{{"{"k" * 65}":1}}',
        f'{{"long":"{"x" * LIMITS.search_attribute_bytes}"}}',
        "{" + ",".join(f'"k{n}":1' for n in range(LIMITS.search_attributes + 1)) + "}",
    ],
    ids=lambda text: text[:12],
)
def test_search_attributes_have_limits(search):
    with refused("invalid"):
        given(started()).when(turned(UpsertAttributes(document(search))))


def test_the_limit_counts_what_is_there_already():
    full = "{" + ",".join(f'"k{n}":1' for n in range(LIMITS.search_attributes)) + "}"
    world = given(started(search_attributes=document(full)))
    with refused("invalid"):
        world.when(turned(UpsertAttributes(document('{"one_more":1}'))))
    assert events(world.when(turned(UpsertAttributes(document('{"k0":null,"one_more":1}')))))


def test_a_memo_must_be_an_object():
    with refused("invalid"):
        given(started()).when(turned(UpsertAttributes(memo=document("[1]"))))


# side effects


@pytest.mark.parametrize("value", ["null", "false", '"rep-1"', "[]"])
def test_a_side_effect_is_kept_as_it_came_null_included(value):
    world = given(started(), turned(RecordSideEffect(1, "id", document(value))))
    assert world.history()[-1] == SideEffectRecorded(1, "id", document(value))


def test_a_side_effect_is_recorded_once_per_seq():
    world = given(started(), turned(RecordSideEffect(1, "id", ONE)))
    assert events(world.when(turned(RecordSideEffect(1, "id", TWO)))) == []
    assert world.when(turned(RecordSideEffect(1, "id", TWO))).task.ready


def test_side_effects_of_one_turn_are_told_apart_by_seq():
    commands = [RecordSideEffect(seq, "id", value) for seq, value in ((1, ONE), (2, TWO), (2, ONE))]
    assert [event.value for event in events(given(started()).when(turned(*commands)))] == [ONE, TWO]


def test_a_worker_that_leaves_out_seq_counts_from_zero():
    assert len(events(given(started()).when(turned(RecordSideEffect(name="id", value=ONE))))) == 1


# versions and snapshots


def test_a_version_is_kept_for_the_life_of_the_run():
    assert events(given(started()).when(turned(RecordVersion("new-tax", 2)))) == [VersionRecorded("new-tax", 2)]


def test_the_same_version_again_has_no_effect():
    world = given(started(), turned(RecordVersion("new-tax", 2)), signalled())
    assert world.run.versions == {"new-tax": 2}
    decision = world.when(turned(RecordVersion("new-tax", 2), RecordVersion("other", 0), RecordVersion("other", 0)))
    assert events(decision) == [VersionRecorded("other", 0)]
    assert effects(decision, PutVersion) == [PutVersion("other", 0)]


@pytest.mark.parametrize("earlier", ["in an earlier turn", "in the same turn"])
def test_another_version_of_a_change_fails_the_task_and_not_the_run(earlier):
    world = given(started())
    first = RecordVersion("new-tax", 2)
    if earlier == "in an earlier turn":
        world.take(turned(first))
        world.take(signalled())
    world.take(turned(first, ScheduleTimer(1, 1.0), RecordVersion("new-tax", 3)))
    assert not world.run.closed
    assert not world.run.timers
    assert world.run.task.worker is None
    assert world.run.task.stuck.reason == "non_determinism"
    assert "version 2 of change 'new-tax' is recorded, not 3" in world.run.task.stuck.message
    assert world.run.versions == ({"new-tax": 2} if earlier == "in an earlier turn" else {})


@pytest.mark.parametrize("version", [-1, 2**31])
def test_the_default_version_is_never_recorded(version):
    with refused("invalid"):
        given(started()).when(turned(RecordVersion("new-tax", version)))


@pytest.mark.parametrize("change_id", ["", "x" * 256])
def test_a_change_id_has_limits(change_id):
    with refused("invalid"):
        given(started()).when(turned(RecordVersion(change_id, 1)))


def test_a_snapshot_is_no_event_and_has_the_seq_before_the_rest_of_the_turn():
    decision = given(started(), signalled()).when(turned(RecordSnapshot(ONE), ScheduleTimer(1, 1.0)))
    assert effects(decision, PutSnapshot) == [PutSnapshot(2, ONE)]
    assert len(events(decision)) == 1
