"""What waits to be told to a worker: answers, tasks, activities, news; made into a message when one can be sent."""

from collections.abc import Iterator, Sequence
from typing import Final

from assay.core.events import Recorded
from assay.core.grants import ActivityGrant, TaskGrant
from assay.core.ids import Namespace, RunId
from assay.engine.engine import Engine
from assay.engine.tokens import Lease, Tokens
from assay.wire import exchange as wire
from assay.wire.bell import Bell

ROOM: Final = wire.MESSAGE_LIMIT // 4
"""Bytes of documents in a message before the next is begun; one document alone is always within its own limit."""
REMEMBERED: Final = 10_000
"""Tokens kept at hand, so that a report about one needs no cryptography."""

Grant = TaskGrant | ActivityGrant


class Orders:
    """The outgoing side of a session."""

    def __init__(self, engine: Engine, tokens: Tokens, namespace: str, worker: str) -> None:
        self.ready = Bell()
        """Is there something to say?"""
        self._now = engine.now
        self._tokens = tokens
        self._namespace = Namespace(namespace)
        self._worker = worker
        self._leases: dict[str, Lease] = {}
        self.given = self._leases.get
        """The lease of a token that was made here, for this worker and nobody else; None for others."""
        self._foreseen: Lease | None = None
        self._ready_made: tuple[Lease, str] | None = None
        """A token that will be asked for next, if the worker goes on as it did; made while the worker works."""
        self._message = wire.EngineMessage(time=0)
        self._unsent: list[Grant] = []
        self._sending: list[Grant] = []
        self._size = 0
        self._later: list[ActivityGrant | wire.Answer] = []

    # tokens

    def token(self, run_id: RunId, seq: int, fence: int, *, activity: bool = False) -> str:
        """A token for a lease of this worker."""
        lease = Lease(self._namespace, run_id, seq, fence, self._worker, activity)
        made = self._ready_made
        token = made[1] if made is not None and made[0] == lease else self._tokens.seal(lease)
        if len(self._leases) >= REMEMBERED:
            self._leases.clear()
        self._leases[token] = lease
        return token

    def next_token(self, run_id: RunId, epoch: int) -> str:
        """A token for the lease under which a worker goes on with a run; the next one is probably one epoch later."""
        self._foreseen = Lease(self._namespace, run_id, 0, epoch + 1, self._worker)
        return self.token(run_id, 0, epoch)

    def lease_of(self, token: str) -> Lease:
        """The lease of a token of this database, whoever's it is."""
        return self._tokens.open(token)

    # filling

    def answer(self, answer: wire.Answer) -> None:
        """Tell the answer to a report."""
        if self._size >= ROOM:
            self._later.append(answer)
        else:
            self._message.answers.append(answer)
            if answer.events is not None:
                self._size += wire.size_of(answer.events)
        self.ready.ring()

    def task(self, grant: TaskGrant, events: Sequence[Recorded] | None, after: int) -> None:
        """Tell of a workflow task, with the events `after` a seq, or with none if the worker is to ask for them."""
        key, start = grant.key, grant.start
        sent = None if events is None else wire.sent(events)
        size = 0 if sent is None else wire.size_of(sent)
        self._message.tasks.append(
            wire.Task(
                self.token(key.run_id, 0, grant.epoch),
                key.workflow_id,
                key.run_id,
                start.workflow_type,
                start.task_queue,
                grant.epoch,
                grant.seen_seq,
                grant.last_seq,
                grant.history_bytes,
                sent if size <= wire.HISTORY_LIMIT else None,
                after,
            )
        )
        self._size += size
        self._unsent.append(grant)
        self.ready.ring()

    def activity(self, grant: ActivityGrant) -> None:
        """Tell of an attempt."""
        self._unsent.append(grant)
        self.ready.ring()
        if self._size >= ROOM:
            self._later.append(grant)
        else:
            self._add_activity(grant)

    def _add_activity(self, grant: ActivityGrant) -> None:
        key, activity = grant.key, grant.activity
        self._size += memoryview(activity.input).nbytes
        self._message.activities.append(
            wire.Activity(
                self.token(key.run_id, activity.seq, activity.attempt_id, activity=True),
                key.workflow_id,
                key.run_id,
                grant.start.workflow_type,
                activity.seq,
                activity.id,
                activity.attempt_id,
                activity.attempt,
                activity.name,
                activity.queue,
                activity.input,
                activity.options,
                activity.details,
            )
        )

    def news(self, run_id: RunId) -> None:
        """Tell that a run has new events."""
        self._message.news.append(run_id)
        self.ready.ring()

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """Add an attempt that is no longer wanted to the next message."""
        self._message.cancelled.append(attempt_id)
        if over:
            self._message.over.append(attempt_id)
        self.ready.ring()

    # emptying

    def collect(self) -> bytes:
        """All that waits, as one message; `done` says that it was written."""
        message, self._message = self._message, wire.EngineMessage(time=0)
        self._size = 0
        self.ready.clear()
        message.time = self._now()
        self._sending, self._unsent = self._unsent, []
        if self._later:
            self._refill()
        return wire.encode(message)

    def _refill(self) -> None:
        later, self._later = self._later, []
        for item in later:
            if isinstance(item, wire.Answer):
                self.answer(item)
            else:
                self._sending.remove(item)
                self.activity(item)

    def hush(self) -> None:
        """Forget that the bell was rung, unless there is something to say."""
        told = self._message
        if not (told.answers or told.tasks or told.activities or told.news or told.cancelled or self._later):
            self.ready.clear()

    def done(self) -> None:
        """What was collected has been written."""
        self._sending = []
        if self._foreseen is not None:
            self._ready_made = self._foreseen, self._tokens.seal(self._foreseen)
            self._foreseen = None

    def unsent(self) -> Iterator[Grant]:
        """Take back all grants of which no byte was written; what else waits is for the next connection."""
        grants = [*self._sending, *self._unsent]
        self._sending, self._unsent = [], []
        self._message.tasks, self._message.activities = [], []
        self._later = [item for item in self._later if isinstance(item, wire.Answer)]
        yield from grants
