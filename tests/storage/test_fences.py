"""A message of the outbox is applied by the transaction that deletes its row, and by no other."""

from assay.core.model import commands as cmd
from assay.core.model.addresses import workflow_address
from assay.core.model.effects import MESSAGE, OutboxMessage
from assay.core.model.events import SignalReceived
from assay.core.model.ids import WorkflowId
from assay.core.model.payload import Payload
from assay.core.model.requests import Deliver
from assay.storage.changes import Changes, fence_of
from tests.core.support import MAIN, ORDER, signals, starts, turned
from tests.storage.support import AnyStore, StoredWorld, history

SHOP = WorkflowId("shop-1")
TO_SHOP = workflow_address(MAIN, SHOP)


def paid(*amounts: int) -> tuple[cmd.SendMessage, ...]:
    return tuple(cmd.SendMessage(n, TO_SHOP, "paid", (Payload(str(n).encode()),)) for n in amounts)


async def test_messages_are_read_in_the_order_of_their_commands(store: AnyStore):
    world = await StoredWorld(store).do(starts(), starts(SHOP), turned(*paid(*range(1, 21))))
    found = await store.messages(world.now + 1, 100)
    assert [message.request_seq for message in found] == list(range(1, 21))
    assert found == list(world.outbox.values())


async def test_of_two_engines_one_delivers(store: AnyStore):
    world = await StoredWorld(store).do(starts(), starts(SHOP), turned(*paid(1)))
    (message,) = await store.messages(world.now + 1, 10)
    slow = StoredWorld(store, "slow-", 1_000)
    await slow.learn(*world.runs)
    slow.take(Deliver.of(message))
    await world.do(Deliver.of(message))
    shop = world.newest[SHOP].run_id
    before = await history(store, shop)
    assert shop in await slow.commit()  # the run has another version: the engine decides again
    await slow.learn(shop)
    slow.take(Deliver.of(message))
    assert await slow.commit() == {shop, fence_of(message.key)}
    assert await history(store, shop) == before
    assert [message.kind for message in await store.messages(world.now + 1, 10)] == ["outcome"]


async def test_others_of_the_batch_are_written_without_a_receiver_whose_message_is_gone(store: AnyStore):
    world = await StoredWorld(store).do(starts(), starts(SHOP), turned(*paid(1)))
    (message,) = await store.messages(world.now + 1, 10)
    await world.do(Deliver.of(message))
    world.take(Deliver.of(message))
    world.take(signals("other"))
    shop = world.newest[SHOP].run_id
    assert await world.commit() == {shop, fence_of(message.key)}
    assert [one.event for one in await history(store, world.run.run_id)][-1] == SignalReceived("other")


async def test_an_outcome_for_nobody_is_written_once(store: AnyStore):
    """A message to a missing target has no receiving run: its own fence decides."""
    message = OutboxMessage("key", MAIN, WorkflowId("nobody"), None, MESSAGE)
    failed = OutboxMessage("key/outcome", MAIN, ORDER, None, "outcome")
    await store.write(Changes(messages=[(fence_of("none"), message, 1)]))
    for lost in (frozenset(), frozenset({fence_of("key")})):
        changes = Changes(acknowledged=[(fence_of("key"), "key")], messages=[(fence_of("key"), failed, 1)])
        assert await store.write(changes) == lost
        assert [found.key for found in await store.messages(10, 10)] == ["key/outcome"]


async def test_rows_of_later_versions_are_left_alone(store: AnyStore):
    later = OutboxMessage("later", MAIN, ORDER, None, "praise")
    await store.write(Changes(messages=[(fence_of("none"), later, 1)]))
    assert await store.messages(10, 10) == []
