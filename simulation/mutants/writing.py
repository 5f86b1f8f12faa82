"""Planted bugs on the write path: commits, caches, keys, hands, and what is forgotten when a write fails (I1-I4)."""

import asyncio
from typing import Any

from assay.core.model.errors import AssayError
from assay.core.model.ids import RunId, Time
from assay.engine.commit import committer
from assay.engine.commit.attempt import BatchAttempt
from assay.engine.commit.batch import Batch
from assay.engine.commit.cache import RunCache
from assay.engine.commit.committer import Committer
from assay.engine.commit.idempotency import Memory, Rendered
from assay.engine.commit.unknown_outcome import was_written
from assay.engine.ready_queue import ReadyEntry, ReadyQueue
from assay.engine.reaper import Reaper
from assay.engine.service import Loop
from assay.storage.ports import Changes, RequestOutcome, Store, UnansweredCommit
from assay.storage.sql.dialect import Verb
from simulation.mutants.planting import Mutant, Patch, does_nothing, waits_for_nothing
from simulation.tables import Tables

STORE = ("reject", "unknown", "unread")


def _ack_first() -> list[Patch]:
    write = BatchAttempt.write

    async def answer_and_write(self: BatchAttempt) -> frozenset[RunId]:
        for pending_request, reply, _ in self._answers:
            if not isinstance(reply, AssayError):
                pending_request.answer(reply)
        return await write(self)

    return [(BatchAttempt, "write", answer_and_write)]


def _no_memory() -> list[Patch]:
    def keep(self: BatchAttempt, pending_request: Any, reply: object, run_id: RunId | None, at: Any) -> object:
        return reply if pending_request.key is None else Rendered(*pending_request.key.render(reply))

    return [(BatchAttempt, "_keep_outcome", keep)]


def _key_alone() -> list[Patch]:
    """A key is kept before its request is decided, and without the answer."""
    recall = Memory.recall

    async def recall_and_keep(self: Memory, store: Store, keys: Any) -> None:
        await recall(self, store, keys)
        new = {(key.namespace, key.key): key for key in keys if self.answer(key) is None}
        if new:
            outcomes = [
                RequestOutcome(key.namespace, key.key, key.fingerprint, 200, b"null", 0) for key in new.values()
            ]
            await store.write(Changes(outcomes=[(None, outcome) for outcome in outcomes]))

    return [(Memory, "recall", recall_and_keep), *_no_memory()]


def _stale_cache() -> list[Patch]:
    return [(RunCache, "drop_all", does_nothing)]


def _no_compare() -> list[Patch]:
    return [(Tables, "unchanged", lambda self, run: True)]


def _lost_update() -> list[Patch]:
    """The seq comes from a read outside of the transaction, and nothing is unique."""
    apply = Tables._apply

    def overwrite(self: Tables, verb: Verb, table: Any, cells: Any) -> None:
        apply(self, Verb.UPSERT if table.name == "events" else verb, table, cells)

    return [*_no_compare(), (Tables, "_apply", overwrite)]


def _winners_again() -> list[Patch]:
    answer = BatchAttempt.answer

    def answer_nobody(self: BatchAttempt, lost: frozenset[RunId]) -> Any:
        if not lost:
            return answer(self, lost)
        self.release_slots()
        for pending in self._requests:
            pending.again = True
        return self._requests

    return [(BatchAttempt, "answer", answer_nobody)]


def _untied() -> list[Patch]:
    take = Batch.take

    def take_apart(self: Batch, decision: Any) -> bool:
        changed = take(self, decision)
        self.changes.ties.clear()
        return changed

    return [(Batch, "take", take_apart)]


def _given_up() -> list[Patch]:
    give_up = Committer._give_up

    async def give_up_at_once(self: Committer, attempt: BatchAttempt, error: Any) -> None:
        give_up(self, attempt, error)

    return [(Committer, "_find_out", give_up_at_once)]


def _read_runs(*, at_once: bool) -> list[Patch]:
    """The runs are read, and not the transaction's status: a COMMIT under way shows nothing there."""

    async def read(store: Store, batch: Batch, sent: UnansweredCommit | None) -> bool | None:
        if sent is not None and not at_once:
            await was_written(store, batch, sent)
        return await was_written(store, batch, None)

    return [(committer, "was_written", read)]


def _no_doubt() -> list[Patch]:
    return [(BatchAttempt, "_must_reload", lambda self, pending_request, run: False)]


