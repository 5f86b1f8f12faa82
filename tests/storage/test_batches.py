"""Bulk actions, alike on both databases: one engine at a time, each outcome once."""

from msgspec.structs import replace

from assay.core.model.ids import SECOND
from assay.storage.batch_ports import BatchItem, BatchRow
from assay.storage.sql.batches import SqlBatches
from tests.core.support import NOW
from tests.storage.support import AnyStore

ROW = BatchRow(
    batch_id="b-1",
    namespace="main",
    token="t",  # noqa: S106  # not a secret
    action="cancel",
    arguments=b"{}",
    reason=None,
    filter=b"{}",
    as_of=NOW,
    state="preview",
    total=0,
    started_by="ana",
    started_at=NOW,
    expires_at=NOW + SECOND,
)
ITEMS = [BatchItem(place=place, workflow_id=f"w-{place}", run_id=f"r-{place}") for place in range(3)]


async def test_a_batch_from_its_preview_to_its_end(store: AnyStore):
    batches = SqlBatches(store)
    await batches.add(ROW)
    assert await batches.by_token("t") == ROW
    assert await batches.batches("main", 10) == []
    assert await batches.take("one", NOW, NOW + 10) is None
    for _ in range(2):
        await batches.start("b-1", ITEMS, "ana", NOW, None)
    taken = await batches.take("one", NOW, NOW + 10)
    assert taken is not None
    assert (taken.batch_id, taken.total) == ("b-1", 3)
    assert await batches.take("two", NOW, NOW + 10) is None
    assert await batches.items("b-1", None, -1, 10, undone=True) == ITEMS
    done = [replace(item, outcome="succeeded") for item in ITEMS[:2]]
    assert await batches.settle("b-1", done, "one", NOW + 20)
    assert not await batches.settle("b-1", [replace(ITEMS[0], outcome="refused")], "two", NOW + 20)
    assert await batches.items("b-1", "succeeded", -1, 10) == done
    over = await batches.take("two", NOW + 20, NOW + 30)  # the lease of the first engine has run out
    assert over is not None
    assert (over.succeeded, over.refused) == (2, 0)
    assert await batches.items("b-1", None, -1, 10, undone=True) == ITEMS[2:]
    assert not await batches.settle("b-1", [], "one", NOW + 40)
    await batches.end("b-1", "done", NOW + 50)
    await batches.end("b-1", "stopped", NOW + 60)
    (ended,) = await batches.batches("main", 10)
    assert (ended.state, ended.ended_at) == ("done", NOW + 50)
