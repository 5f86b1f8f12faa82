"""A name that a database cannot store is not found, and fails no other request of its batch."""

from assay.core.model.ids import Namespace, RunId, WorkflowId
from tests.core.support import MAIN, ORDER, started
from tests.storage.support import AnyStore, StoredWorld

IMPOSSIBLE = "a\0b"


async def test_impossible_names_hide_nobody_else(store: AnyStore):
    await StoredWorld(store).do(started())
    (run,) = await store.load([RunId(IMPOSSIBLE)], [(MAIN, WorkflowId(IMPOSSIBLE)), (MAIN, ORDER)])
    assert run.workflow_id == ORDER
    assert [found.run_id for found in await store.load([run.run_id, RunId(IMPOSSIBLE)], [])] == [run.run_id]
    assert await store.outcomes([("main", IMPOSSIBLE), (IMPOSSIBLE, "key")]) == []
    assert list(await store.load_schedules([(MAIN, IMPOSSIBLE), (Namespace(IMPOSSIBLE), "nightly")])) == []
