"""Hot questions use an index on both databases, whatever the tables hold."""

from typing import Any

import pytest

from assay.core.model.effects import OUTBOX_KINDS
from assay.storage.ports import RunFilter, ServedQueue
from assay.storage.postgres.store import PostgresStore
from assay.storage.sql import journal, leftovers, queries
from assay.storage.sql import tables as t
from assay.storage.sql.dialect import Verb
from assay.storage.sql.tables import Table
from tests.core.support import MAIN, NOW
from tests.storage.support import AnyStore

DEMANDS = (["main", "main"], ["default", "other"], ["T", "U"], [10, 5])
IDS, PAIRS = ("a", "b"), (("main", "a"), ("main", "b"))

BY_IDS = ["RUNS_BY_ID", "INPUTS", "OPEN_ACTIVITIES", "RUN_DEADLINES", "OPEN_CHILDREN"]
BY_PAIRS = ["NEWEST_RUNS", "OUTCOMES_BY_KEY"]
BY_VALUES: dict[str, tuple[object, ...]] = {
    "EVENTS_AFTER": ("a", 0, 10),
    "EVENTS_AFTER_OF_KIND": ("a", 0, 10, "SignalReceived"),
    "DUE": (NOW, NOW, 10),
    "NEXT_DUE": (),
    "READY_TASKS": ("main", "default", "T", 0, "", 10),
    "READY_TASKS_OF_ALL_TYPES": ("main", "default", "", 0, "", 10),
    "READY_ACTIVITIES": ("main", "default", "charge", 0, "", 0, 10),
    "READY_ACTIVITIES_OF_ALL_NAMES": ("main", "default", "", 0, "", 0, 10),
    "WAITING_TASKS": (),
    "WAITING_ACTIVITIES": (),
    "LOCAL_TASKS": (),
    "LOCAL_ACTIVITIES": (),
    "MESSAGES": (NOW, 10),
    "RESERVE_NUMBERS": (10,),
    "SNAPSHOT": ("a",),
    "ACTIVITY": (5,),
    "DESCRIBE_NEWEST": ("main", "a"),
    "DESCRIBE_RUN": ("main", "a", "b"),
}
ON_POSTGRES_ALONE: dict[str, tuple[object, ...]] = {
    "RESERVE_TASKS": (*DEMANDS, NOW, NOW),
    "RESERVE_TASKS_OF_ALL_TYPES": (*DEMANDS, NOW, NOW),
    "RESERVE_ACTIVITIES": (*DEMANDS, NOW, NOW),
    "RESERVE_ACTIVITIES_OF_ALL_NAMES": (*DEMANDS, NOW, NOW),
}
READY = [name for name in BY_VALUES if name.startswith("READY_")]
SORTED_BY_INDEX = ["EVENTS_AFTER", "DUE", *READY, "MESSAGES"]

FILTERS = {
    "a page": RunFilter(namespace=MAIN),
    "a later page": RunFilter(namespace=MAIN, cursor=(NOW, "a")),
    "open ones": RunFilter(namespace=MAIN, status="RUNNING"),
    "all open ones": RunFilter(namespace=MAIN, open=True),
    "closed ones": RunFilter(namespace=MAIN, open=False),
    "stuck ones": RunFilter(namespace=MAIN, stuck=True),
    "stuck ones of served queues": RunFilter(
        namespace=MAIN, stuck=True, served=(ServedQueue("default", ("Order",)),), served_before=NOW
    ),
    "a chain": RunFilter(namespace=MAIN, workflow_id="a"),
    "children": RunFilter(namespace=MAIN, parent_id="a"),
    "by attribute": RunFilter(namespace=MAIN, search=(("stage", "new"),)),
    "by text": RunFilter(namespace=MAIN, text="a"),
}

WRITES = [
    (Verb.UPDATE, t.RUN_UPDATES),
    (Verb.UPDATE, t.RUN_CLOSINGS),
    (Verb.DELETE, t.CLEARED),
    (Verb.DELETE, t.CLOSED),
    (Verb.DELETE, t.UNATTRIBUTED),
    (Verb.DELETE, t.ACKNOWLEDGED),
]


