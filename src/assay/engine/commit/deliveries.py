"""Outbox messages and updates in a batch: each has its effect once, in this batch and in the store (I17)."""

from msgspec.structs import replace

from assay.core.model.addresses import mailbox_address
from assay.core.model.effects import MAIL, Acknowledge, Send
from assay.core.model.ids import RunId, Time
from assay.core.model.requests import AddWatcher, Deliver, Request, Update
from assay.core.rules.mailbox_watches import unknown_run
from assay.core.rules.messages import mailed, undeliverable
from assay.engine.commit.batch import Batch
from assay.storage.ports import Store, fence_of


def is_exit(request: Request) -> bool:
    """Return whether a request is about the end of a watched run, whose closing event has to be read first."""
    return type(request) is AddWatcher or (type(request) is Deliver and request.messages[0].about is not None)


def not_taken(request: Deliver, batch: Batch) -> Deliver | None:
    """Return the request without the messages that this batch has delivered already; None if none is left."""
    if not batch.taken:
        return request
    return _with(request, tuple(message for message in request.messages if message.key not in batch.taken))


def not_gone(request: Deliver, lost: frozenset[RunId]) -> Deliver | None:
    """Return the request without the messages whose rows were gone: another delivery has had its effect."""
    return _with(request, tuple(message for message in request.messages if fence_of(message.key) not in lost))


def gather_undeliverable(request: Deliver | AddWatcher, batch: Batch, now: Time) -> None:
    """Add the effects of messages to a target that does not exist, or of a watch of such a target."""
    if isinstance(request, AddWatcher):
        message = unknown_run(request, now)
        batch.changes.messages.append((fence_of(message.key), message, now))
        return
    owner = RunId("")
    for effect in undeliverable(request.messages):
        if isinstance(effect, Acknowledge):
            owner = fence_of(effect.key)
            batch.take_message(owner, effect.key)
        elif isinstance(effect, Send):
            batch.changes.messages.append((owner, effect.message, now))


def is_mail(request: Request) -> bool:
    """Return whether a request delivers messages to a mailbox."""
    return type(request) is Deliver and request.messages[0].kind == MAIL


async def mailboxes_of(request: Request, store: Store, now: Time) -> set[str]:
    """Return the address of the mailbox that a request delivers to, if the mailbox exists."""
    if not isinstance(request, Deliver):
        return set()
    address = mailbox_address(request.namespace, request.workflow_id)
    return {address} if await store.has_mailbox(address, now) else set()


def begin(request: Deliver, mailboxes: set[str], batch: Batch, now: Time) -> tuple[Deliver | None, RunId | None]:
    """Return the messages to decide for a run; decide mail at once, with the name under which it may be lost."""
    rest = not_taken(request, batch)
    if rest is None or not is_mail(rest):
        return rest, None
    return None, decide_mail(rest, mailboxes, batch, now)


def decide_mail(request: Deliver, mailboxes: set[str], batch: Batch, now: Time) -> RunId | None:
    """Add the effects of messages to a mailbox; return the name under which the delivery may be lost."""
    if mailbox_address(request.namespace, request.workflow_id) not in mailboxes:
        gather_undeliverable(request, batch, now)
        return None
    return gather_mail(request, batch, now)


def gather_mail(request: Deliver, batch: Batch, now: Time) -> RunId:
    """Add the effects of messages to a mailbox that exists; all are lost if the mailbox is deleted meanwhile."""
    owner = RunId(f"mail {request.messages[0].key}")
    for message in request.messages:
        letter, effects = mailed(message, owner, now)
        batch.changes.mail.append(letter)
        for effect in effects:
            if isinstance(effect, Acknowledge):
                batch.take_message(letter.owner, effect.key)
            elif isinstance(effect, Send):
                batch.changes.messages.append((letter.owner, effect.message, now))
    return owner


def with_state(request: Update, run_id: RunId, batch: Batch) -> Update:
    """Return the request with the state of an update that an earlier request of this batch has sent."""
    known = batch.changes.updates.get((run_id, request.update_id))
    return request if known is None else replace(request, known=known[1])


def _with(request: Deliver, messages: tuple[object, ...]) -> Deliver | None:
    if len(messages) == len(request.messages):
        return request
    return replace(request, messages=messages) if messages else None
