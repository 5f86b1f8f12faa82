"""Monitors, links and control of other workflows over the replay loop; a part of `ReplayContext`."""

import asyncio
from abc import abstractmethod
from typing import Any, Unpack

from assay.core.model import commands as cmd
from assay.core.model.duration import Duration, parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.core.model.options import check_text
from assay.core.model.peers import LINK, MONITOR
from assay.core.rules.watches import check_watch
from assay.sdk.arguments import check_flag
from assay.sdk.workflow.channels import Channel
from assay.sdk.workflow.child_options import ChildKeywords
from assay.sdk.workflow.child_verbs import ChildHandle
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.peer_events import PeerEvent
from assay.sdk.workflow.replay.runtime import Execution


class ReplayPeers(Context):
    """The operations of an `Execution` on other workflows."""

    _run: Execution

    @abstractmethod
    def _check_alive(self) -> None: ...

    def events(self) -> Channel[PeerEvent]:
        """See `PeerVerbs.events`."""
        return self._run.open_peers().channel

    def set_options(self, *, trap_links: bool | None = None, trap_cancel: bool | None = None) -> None:
        """See `PeerVerbs.set_options`."""
        self._check_alive()
        for name, value in (("trap_links", trap_links), ("trap_cancel", trap_cancel)):
            if value is not None:
                check_flag(value, name)
        self._run.open_peers().set_options(trap_links, trap_cancel)

    async def monitor(self, target: Any) -> None:
        """See `PeerVerbs.monitor`."""
        self._watch(MONITOR, target)

    async def unmonitor(self, target: Any) -> None:
        """See `PeerVerbs.unmonitor`."""
        self._check_alive()
        self._run.open_peers().unwatch(MONITOR, pid_of(target))

    async def link(self, target: Any) -> None:
        """See `PeerVerbs.link`."""
        self._watch(LINK, target)

    async def unlink(self, target: Any) -> None:
        """See `PeerVerbs.unlink`."""
        self._check_alive()
        self._run.open_peers().unwatch(LINK, pid_of(target))

    def _watch(self, mode: str, target: Any) -> None:
        self._check_alive()
        pid, key = pid_of(target), self._run.key
        check_watch(key.namespace, key.workflow_id, pid, mode)
        self._run.open_peers().watch(mode, pid)

    async def terminate(self, target: Any, reason: str | None = None) -> None:
        """See `PeerVerbs.terminate`."""
        self._check_alive()
        pid, commands = pid_of(target), self._run.commands
        seq = commands.count("termination of workflow")
        command = cmd.TerminateExternal(seq, pid, check_text(reason, "reason"))
        await self._outcome("termination of workflow", seq, pid, command)

    async def request_cancel(self, target: Any, reason: str | None = None, deadline: Duration | None = None) -> None:
        """See `PeerVerbs.request_cancel`."""
        self._check_alive()
        pid, commands = pid_of(target), self._run.commands
        seconds = None if deadline is None else parse_duration(deadline, "deadline") / SECOND
        seq = commands.count("cancel of workflow")
        command = cmd.RequestCancelExternal(seq, pid, check_text(reason, "reason"), seconds)
        await self._outcome("cancel of workflow", seq, pid, command)

    async def _outcome(self, kind: str, seq: int, pid: str, command: cmd.AnyCommand) -> None:
        future: asyncio.Future[None] = self._run.loop.create_future()
        self._run.futures.requests[kind, seq] = future
        self._run.commands.order(kind, seq, pid, command)
        await future

    async def spawn_monitored(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]:
        """See `PeerVerbs.spawn_monitored`."""
        return await self.spawn(workflow, *args, **options)

    async def spawn_linked(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]:
        """See `PeerVerbs.spawn_linked`."""
        child: ChildHandle[Any] = await self.spawn(workflow, *args, **options)
        self._run.open_peers().watch(LINK, child.pid)
        return child

    async def spawn_linked_monitored(
        self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]
    ) -> ChildHandle[Any]:
        """See `PeerVerbs.spawn_linked_monitored`."""
        return await self.spawn_linked(workflow, *args, **options)


def pid_of(target: Any) -> str:
    """Return the address of a workflow: a text, or the `pid` of a handle."""
    pid = getattr(target, "pid", target)
    if not isinstance(pid, str):
        raise Invalid(f"a workflow is named by an address or a handle, not {type(target).__name__}", field="target")
    return str(pid)
