"""Watches of one run and the events that they bring: ends of children and of other workflows, cancel requests.

Rules owned here:

* The end of a spawned child is an event by itself; a child of `exec` gives none.
* A link whose workflow failed is an event if the run traps links. Otherwise it is raised where the main coroutine
  waits, and nothing is put on the channel.
* Code that ends a watch receives nothing more of it: neither unread events nor an end that is applied later.
"""

import datetime
from typing import Any, NamedTuple

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import ChildError, Failure, LinkedFailure
from assay.core.model.events import Recorded
from assay.core.model.ids import SECOND, Seq
from assay.core.model.payload import Payload, value_of
from assay.core.model.peers import LINK, MONITOR
from assay.sdk.values.failures import to_exception
from assay.sdk.workflow.channels import SourceChannel
from assay.sdk.workflow.peer_events import EventKind, PeerEvent
from assay.sdk.workflow.replay.cancellation import Cancellation
from assay.sdk.workflow.replay.commands import Commands
from assay.sdk.workflow.replay.completion import ChildFuture
from assay.sdk.workflow.replay.futures import Futures
from assay.sdk.workflow.timers import moment


class QueuedEvent(NamedTuple):
    """An event on the channel, with the seq of its input."""

    seq: Seq
    event: PeerEvent


class Peers:
    """The watches, options and events of one run."""

    __slots__ = (
        "_cancellation", "_commands", "_ended", "_futures", "_unlinked", "_watches", "channel", "trap_cancel",
        "trap_links",
    )  # fmt: skip

    def __init__(self, commands: Commands, futures: Futures, cancellation: Cancellation) -> None:
        self._commands = commands
        self._futures = futures
        self._cancellation = cancellation
        self.channel: SourceChannel[PeerEvent] = SourceChannel("ctx.events", lambda item: item.event)
        futures.sources.append(self.channel)
        self.trap_links = False
        self.trap_cancel = False
        self._watches: dict[tuple[str, str], int] = {}
        """The numbers of the open watches, by mode and address."""
        self._ended: set[int] = set()
        """Watches that code has ended."""
        self._unlinked: set[str] = set()
        """Workflows that code has unlinked: their link to this run counts no more."""

    def take_over(self, start: ev.StartData) -> None:
        """Continue the watches of the previous run."""
        for watch in start.watches:
            self._watches[watch.mode, watch.pid] = watch.watch_id
            self._commands.counters["watch"] = max(self._commands.counters["watch"], watch.watch_id)

    @property
    def can_fail(self) -> bool:
        """Return True while a link that the code does not trap can end its wait."""
        if self.trap_links:
            return False
        linked_children = any(child.linked for child in self._futures.children.values())
        return linked_children or any(mode == LINK for mode, _ in self._watches)

    def unread(self) -> tuple[int, ...]:
        """Return the seqs of the events that no code has received."""
        return tuple(item.seq for item in self.channel.unread)

    # orders of the code

    def watch(self, mode: str, pid: str) -> None:
        """Begin a watch, unless it is open."""
        self._unlinked.discard(pid)
        child = self._child(pid)
        if child is not None and mode == MONITOR:
            child.monitored = True
            return
        if (mode, pid) in self._watches:
            return
        if child is not None:
            child.linked = True
        commands = self._commands
        seq = commands.count("watch")
        self._watches[mode, pid] = seq
        commands.order("watch", seq, f"{mode} {pid}", cmd.Watch(seq, pid, mode, own_child=child is not None))

    def unwatch(self, mode: str, pid: str) -> None:
        """End a watch, and drop its unread events; without effect for a workflow that is not watched."""
        child = self._child(pid)
        seq = self._watches.pop((mode, pid), 0)
        if mode == MONITOR:
            if child is not None:
                child.monitored = False
        else:
            self._unlinked.add(pid)
            if child is not None:
                child.linked = False
        self._drop_unread(mode, pid)
        if seq:
            self._ended.add(seq)
        if seq or mode == LINK:
            commands = self._commands
            commands.order("end of watch", commands.count("end of watch"), "", cmd.Unwatch(seq, pid, mode))

    def _drop_unread(self, mode: str, pid: str) -> None:
        kinds = {EventKind.EXIT} if mode == MONITOR else {EventKind.LINK_DOWN}
        if mode == LINK and (MONITOR, pid) not in self._watches and self._child(pid) is None:
            kinds.add(EventKind.EXIT)
        self.channel.take(lambda item: item.event.from_ == pid and item.event.kind in kinds)

    def _child(self, pid: str) -> ChildFuture | None:
        """Return the open spawned child with this address."""
        children = self._futures.children.values()
        return next((child for child in children if child.pid == pid and child.spawned), None)

    def set_options(self, trap_links: bool | None, trap_cancel: bool | None) -> None:
        """Set the options that are given."""
        self.trap_links = self.trap_links if trap_links is None else trap_links
        self.trap_cancel = self.trap_cancel if trap_cancel is None else trap_cancel
        commands = self._commands
        command = cmd.SetOptions(self.trap_links, self.trap_cancel)
        commands.order("options", commands.count("options"), "", command)

    # inputs

    def exited(self, event: ev.PeerExited, recorded: Recorded) -> None:
        """Apply the end of a watched workflow."""
        pid = event.pid
        if event.watch_id in self._ended or (not event.watch_id and event.mode == LINK and pid in self._unlinked):
            return
        if self._watches.get((event.mode, pid)) == event.watch_id:
            del self._watches[event.mode, pid]
        error: Failure | None = None if event.failure is None else to_exception(event.failure, Failure)
        if error is not None and event.mode == LINK:
            self._link_down(pid, error, recorded)
        else:
            self._put(EventKind.EXIT, pid, recorded, value=value_of(event.result), error=error)

    def child_ended(self, child: ChildFuture, error: ChildError | None, result: Payload, recorded: Recorded) -> None:
        """Apply the end of a spawned child."""
        if child.monitored:
            value = None if error is not None else value_of(result)
            self._put(EventKind.EXIT, child.pid, recorded, value=value, error=error)
        if child.linked:
            self._watches.pop((LINK, child.pid), None)
            if error is not None:
                self._link_down(child.pid, error, recorded)

    def cancel_requested(self, event: ev.WorkflowCancelRequested, recorded: Recorded) -> None:
        """Apply a cancel request to code that traps it."""
        deadline = None if event.deadline is None else moment(round(event.deadline * SECOND))
        self._put(EventKind.CANCEL, event.sender, recorded, reason=event.reason, deadline=deadline)

    def _link_down(self, pid: str, error: Failure, recorded: Recorded) -> None:
        if self.trap_links:
            self._put(EventKind.LINK_DOWN, pid, recorded, error=error)
            return
        linked = LinkedFailure(
            error.message, kind=error.kind, retryable=error.retryable, details={"linked_pid": pid}, cause=error
        )
        self._cancellation.intrude(linked)

    def _put(
        self,
        kind: EventKind,
        pid: str | None,
        recorded: Recorded,
        *,
        value: Any = None,
        error: Failure | None = None,
        reason: str | None = None,
        deadline: datetime.datetime | None = None,
    ) -> None:
        event = PeerEvent(kind, pid, moment(recorded.time), value, error, reason, deadline)
        self.channel.put(QueuedEvent(recorded.seq, event))
