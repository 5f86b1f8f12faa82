"""Which signals go along when a run continues as new, and the cancel request that came too late for its code (R19)."""

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.commands import ContinueAsNew
from assay.core.events import Recorded
from assay.core.requests import Advance, Request, RestartAsNew
from assay.core.run import Run
from assay.storage.store import Store


def continues(request: Request) -> bool:
    """Does a request make its run continue as new?"""
    if isinstance(request, Advance):
        return any(isinstance(command, ContinueAsNew) for command in request.commands)
    return isinstance(request, RestartAsNew)


async def with_unread(request: Request, run: Run, store: Store) -> Request:
    """The request together with the signals that no code of the closing run has consumed."""
    signals = await _signals(run, store)
    if isinstance(request, RestartAsNew):
        return replace(request, signals=tuple(recorded for recorded in signals if recorded.seq > run.seen_seq))
    if isinstance(request, Advance):
        # a worker that names none has seen them all: otherwise its closing command is refused (R7)
        named = next(c.unread_signals for c in request.commands if isinstance(c, ContinueAsNew)) or ()
        unread = [recorded for recorded in signals if recorded.seq in frozenset(named)]
        if run.cancel_seq in named:
            unread = sorted([*unread, *await _cancel(run, store)], key=lambda recorded: recorded.seq)
        return replace(request, unread=tuple(unread))
    return request


async def _cancel(run: Run, store: Store) -> Sequence[Recorded]:
    return await store.events(run.run_id, run.cancel_seq - 1, limit=1)


async def _signals(run: Run, store: Store) -> list[Recorded]:
    if run.signals == 0:
        return []
    return list(await store.events(run.run_id, kind="SignalReceived"))
