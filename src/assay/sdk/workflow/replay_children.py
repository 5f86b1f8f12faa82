"""Children over the replay loop: the calls of workflow code become commands, and outcomes come from the history."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model.addresses import workflow_address
from assay.core.model.errors import NotFound
from assay.core.model.input_hash import input_hash
from assay.core.model.options import check_id, check_text
from assay.core.model.payload import NULL, Payload
from assay.sdk.arguments import packed
from assay.sdk.workflow.child_options import ChildCall, child_call
from assay.sdk.workflow.child_verbs import ChildHandle
from assay.sdk.workflow.replay.completion import ChildFuture
from assay.sdk.workflow.replay.exceptions import CancelRequested
from assay.sdk.workflow.replay.journal import UNSTARTED, child_name, other_child
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.replay.waits import outlast


class ReplayChild(ChildHandle[Any]):
    """The handle of a spawned child."""

    def __init__(self, children: "Children", future: ChildFuture, send: Callable[..., Awaitable[bool]]) -> None:
        self._children = children
        self._future = future
        self._send = send

    @property
    def workflow_id(self) -> str:
        """See `ChildHandle.workflow_id`."""
        return self._future.workflow_id

    @property
    def pid(self) -> str:
        """See `ChildHandle.pid`."""
        return self._future.pid

    async def result(self) -> Any:
        """See `ChildHandle.result`."""
        return self._children.decoded(self._future, await asyncio.shield(self._future))

    async def send(self, topic: str, *args: Any) -> bool:
        """See `ChildHandle.send`."""
        return await self._send(self.pid, topic, *args)

    async def cancel(self, reason: str | None = None) -> None:
        """See `ChildHandle.cancel`."""
        await self._children.cancel(self._future, check_text(reason, "reason"))


class Children:
    """Starts the children of one run and waits for them."""

    __slots__ = ("_run",)

    def __init__(self, execution: Execution) -> None:
        self._run = execution

    async def start(self, workflow: Any, workflow_id: str, input: Any, options: Mapping[str, Any]) -> Any:
        """Start a child, or take the child of the same id that the run has started before, and wait for its end."""
        run = self._run
        name, workflow_id = run.app.name_of(workflow), check_id(workflow_id, "workflow_id")
        call = child_call("start_child_workflow", run.converter, options)
        space = call.fields.get("namespace") or run.key.namespace
        future = run.futures.first_children.get((space, workflow_id))
        if future is None:
            payload = NULL if input is None else self._encode(input, f"input of child workflow '{workflow_id}'")
            future = self._order(name, payload, call, workflow_id)
        elif future.workflow_type != name:
            error = other_child(workflow_id, future.workflow_type, name)
            run.commands.diverge(error)
            raise error
        return self.decoded(future, await self._end_of(future, wait=call.wait))

    async def exec(self, workflow: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Start a new child and wait for its end."""
        call, future = self._new("exec", workflow, args, options)
        return self.decoded(future, await self._end_of(future, wait=call.wait))

    async def spawn(self, workflow: Any, args: Sequence[Any], options: Mapping[str, Any]) -> ChildFuture:
        """Start a new child and go on; wait only for a place among too many open children."""
        _, future = self._new("spawn", workflow, args, options, spawned=True)
        if future.sent is not None:
            await future.sent
        if future.unstarted:
            # The history has no start of this child: the code goes on, with the error, when its failure is applied.
            await asyncio.shield(future)
        return future

    def _new(
        self, verb: str, workflow: Any, args: Sequence[Any], options: Mapping[str, Any], *, spawned: bool = False
    ) -> tuple[ChildCall, ChildFuture]:
        name = self._run.app.name_of(workflow)
        call = child_call(verb, self._run.converter, options)
        value = packed(args)
        payload = NULL if value is None else self._encode(value, f"input of child workflow '{name}'")
        return call, self._order(name, payload, call, call.workflow_id, spawned=spawned)

    def _order(
        self, name: str, payload: Payload, call: ChildCall, workflow_id: str | None, *, spawned: bool = False
    ) -> ChildFuture:
        run = self._run
        seq = run.commands.count("child workflow")
        chosen = workflow_id or f"{run.origin}-{seq}"
        command = cmd.StartChildWorkflow(
            workflow_type=name,
            workflow_id=chosen,
            input=payload,
            task_queue=call.task_queue or self._own_queue(),
            seq=seq,
            input_hash=input_hash(payload),
            spawned=spawned,
            **call.fields,
        )
        future = run.loop.create_future(ChildFuture)
        space = call.fields.get("namespace") or run.key.namespace
        future.describe(seq, name, chosen, workflow_address(space, chosen))
        future.spawned = future.monitored = spawned
        run.futures.children[seq] = future
        run.futures.first_children.setdefault((space, chosen), future)
        echo = run.futures.child_orders.add(seq, child_name(name, chosen), command, future if spawned else None)
        future.unstarted = echo is UNSTARTED
        return future

    async def _end_of(self, future: ChildFuture, *, wait: bool) -> Payload:
        """Wait for the end of a child; a wait that code cancels requests the cancellation of the child."""
        raw: Payload = await outlast(future, functools.partial(self._give_up, future), wait=wait)
        return raw

    def _give_up(self, future: ChildFuture, error: asyncio.CancelledError) -> None:
        if self._run.loop.leaving:
            return
        if self._run.futures.child_orders.give_up(future.seq):
            future.cancel()  # never sent
            self._run.futures.forget_child(future)
        elif not isinstance(error, CancelRequested):
            # A cancel of the whole run reaches its children through the engine.
            self.request_cancel(future, "cancelled by its parent")

    async def cancel(self, future: ChildFuture, reason: str | None) -> None:
        """Request the cancellation of a child and wait for the delivery; a child that has ended is left alone."""
        seq = self.request_cancel(future, reason)
        if seq is None:
            return
        delivered: asyncio.Future[None] = self._run.loop.create_future()
        self._run.futures.requests["cancel of workflow", seq] = delivered
        with contextlib.suppress(NotFound):
            await delivered

    def request_cancel(self, future: ChildFuture, reason: str | None) -> int | None:
        """Order the cancellation of an open child; return the number of the request."""
        if future.done():
            return None
        commands = self._run.commands
        seq = commands.count("cancel of workflow")
        commands.order("cancel of workflow", seq, future.pid, cmd.RequestCancelExternal(seq, future.pid, reason))
        return seq

    def decoded(self, future: ChildFuture, raw: Payload) -> Any:
        """Return the result of a child in the type of its workflow."""
        known = self._run.app.workflows.get(future.workflow_type)
        annotation = Any if known is None else known.signature.result_annotation
        return self._run.converter.decode(raw, annotation, name=f"result of '{future.workflow_id}'")

    def _own_queue(self) -> str:
        start = self._run.start
        return start.task_queue if start is not None else "default"

    def _encode(self, value: Any, name: str) -> Payload:
        return Payload(self._run.converter.encode(value, name=name))
