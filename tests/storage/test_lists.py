"""Which runs a list shows, and in which order."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Namespace, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.requests import StartWorkflow, WorkflowId
from assay.storage.ports import RunFilter, ServedQueue
from assay.storage.sql.rows import canonical
from tests.core.support import (
    CHILD,
    MAIN,
    NOW,
    ONE,
    ORDER,
    TWO,
    bore,
    claimed,
    fails_task,
    later,
    starts,
    terminates,
    turned,
)
from tests.storage.support import AnyStore, StoredWorld, as_stored

ODD_IDS = [
    "a b",
    "a%b",
    "a_b",
    "a'b",
    'a"b',
    "a\\b",
    "a/b?c#d",
    "$1",
    "?1",
    "{0}",
    "ünï",
    "🙂",
    "x" * 255,
    "A",
    "a",
    "é",
    "e\u0301",
    "-- ;",
]


def found(records: object) -> list[str]:
    return [record.run.workflow_id for record in records]  # type: ignore[attr-defined]


async def listed(store: AnyStore, **wanted: object) -> list[str]:
    """The workflow ids that a filter finds; the count must agree."""
    query = RunFilter(**{"namespace": MAIN, **wanted})  # type: ignore[arg-type]
    records = await store.list_runs(query)
    assert await store.count_runs(query) == len(records)
    return found(records)


async def test_a_record_has_the_row_the_input_and_the_result(store: AnyStore):
    world = await StoredWorld(store).do(starts(input=ONE), turned(cmd.CompleteWorkflow(TWO)))
    (record,) = await store.list_runs(RunFilter(namespace=MAIN))
    assert as_stored(record.run) == as_stored(world.run)
    assert (record.input, record.result) == (ONE, TWO)
    assert await store.describe(MAIN, ORDER, None) == record
    assert await store.describe(MAIN, ORDER, world.run.run_id) == record


async def test_describe_knows_each_run_of_a_chain(store: AnyStore):
    world = await StoredWorld(store).do(starts(input=ONE), turned(cmd.ContinueAsNew(TWO)))
    first, second = world.runs
    newest = await store.describe(MAIN, ORDER, None)
    assert newest is not None
    assert (newest.run.run_id, newest.input) == (second, TWO)
    oldest = await store.describe(MAIN, ORDER, first)
    assert oldest is not None
    assert (oldest.run.next_run_id, oldest.input) == (second, ONE)
    assert await store.describe(MAIN, CHILD, None) is None
    assert await store.describe(MAIN, CHILD, first) is None
    assert await store.describe("other", ORDER, first) is None


async def test_the_newest_comes_first_and_pages_follow_each_other(store: AnyStore):
    world = StoredWorld(store)
    for number in range(25):
        world.take(starts(f"order-{number:02}"))
        if number % 3 == 0:  # runs of one moment must not be lost between two pages
            world.now += SECOND
    await world.commit()
    everything = await listed(store)
    assert sorted(everything) == [f"order-{number:02}" for number in range(25)]
    assert everything == await _by_cursor(store)
    pages = [await store.list_runs(RunFilter(namespace=MAIN, limit=10, offset=offset)) for offset in (0, 10, 20)]
    assert everything == [workflow_id for page in pages for workflow_id in found(page)]


async def _by_cursor(store: AnyStore) -> list[str]:
    seen: list[str] = []
    cursor: tuple[Time, str] | None = None
    while page := await store.list_runs(RunFilter(namespace=MAIN, limit=4, cursor=cursor)):
        seen += found(page)
        cursor = (page[-1].run.created_at, page[-1].run.run_id)
    return seen


async def test_open_closed_and_stuck_runs_are_found(store: AnyStore):
    world = StoredWorld(store)
    await world.do(
        starts("closed"),
        turned(cmd.CompleteWorkflow(ONE), of=WorkflowId("closed")),
        later(SECOND),
        starts("fresh"),
        later(SECOND),
        starts(),
        claimed(),
        fails_task("task_failed", "NameError"),
        later(SECOND),
        starts("misspelt", workflow_type="Ordr"),
    )
    assert await listed(store, open=True) == ["misspelt", ORDER, "fresh"]
    assert await listed(store, open=False) == ["closed"]
    assert await listed(store, stuck=True) == [ORDER]
    assert await listed(store, stuck=False) == ["misspelt", "fresh", "closed"]
    served = (ServedQueue("default", ("Order",)), ServedQueue("slow", ()))
    assert await listed(store, stuck=True, served=served) == ["misspelt", ORDER]
    assert await listed(store, stuck=True, served=served, served_before=NOW) == [ORDER]
    assert await listed(store, stuck=True, served=(ServedQueue("default", ("Ordr", "Order")),)) == [ORDER]


async def test_filters(store: AnyStore):
    world = StoredWorld(store)
    await world.do(
        starts("a", workflow_type="Report", task_queue="slow"),
        later(SECOND),
        starts("b"),
        later(SECOND),
        starts("c"),
        terminates(WorkflowId("c")),
        turned(cmd.CompleteWorkflow(ONE), of=WorkflowId("b")),
    )
    world.take(StartWorkflow(namespace=Namespace("other"), workflow_id=WorkflowId("d"), workflow_type="Order"))
    await world.commit()
    assert await listed(store) == ["c", "b", "a"]
    assert await listed(store, namespace="other") == ["d"]
    assert await listed(store, namespace="nowhere") == []
    assert await listed(store, status="PENDING") == ["a"]
    assert await listed(store, status="COMPLETED") == ["b"]
    assert await listed(store, status="FAILED") == ["c"]
    assert await listed(store, status="RUNNING") == []
    assert await listed(store, workflow_type="Report") == ["a"]
    assert await listed(store, task_queue="default") == ["c", "b"]
    assert await listed(store, workflow_id="b") == ["b"]
    assert await listed(store, created_after=NOW) == ["c", "b"]
    assert await listed(store, created_before=NOW + SECOND) == ["a"]
    assert await listed(store, created_after=NOW, created_before=NOW + 2 * SECOND, status="COMPLETED") == ["b"]


async def test_children_are_listed_by_the_id_of_their_parent(store: AnyStore):
    await StoredWorld(store).do(starts(), bore(), starts("stranger"))
    assert await listed(store, parent_id=ORDER) == [CHILD]
    assert await listed(store, parent_id="stranger") == []


async def test_odd_ids_are_ids(store: AnyStore):
    world = StoredWorld(store)
    for workflow_id in ODD_IDS:
        world.take(starts(workflow_id))
    await world.commit()
    for workflow_id in ODD_IDS:
        assert await listed(store, workflow_id=workflow_id) == [workflow_id]
        (run,) = await store.load([], [(MAIN, WorkflowId(workflow_id))])
        assert run.workflow_id == workflow_id
        record = await store.describe(MAIN, workflow_id, None)
        assert record is not None


TEXTS = [
    ("b", ["Ab%c", "abd"]),
    ("B%", ["Ab%c"]),
    ("%", ["Ab%c"]),
    ("_", []),
    ("AB", ["Ab%c", "abd"]),
    ("RUN-2", ["abd"]),
    ("order", ["Ab%c", "abd", "ä"]),
    ("ä", ["ä"]),
    ("Ä", []),
    ("'", []),
]


async def test_text_is_looked_for_as_it_is(store: AnyStore):
    await StoredWorld(store).do(starts("Ab%c"), starts("abd"), starts("ä"))
    for text, matching in TEXTS:
        assert (text, sorted(await listed(store, text=text))) == (text, matching)


ATTRIBUTES = {
    "number": b'{"v":5}',
    "float": b'{"v":5.0}',
    "fraction": b'{"v":5.5}',
    "text": b'{"v":"5"}',
    "true": b'{"v":true}',
    "one": b'{"v":1}',
    "word": b'{"v":"true"}',
    "list": b'{"v":[5,"a",null,{"b":1},5.0]}',
    "object": b'{"v":{"a":5}}',
    "other": b'{"w":5}',
    "large": b'{"v":123456789012345678901234567890}',
    "quote": b'{"v":"a\'b\\"c"}',
    "two": b'{"v":5,"w":"x"}',
}


SEARCHES: list[tuple[tuple[tuple[str, object], ...], list[str]]] = [
    ((("v", 5),), ["float", "list", "number", "two"]),
    ((("v", 5.0),), ["float", "list", "number", "two"]),
    ((("v", 5.5),), ["fraction"]),
    ((("v", "5"),), ["text"]),
    ((("v", True),), ["true"]),
    ((("v", 1),), ["one"]),
    ((("v", "true"),), ["word"]),
    ((("v", "a"),), ["list"]),
    ((("v", ["a", 5]),), ["list"]),
    ((("v", ["a", 6]),), []),
    ((("v", None),), []),
    ((("v", {"a": 5}),), []),
    ((("v", 123456789012345678901234567890),), ["large"]),
    ((("v", "a'b\"c"),), ["quote"]),
    ((("v", 5), ("w", "x")), ["two"]),
    ((("V", 5),), []),
]


async def test_search_attributes_are_typed(store: AnyStore):
    world = StoredWorld(store)
    for workflow_id, attributes in ATTRIBUTES.items():
        world.take(starts(workflow_id, search_attributes=Payload(attributes)))
    await world.commit()
    for search, matching in SEARCHES:
        assert (search, sorted(await listed(store, search=search))) == (search, matching)


async def test_changed_attributes_replace_the_old_ones(store: AnyStore):
    world = await StoredWorld(store).do(starts(search_attributes=Payload(b'{"stage":"new","n":1}')))
    await world.do(turned(cmd.UpsertAttributes(search=Payload(b'{"stage":["a","b"],"n":null}'))))
    assert await listed(store, search=(("stage", "new"),)) == []
    assert await listed(store, search=(("n", 1),)) == []
    assert await listed(store, search=(("stage", "b"),)) == [ORDER]


async def test_runs_are_found_by_the_versions_that_they_recorded(store: AnyStore):
    world = StoredWorld(store)
    await world.do(starts("one"), starts("two"), starts("three"))
    await world.do(turned(cmd.RecordVersion("pay", 1), cmd.RecordVersion("a:2", 7), of=WorkflowId("one")))
    await world.do(turned(cmd.RecordVersion("pay", 2), of=WorkflowId("two")))
    assert await listed(store, change_version="pay") == ["two", "one"]
    assert await listed(store, change_version="pay:2") == ["two"]
    assert await listed(store, change_version="pay:1", workflow_id="one") == ["one"]
    for none in ("pay:3", "pay:-1", "pa", "pay:", ":1", "pay:99999999999999999999", "pay:²"):
        assert await listed(store, change_version=none) == []
    assert await listed(store, change_version="a:2") == ["one"]
    assert await listed(store, change_version="a:2:7") == ["one"]
    assert await listed(store, change_version="pay", namespace="elsewhere") == []
    await world.do(terminates(WorkflowId("two")))
    assert await listed(store, change_version="pay", open=True) == ["one"]


async def test_a_run_read_again_has_its_versions(store: AnyStore):
    world = await StoredWorld(store).do(starts(), turned(cmd.RecordVersion("pay", 2), cmd.ScheduleTimer(1, 60.0)))
    (run,) = await store.load([world.run.run_id], ())
    assert as_stored(run) == as_stored(world.run)
    assert run.versions == {"pay": 2}


async def test_attributes_of_another_namespace_are_not_seen(store: AnyStore):
    await StoredWorld(store).do(starts(search_attributes=Payload(b'{"a":1}')))
    assert await listed(store, namespace="other", search=(("a", 1),)) == []


async def test_half_a_character_is_refused_and_breaks_nothing(store: AnyStore):
    with pytest.raises(AssayError) as caught:
        await store.describe(MAIN, "\ud800", None)
    assert caught.value.code == "invalid"
    assert await store.describe(MAIN, ORDER, None) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("prod", "s:prod"),
        (5, "n:5"),
        (5.0, "n:5"),
        (-0.0, "n:0"),
        (1e300, f"n:{int(1e300)}"),
        (0.1, "n:0.1"),
        (True, "b:true"),
        (None, None),
        ({}, None),
        ([], None),
    ],
)
def test_equal_values_are_equal_texts(value: object, text: str | None):
    assert canonical(value) == text


async def _pages(store: AnyStore, **wanted: object) -> list[tuple[list[str], bool]]:
    """Every page of a list, with its `more`."""
    pages: list[tuple[list[str], bool]] = []
    cursor = None
    while not pages or pages[-1][1]:
        page = await store.list_runs(RunFilter(**{"namespace": MAIN, "cursor": cursor, **wanted}))  # type: ignore[arg-type]
        pages.append((found(page), page.more))
        cursor = (page[-1].run.created_at, page[-1].run.run_id) if page else None
    return pages


async def test_a_page_ends_with_the_run_that_passes_the_bytes(store: AnyStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.storage.sql.queries.RUNS_PAGE_BYTES", 100_000)
    world = StoredWorld(store)
    for size in (10, 60, 60, 10, 500, 10, 40):  # listed from the last to the first
        world.take(starts(f"of-{size}-{len(world.runs)}", input=Payload(b'"' + b"x" * 1_000 * size + b'"')))
        world.now += SECOND
    await world.commit()
    newest_first = [(["of-40-6", "of-10-5", "of-500-4"], True), (["of-10-3", "of-60-2", "of-60-1"], True)]
    assert await _pages(store) == [*newest_first, (["of-10-0"], False)]
    assert await _pages(store, limit=2) == [
        (["of-40-6", "of-10-5"], True),
        (["of-500-4"], True),
        (["of-10-3", "of-60-2"], True),
        (["of-60-1", "of-10-0"], False),
    ]
    assert await _pages(store, oldest_first=True) == [
        (["of-10-0", "of-60-1", "of-60-2"], True),
        (["of-10-3", "of-500-4"], True),
        (["of-10-5", "of-40-6"], False),
    ]


async def test_results_and_memos_count_as_bytes_of_a_page(store: AnyStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.storage.sql.queries.RUNS_PAGE_BYTES", 100_000)
    large = Payload(b'{"x":"' + b"x" * 200_000 + b'"}')
    world = await StoredWorld(store).do(starts(), turned(cmd.CompleteWorkflow(large)))
    for name, memo in (("with memo", large), ("last", NULL)):
        world.now += SECOND
        world.take(starts(name, memo=memo))
    await world.commit()
    assert await _pages(store) == [(["last", "with memo"], True), ([ORDER], False)]
    monkeypatch.setattr("assay.storage.sql.queries.RUNS_PAGE_BYTES", 300_000)
    assert await _pages(store, oldest_first=True) == [([ORDER, "with memo"], True), (["last"], False)]


async def test_more_follow_only_where_there_is_another_run(store: AnyStore):
    world = StoredWorld(store)
    for number in range(4):
        world.take(starts(f"order-{number}"))
    await world.commit()
    assert [more for _, more in await _pages(store, limit=2)] == [True, False]
    assert [more for _, more in await _pages(store, limit=4)] == [False]
    assert (await store.list_runs(RunFilter(namespace="other"))).more is False
