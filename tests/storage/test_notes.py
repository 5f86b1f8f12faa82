"""What no history tells is in the journal once and for good, in one order with all events; on both databases (I24)."""

import asyncio

import pytest

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.schedules.model import Fire, FireOutcome
from assay.storage.ports import BEGINNING, Changes, JournalEntry, JournalRow, Note, Unfired
from assay.storage.sql.journal import SqlJournal
from assay.storage.sql.leftovers import SqlLeftovers
from assay.storage.sql.notes import ITEMS_PER_NOTE
from assay.storage.verify import verify
from tests.core.schedules.schedule_support import MIDNIGHT, MINUTE
from tests.core.support import MAIN, ORDER, claims, fails, leases, signals, starts, terminates, turned, turns
from tests.storage.support import AnyStore, StoredWorld, Stores, at

Step = rq.Request


@pytest.fixture
def journal(store: AnyStore) -> SqlJournal:
    return SqlJournal(store)


async def rows(journal: SqlJournal, count: int) -> list[JournalRow]:
    """So many rows; a transaction of another test on the same server holds back what is younger than it."""
    while len(found := list(await journal.after(BEGINNING, 5_000))) < count:
        await asyncio.sleep(0.01)
    assert [news.position for news in found] == sorted({news.position for news in found})
    assert len(found) == count
    return found


def summaries(found: list[JournalRow]) -> list[str]:
    """What the journal says, a word each: an event by its kind, a claim by the id of its run."""
    words: list[str] = []
    for news in found:
        if isinstance(news, JournalEntry):
            words += [news.kind, *([f"claimed {news.workflow_id}"] if news.claimed else [])]
        else:
            words += [f"claimed {claim.workflow_id}" for claim in news.claims]
            words += [f"{fire.outcome} {(fire.due_at - MIDNIGHT) // MINUTE}" for fire in news.fires]
    return words


async def commit(world: StoredWorld, *steps: Step) -> None:
    """All of this in one transaction."""
    for step in steps:
        world.take(step)
    await world.commit()


