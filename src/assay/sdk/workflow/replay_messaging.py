"""Messages of a workflow over the replay loop; a part of `ReplayContext`."""

import asyncio
from abc import abstractmethod
from typing import Any

import msgspec

from assay.core.model import commands as cmd
from assay.core.model.addresses import UPDATE, Address, parse_address, workflow_address
from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import SECOND
from assay.core.model.options import check_id
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.model.update_states import ACCEPTED, ACK, ANSWERS, COMPLETED, ERROR, FAILED, NAK, OK, RECEIVED, REJECTED
from assay.core.rules.message_limits import check_topic
from assay.sdk.workflow.channels import Channel, Outcome
from assay.sdk.workflow.concurrency import Duration
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.message import Message
from assay.sdk.workflow.replay.mailbox import TIMED_OUT, ReceivedMessage
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.timers import moment

AFTER = {ACK: ACCEPTED, NAK: REJECTED, OK: COMPLETED, ERROR: FAILED}
"""The status of an update after each answer."""


class ReplayMessaging(Context):
    """The message operations of an `Execution`."""

    _run: Execution

    @property
    def pid(self) -> str:
        """See `Messaging.pid`."""
        return workflow_address(self._run.key.namespace, self._run.key.workflow_id)

    def inbox(self) -> Channel[Any]:
        """See `Messaging.inbox`."""
        self._check_alive()
        return self._run.mailbox.open_inbox()

    def listen(self, topic: str, *, message: bool = False) -> Channel[Any]:
        """See `Messaging.listen`."""
        self._check_alive()
        check_topic(check_id(topic, "topic"))
        return self._run.mailbox.listen(topic, as_messages=message)

    def unlisten(self, channel: Channel[Any]) -> None:
        """See `Messaging.unlisten`."""
        self._check_alive()
        if not self._run.mailbox.unlisten(channel):
            raise Invalid("ctx.unlisten needs an open channel of ctx.listen", field="channel")

    async def send(self, to: Any, topic: str, *args: Any) -> bool:
        """See `Messaging.send`."""
        self._check_alive()
        run, address = self._run, getattr(to, "pid", to)
        if not isinstance(address, str):
            raise Invalid(f"ctx.send needs an address, not {type(to).__name__}", field="to")
        found = parse_address(address)
        if found is not None and found.scheme == UPDATE:
            return self._answer_address(found, topic, args)
        check_topic(check_id(topic, "topic"))
        payloads = tuple(self._encode(value, f"payload of message '{topic}'") for value in args)
        seq = run.commands.count("message")
        future: asyncio.Future[None] = run.loop.create_future()
        run.futures.sends[seq] = future
        run.commands.order("message", seq, f"{topic} to {address}", cmd.SendMessage(seq, address, topic, payloads))
        await future
        return True

    async def wait_for_signal(
        self,
        name: str,
        timeout: Duration | None = None,  # noqa: ASYNC109  # a durable timer, not a time-out of asyncio
        *,
        type: Any = Any,
        default: Any = None,
    ) -> Any:
        """See `Context.wait_for_signal`."""
        self._check_alive()
        run, name = self._run, check_id(name, "signal name")
        found = run.mailbox.take(name)
        if found is None:
            future: asyncio.Future[Outcome] = run.loop.create_future()
            timer_seq = self._arm(future, timeout)
            command = cmd.WaitForSignal(name, timer_seq)
            run.commands.order("wait for signal", run.commands.count("wait for signal"), name, command)
            found = await run.mailbox.wait(name, future)
        if found is None:
            return default
        self._complete_taken(found)
        return self._decode(found.payload, type, f"payload of signal '{name}'")

    def _arm(self, future: "asyncio.Future[Outcome]", timeout: Duration | None) -> int | None:
        if timeout is None:
            return None
        timer = self._run.loop.call_later(
            max(parse_duration(timeout, "timeout") / SECOND, 1e-6),
            lambda: None if future.done() else future.set_result(TIMED_OUT),
        )
        future.add_done_callback(lambda _: timer.cancel())
        return getattr(timer, "seq", None)

    def _converted(self, item: ReceivedMessage, *, as_message: bool) -> Any:
        """Return the value that code receives for a message: the message itself, or its payload."""
        if not as_message:
            self._complete_taken(item)
            return self._decode(item.payload, Any, f"payload of message '{item.topic}'")
        if item.args is msgspec.UNSET:
            absent = item.payload == NULL and (item.update_id is None or not item.has_payload)
            args = [] if absent else [self._decode(item.payload, Any, f"payload of '{item.topic}'")]
        else:
            args = value_of(item.args)
        return Message(
            item.topic,
            args,
            moment(item.time),
            self._reply,
            from_=item.sender,
            seq=item.seq,
            update_id=item.update_id,
        )

    def _complete_taken(self, item: ReceivedMessage) -> None:
        """Accept and complete an update that code takes as a payload: code has no message to answer it by."""
        if item.update_id is not None and self._run.updates.get(item.update_id) == RECEIVED:
            self._answer(item.update_id, ACK, ())
            self._answer(item.update_id, OK, ())

    def _answer_address(self, found: Address, topic: str, args: tuple[Any, ...]) -> bool:
        key = self._run.key
        if (found.namespace, found.id) != (key.namespace, key.workflow_id) or topic not in ANSWERS or len(args) > 1:
            raise Invalid("only the workflow that received an update answers it, by ack, nak, ok or error", field="to")
        return self._answer(found.part or "", topic, args)

    def _answer(self, update_id: str, topic: str, args: tuple[Any, ...]) -> bool:
        """Answer an update of this run; the answer is part of this turn."""
        run, status = self._run, self._run.updates.get(update_id)
        if status != (RECEIVED if topic in (ACK, NAK) else ACCEPTED):
            found = "is unknown to this run" if status is None else f"is {status}"
            raise Invalid(f"update {update_id} {found}: it cannot be answered by {topic}", field="to")
        payload = self._encode(args[0], f"answer to update '{update_id}'") if args else NULL
        kind = "acceptance of update" if topic in (ACK, NAK) else "answer to update"
        run.commands.order(kind, update_id, topic, cmd.UpdateResponse(update_id, topic, payload))
        run.updates[update_id] = AFTER[topic]
        return True

    async def _reply(self, message: Message, topic: str, args: tuple[Any, ...]) -> bool:
        """Send a reply; return False if the sender of the message is not there."""
        if message.update_id is not None:
            self._check_alive()
            return self._answer(message.update_id, topic, args)
        if message.from_ is None:
            self.logger.info("no reply %s to message %s: its sender is unknown", topic, message.topic)
            return False
        try:
            return await self.send(message.from_, topic, *args)
        except NotFound as error:
            self.logger.info("no reply %s to message %s: %s", topic, message.topic, error)
            return False

    @abstractmethod
    def _check_alive(self) -> None: ...

    @abstractmethod
    def _encode(self, value: Any, name: str) -> Payload: ...

    @abstractmethod
    def _decode(self, raw: Payload, annotation: Any, name: str) -> Any: ...