async def plan(store: AnyStore, text: str, arguments: tuple[Any, ...]) -> list[str]:
    """The steps of a plan, a line each."""
    if isinstance(store, PostgresStore):
        return [row[0].strip() for row in await store.query(f"EXPLAIN {text}", *arguments)]
    return [row[3] for row in await store.query(f"EXPLAIN QUERY PLAN {text}", *arguments)]


def scans(steps: list[str]) -> list[str]:
    """The steps that read a whole table; a list that is part of the question is no table."""
    return [step for step in steps if "Seq Scan on" in step or ("SCAN" in step and "USING" not in step)]


def read(steps: list[str]) -> list[str]:
    harmless = (
        "json_each",
        "wanted",
        "VIRTUAL",
        "CONSTANT ROW",
        "due_runs",
        "due_schedules",
        "listed",
        "page",
        "(subquery",
    )
    return [step for step in scans(steps) if not any(name in step for name in harmless)]


@pytest.mark.parametrize("name", ON_POSTGRES_ALONE)
async def test_a_reservation_uses_an_index(postgres: PostgresStore, name: str):
    assert read(await plan(postgres, getattr(queries, name), ON_POSTGRES_ALONE[name])) == []


@pytest.mark.parametrize("name", [*BY_IDS, *BY_PAIRS, *BY_VALUES])
async def test_a_question_uses_an_index(store: AnyStore, name: str):
    text = getattr(queries, name)
    if name in BY_IDS:
        arguments: tuple[Any, ...] = (store.dialect.texts(IDS),)
    elif name in BY_PAIRS:
        arguments = store.dialect.pairs(PAIRS)
    else:
        arguments = BY_VALUES[name]
        if name == "MESSAGES":
            arguments = (*arguments, store.dialect.texts(OUTBOX_KINDS))
    steps = await plan(store, text, arguments)
    # SQLite reads the outbox in the order of its key, the oldest message first, and stops at the limit.
    assert [step for step in read(steps) if (name, step) != ("MESSAGES", "SCAN o")] == []
    if name in SORTED_BY_INDEX:
        assert not [step for step in steps if "Sort" in step or "TEMP B-TREE" in step]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (journal.AFTER, (0, 0, journal.MAX_INT64, 10)),
        (leftovers.OLD_NOTES, (NOW, 10, 5)),
        (leftovers.FORGET_NOTES, (0, NOW, 5)),
    ],
    ids=["a page of the journal", "old notes", "to forget them"],
)
async def test_the_journal_is_read_by_an_index(store: AnyStore, text: str, arguments: tuple[Any, ...]):
    steps = await plan(store, text, arguments)
    assert read(steps) == []
    assert not [step for step in steps if "Sort" in step or "TEMP B-TREE" in step]


@pytest.mark.parametrize("name", FILTERS)
async def test_a_list_uses_an_index(store: AnyStore, name: str):
    for text, arguments in (queries.list_runs(FILTERS[name]), queries.count_runs(FILTERS[name])):
        assert read(await plan(store, text, tuple(arguments))) == []


async def test_a_page_of_a_list_is_not_sorted(store: AnyStore):
    text, question = queries.listed_runs(FILTERS["a later page"])
    steps = await plan(store, text, tuple(question.arguments))
    assert not [step for step in steps if "Sort" in step or "TEMP B-TREE" in step]


@pytest.mark.parametrize(("verb", "table"), WRITES, ids=lambda value: getattr(value, "name", value))
async def test_a_write_finds_its_rows_by_an_index(store: AnyStore, verb: Verb, table: Table):
    text = store.dialect.write(verb, table)
    if isinstance(store, PostgresStore):
        arguments: tuple[Any, ...] = tuple(store.dialect.arrays(table, [(None,) * len(table.columns)]))
    else:
        arguments = (None,) * len(table.columns)
    assert read(await plan(store, text, arguments)) == []


def test_a_scan_is_found():
    assert read(["SCAN runs", "SEARCH runs USING INDEX runs_open (namespace=?)"]) == ["SCAN runs"]
    assert read(["->  Seq Scan on events  (cost=0.00..1.00)"])
    assert read(["SCAN json_each VIRTUAL TABLE INDEX 1:", "SCAN d USING COVERING INDEX deadlines_due"]) == []