async def test_a_claim_with_an_event_of_its_run_needs_no_row_of_its_own(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    await commit(world, starts(), claims())
    assert summaries(await rows(journal, 1)) == ["WorkflowStarted", f"claimed {ORDER}"]


async def test_a_claim_by_itself_is_noted_once(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    await world.do(starts(), starts("never"), claims(), terminates("never"))
    await world.do(turns(cmd.ScheduleActivity(1, "x")), signals(), claims(), terminates())
    assert summaries(await rows(journal, 7)) == [
        "WorkflowStarted", "WorkflowStarted", f"claimed {ORDER}", "WorkflowTerminated", "ActivityScheduled",
        "SignalReceived", "WorkflowTerminated",
    ]  # fmt: skip
    assert [violation async for violation in verify(store, world.now)] == []


async def test_a_claim_comes_after_what_was_before_it_and_before_what_follows(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    await world.do(starts("a"), starts("b"))
    await commit(world, signals(of="a"), claims(of="a"), signals("more", of="a"))
    await commit(world, claims(of="b"), terminates("b"))
    assert summaries(await rows(journal, 6))[2:] == [
        "SignalReceived", "claimed a", "SignalReceived", "claimed b", "WorkflowTerminated"
    ]  # fmt: skip


async def test_many_claims_of_one_transaction_are_one_row(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    names = [f"w{number}" for number in range(ITEMS_PER_NOTE + 1)]
    await commit(world, *(starts(name) for name in names))
    await commit(world, *(claims(of=name) for name in names))
    found = await rows(journal, len(names) + 2)
    assert summaries(found)[len(names) :] == [f"claimed {name}" for name in names]
    note = found[len(names)]
    assert isinstance(note, Note)
    first = note.claims[0]
    assert (first.namespace, first.run_id, first.workflow_type, first.task_queue) == (
        "main", world.newest["w0"].run_id, "Order", "default"
    )  # fmt: skip


async def test_a_reopened_run_is_claimed_like_any_other(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    await commit(world, starts(), claims(), turns(cmd.ScheduleActivity(1, "x", max_attempts=1)), leases(1), fails(1))
    await commit(world, turned(cmd.FailWorkflow("x")))
    await commit(world, rq.RetryFailed(MAIN, ORDER, None, "ada", "again", histories=world.histories))
    await commit(world, claims())
    assert summaries(await rows(journal, 7))[5:] == ["WorkflowStarted", "ActivityScheduled", f"claimed {ORDER}"]


async def test_a_claim_that_is_lost_to_another_engine_is_not_noted(stores: Stores, store: AnyStore):
    journal, world, slow = SqlJournal(store), StoredWorld(store), StoredWorld(store, "slow-", 1_000)
    await commit(world, starts("a"), starts("b"))
    await slow.learn(*world.runs)
    await world.do(claims(of="a"))
    await commit(slow, claims(of="a"), claims(of="b"))
    assert summaries(await rows(journal, 4))[2:] == ["claimed a", "claimed b"]


def fires(*minutes: int, namespace: str = MAIN) -> list[Fire]:
    return [
        Fire(Namespace(namespace), "nightly", MIDNIGHT + minute * MINUTE, MIDNIGHT, FireOutcome.SKIPPED, "it is open")
        for minute in minutes
    ]


def unfired(name: str, found: list[Fire], key: str = "main/nightly") -> Changes:
    return Changes(fires=found, unfired=[Unfired(RunId(key), name, found)])


async def test_due_times_that_started_nothing_are_noted_in_order(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    await world.do(starts("before"))
    many = fires(*range(ITEMS_PER_NOTE + 2))
    await store.write(unfired("x", many))
    await world.do(starts("after"))
    found = await rows(journal, 4)
    assert summaries(found)[1:-1] == [f"skipped {minute}" for minute in range(ITEMS_PER_NOTE + 2)]
    assert isinstance(found[1], Note)
    assert list(found[1].fires) == many[:ITEMS_PER_NOTE]
    assert [violation async for violation in verify(store, world.now)] == []


async def test_which_namespaces_rows_concern(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    elsewhere = rq.StartWorkflow(namespace=Namespace("other"), workflow_id=WorkflowId("b"), workflow_type="Order")
    await world.do(starts("a"), elsewhere, claims(of=WorkflowId("a")))
    await store.write(unfired("x", fires(1, namespace="a/b"), "a%2Fb/nightly"))
    found = await rows(journal, 4)
    first, second, third, last = (news.position for news in found)

    async def concerns(*names: str, after: tuple[int, int] = BEGINNING, before: int | None = None) -> bool:
        return await journal.concerns(names, after, before)

    assert await concerns("main")
    assert await concerns("main", after=second), "the claim"
    assert not await concerns("main", after=third)
    assert await concerns("nobody", "main")
    assert not await concerns("nobody")
    assert await concerns("other", after=first)
    assert not await concerns("other", after=second)
    assert await concerns("a/b", after=third)
    assert not await concerns("a/b", after=third, before=last[1])
    assert not await concerns("a/b", after=last)
    assert not await concerns("a%2Fb"), "a namespace that only looks like it"


async def test_old_notes_are_forgotten_but_for_the_newest_row_of_all(store: AnyStore, journal: SqlJournal):
    """Its id, which clients may have seen, would be given again."""
    world, leftovers = StoredWorld(store), SqlLeftovers(store)
    for number in range(4):
        world.now = at(number)
        await world.do(starts(f"w{number}"), claims(of=f"w{number}"))
    before = await rows(journal, 8)
    assert await leftovers.forget_notes(at(2), 1) == 1
    assert await leftovers.forget_notes(at(2), 10) == 1
    assert await leftovers.forget_notes(at(100), 10) == 1
    assert await leftovers.forget_notes(at(100), 10) == 0
    left = await rows(journal, 5)
    assert summaries(left) == [*["WorkflowStarted"] * 4, "claimed w3"]
    await world.do(signals(of="w0"))
    assert (await rows(journal, 6))[-1].id > before[-1].id
    assert await leftovers.forget_notes(at(100), 10) == 1
