"""The engine's next message to a worker: answers, tasks, activities, notices."""

from collections.abc import Callable, Sequence
from typing import Final

from assay.core.model.context import merged_context
from assay.core.model.events import Recorded
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time
from assay.worker_protocol import messages as wire
from assay.worker_protocol.tokens import Lease, LeaseTokens, Token
from assay.worker_protocol.wakeup import Wakeup

FULL_MESSAGE_BYTES: Final = wire.MAX_MESSAGE_BYTES // 4
"""The size of the documents after which a message is full; a single document is always within its own limit."""

Grant = TaskGrant | ActivityGrant


class Outgoing:
    """The unsent messages of the engine to one worker."""

    def __init__(self, now: Callable[[], Time], tokens: LeaseTokens, namespace: str, worker: str) -> None:
        self.wakeup = Wakeup()
        self._now = now
        self._tokens = tokens
        self._namespace = Namespace(namespace)
        self._worker = worker
        self._message = wire.EngineMessage(time=0)
        self._unsent: list[Grant] = []
        """Leases in the next message."""
        self._sending: list[Grant] = []
        """Leases in a composed message, until `sent` is called."""
        self._size = 0
        self._later: list[ActivityGrant | wire.ReportAnswer] = []

    def next_token(self, run_id: RunId, epoch: int) -> Token:
        """Return a token for the lease of this epoch; expect a token of the next epoch, to seal it ahead of time."""
        self._tokens.expect(Lease(self._namespace, run_id, 0, epoch + 1, self._worker))
        return self._tokens.seal(Lease(self._namespace, run_id, 0, epoch, self._worker))

    # filling

    def answer(self, answer: wire.ReportAnswer) -> None:
        """Add the answer to a report."""
        if self._size >= FULL_MESSAGE_BYTES:
            self._later.append(answer)
        else:
            self._message.answers.append(answer)
            if answer.events is not None:
                self._size += wire.size_of(answer.events)
        self.wakeup.set()

    def task(self, grant: TaskGrant, events: Sequence[Recorded] | None, after: int) -> None:
        """Add a workflow task with its events `after` a seq; without events the worker reads the history in pages."""
        key, start = grant.key, grant.start
        sent = None if events is None else wire.sent(events)
        size = 0 if sent is None else wire.size_of(sent)
        self._message.tasks.append(
            wire.SentTask(
                self._tokens.seal(Lease(self._namespace, key.run_id, 0, grant.epoch, self._worker)),
                key.workflow_id,
                key.run_id,
                start.workflow_type,
                start.task_queue,
                grant.epoch,
                grant.seen_seq,
                grant.last_seq,
                grant.history_bytes,
                sent if size <= wire.MAX_HISTORY_BYTES else None,
                after,
            )
        )
        self._size += size
        self._unsent.append(grant)
        self.wakeup.set()

    def activity(self, grant: ActivityGrant) -> None:
        """Add an attempt of an activity."""
        self._unsent.append(grant)
        self.wakeup.set()
        if self._size >= FULL_MESSAGE_BYTES:
            self._later.append(grant)
        else:
            self._add_activity(grant)

    def _add_activity(self, grant: ActivityGrant) -> None:
        key, activity = grant.key, grant.activity
        self._size += memoryview(activity.input).nbytes
        self._message.activities.append(
            wire.SentActivity(
                self._tokens.seal(
                    Lease(self._namespace, key.run_id, activity.seq, activity.attempt_id, self._worker, True)
                ),
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
                merged_context(grant.start.context, activity.options.context),
                grant.start.actor,
                grant.start.scope,
            )
        )

    def news(self, run_id: RunId) -> None:
        """Add a notice of new events in a run."""
        self._message.news.append(run_id)
        self.wakeup.set()

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """Add the cancellation of an attempt; `over` if the attempt timed out or lost its lease."""
        self._message.cancelled.append(attempt_id)
        if over:
            self._message.over.append(attempt_id)
        self.wakeup.set()

    # emptying

    def compose(self) -> wire.EngineMessage:
        """Return the next message; the driver calls `sent` after sending the message."""
        message, self._message = self._message, wire.EngineMessage(time=0)
        self._size = 0
        self.wakeup.clear()
        message.time = self._now()
        self._sending, self._unsent = self._unsent, []
        if self._later:
            self._refill()
        return message

    def _refill(self) -> None:
        later, self._later = self._later, []
        for item in later:
            if isinstance(item, wire.ReportAnswer):
                self.answer(item)
            else:
                self._sending.remove(item)
                self.activity(item)

    def clear_if_empty(self) -> None:
        """Clear the wake-up of an empty message."""
        message = self._message
        if not (
            message.answers or message.tasks or message.activities or message.news or message.cancelled or self._later
        ):
            self.wakeup.clear()

    def sent(self) -> None:
        """Note that the composed message was sent: its leases are not released any more."""
        self._sending = []
        self._tokens.prepare()

    def take_unsent(self) -> list[Grant]:
        """Remove and return all unsent leases; answers and notices stay for the next connection."""
        grants = [*self._sending, *self._unsent]
        self._sending, self._unsent = [], []
        self._message.tasks, self._message.activities = [], []
        self._later = [item for item in self._later if isinstance(item, wire.ReportAnswer)]
        return grants
