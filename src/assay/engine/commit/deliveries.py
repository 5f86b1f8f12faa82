"""Outbox messages and updates in a batch: each has its effect once, in this batch and in the store (I17)."""

from msgspec.structs import replace

from assay.core.model.effects import Acknowledge, Send
from assay.core.model.ids import RunId, Time
from assay.core.model.requests import Deliver, Request, Update
from assay.core.rules.messages import undeliverable
from assay.engine.commit.batch import Batch
from assay.storage.ports import fence_of


def is_exit(request: Request) -> bool:
    """Return whether a request delivers the end of a watched run, whose closing event has to be read first."""
    return type(request) is Deliver and request.messages[0].about is not None


def not_taken(request: Deliver, batch: Batch) -> Deliver | None:
    """Return the request without the messages that this batch has delivered already; None if none is left."""
    if not batch.taken:
        return request
    return _with(request, tuple(message for message in request.messages if message.key not in batch.taken))


def not_gone(request: Deliver, lost: frozenset[RunId]) -> Deliver | None:
    """Return the request without the messages whose rows were gone: another delivery has had its effect."""
    return _with(request, tuple(message for message in request.messages if fence_of(message.key) not in lost))


def gather_undeliverable(request: Deliver, batch: Batch, now: Time) -> None:
    """Add the effects of messages to a target that does not exist."""
    owner = RunId("")
    for effect in undeliverable(request.messages):
        if isinstance(effect, Acknowledge):
            owner = fence_of(effect.key)
            batch.take_message(owner, effect.key)
        elif isinstance(effect, Send):
            batch.changes.messages.append((owner, effect.message, now))


def with_state(request: Update, run_id: RunId, batch: Batch) -> Update:
    """Return the request with the state of an update that an earlier request of this batch has sent."""
    known = batch.changes.updates.get((run_id, request.update_id))
    return request if known is None else replace(request, known=known[1])


def _with(request: Deliver, messages: tuple[object, ...]) -> Deliver | None:
    if len(messages) == len(request.messages):
        return request
    return replace(request, messages=messages) if messages else None
