"""Failure groups, alike on both databases: written with the end of a run, read with their numbers."""

from assay.core.model import commands as cmd
from assay.core.model.ids import SECOND
from assay.core.rules.failure_groups import FailureGroup
from assay.storage.run_filter import RunFilter
from assay.storage.sql.failure_groups import SqlFailures
from tests.core.support import NOW, ORDER, claimed, started, turned
from tests.storage.support import AnyStore, StoredWorld


async def failed(store: AnyStore) -> tuple[SqlFailures, FailureGroup]:
    world = StoredWorld(store)
    world.take(started())
    world.take(claimed())
    world.take(turned(cmd.FailWorkflow("order 5 declined")))
    await world.commit()
    failures = SqlFailures(store)
    (group,) = await failures.groups("main", 0, 10)
    return failures, group


async def test_a_failed_run_is_in_its_group(store: AnyStore):
    failures, group = await failed(store)
    assert (group.count, group.open, group.source, group.where) == (1, 1, "run", "workflow")
    assert await failures.group("main", group.fingerprint) == group
    assert await failures.group("other", group.fingerprint) is None
    assert await failures.group("main", "nothing") is None
    assert await failures.groups("main", group.last_seen + 1, 10) == []
    hours = await failures.per_hour("main", [group.fingerprint], NOW - 3_600 * SECOND)
    assert sum(hours[group.fingerprint]) == 1
    assert await failures.sample("main", group.fingerprint) == (ORDER, "run-1")
    found = await store.list_runs(RunFilter(namespace="main", failure=group.fingerprint))
    assert [record.run.run_id for record in found] == ["run-1"]
    assert await failures.failing("main", 10) == []


async def test_words_of_people_are_kept(store: AnyStore):
    failures, group = await failed(store)
    fields = {"state": "muted", "changed_at": NOW, "until_count": 7, "assignee": "ana", "note": "known"}
    changed = FailureGroup(**{name: getattr(group, name) for name in group.__struct_fields__} | fields)
    await failures.change(changed, None)
    assert await failures.group("main", group.fingerprint) == changed