def _mortal() -> list[Patch]:
    """A service that fails once is gone for good."""

    async def die(self: Loop) -> Time | None:
        try:
            return await self._service.run_once()
        except AssayError:
            await asyncio.get_running_loop().create_future()
            raise

    return [(Loop, "_survive", die)]


def _hasty() -> list[Patch]:
    """A run in doubt is dropped while others of its batch are still to be decided."""
    doubt = BatchAttempt._must_reload

    def doubt_and_drop(self: BatchAttempt, pending_request: Any, run: Any) -> bool:
        doubtful = doubt(self, pending_request, run)
        if doubtful:
            self._tools.cache.drop(run)
        return doubtful

    return [(BatchAttempt, "_must_reload", doubt_and_drop)]


def _hands_lost() -> list[Patch]:
    return [(BatchAttempt, "release_slots", does_nothing)]


def _newest_first() -> list[Patch]:
    def newest(self: ReadyQueue, kinds: frozenset[str], exhausted: frozenset[str]) -> tuple[ReadyEntry, str] | None:
        waiting = [(entry, kind) for kind in self._among(kinds) for entry in self._heaps[kind]]
        if not waiting:
            return None
        entry, kind = max(waiting)
        self._heaps[kind].remove(entry)
        self._heaps[kind].insert(0, entry)
        return entry, kind

    return [(ReadyQueue, "_oldest_of", newest)]


SIGNALS = {"engines": 3, "programs": 6, "kinds": ("signal", "act")}
RACING = {"engines": 3, "kinds": ("child", "orphan", "signal", "act")}
BUSY = {"task_hands": 1, "programs": 6, "kinds": ("inline", "signal", "sleep")}
FEW = {"engines": 3, "local_workers": 0, "remote_workers": 1}
WRITING = (
    Mutant("ack before commit", "I1", _ack_first, faults=("crash_before", "reject")),
    Mutant("no idempotency keys", "I3, I14", _no_memory, faults=("lose", "repeat", "delay")),
    Mutant("a key without its outcome", "I3", _key_alone, faults=("crash_before", "crash_after", "lose"), seeds=200),
    Mutant("the cache keeps a batch that was not written", "I3", _stale_cache, faults=("reject",)),
    Mutant("compare-and-set is ignored", "I4, compare-and-set", _no_compare, shared=True),
    Mutant("seq read outside of the transaction", "I4", _lost_update, shared=True),
    Mutant("winners are decided again", "compare-and-set, I14", _winners_again, shared=True, world=SIGNALS),
    Mutant("a child is written though its parent lost", "I2", _untied, shared=True, world=RACING),
    Mutant("an unknown outcome is taken for none", "I3, liveness", _given_up, shared=False, faults=("unknown",)),
    Mutant("a refusal rests on an old state", "compare-and-set", _no_doubt, shared=True, seeds=200),
    Mutant("hands stay promised after a failed write", "liveness", _hands_lost, faults=STORE),
    Mutant(
        "work of a failed write is forgotten", "liveness", lambda: [(Committer, "on_loss", does_nothing)], False, STORE
    ),
    Mutant(
        "leases of the dead are not voided", "leases", lambda: [(Reaper, "_void", waits_for_nothing)], False,
        ("kill_engine",),
    ),
    Mutant(
        "a restart gives no time to workers that live on", "leases",
        lambda: [(Reaper, "extend_leases", waits_for_nothing)], False,
        ("kill_engine",), 100, {"remote_workers": 2, "local_workers": 0, "kinds": ("long", "beat", "act")},
    ),
    Mutant("the newest task goes first", "order of work", _newest_first, False, (), 50, BUSY),
    Mutant(
        "a key's answer rests on a batch that lost", "I3", lambda: [(Memory, "rests_on", lambda self, key: None)],
        True, ("pause_engine", "repeat", "delay"), 200, {"engines": 2, "programs": 8, "kinds": ("signal",)},
    ),
    Mutant("a service that fails is gone", "liveness", _mortal, faults=("unread",)),
    Mutant(
        "a run in doubt is not found", "compare-and-set", _hasty, True, ("pause_engine", "pause_worker", "hiccup"), 200
    ),
    Mutant(
        "somebody else's write is taken for ours", "I3", lambda: _read_runs(at_once=False),
        True, ("unknown", "mute"), 100, {"engines": 3, "kinds": ("hang", "tight", "beat", "act")},
    ),
    Mutant(
        "a COMMIT under way is taken for none", "I3", lambda: _read_runs(at_once=True), True, ("unknown",), 100, SIGNALS
    ),
)  # fmt: skip
