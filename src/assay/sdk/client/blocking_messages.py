"""`workflow.spawn`, `exec`, `signal`, `update`, `send` and `session`: blocking calls for programs without asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from assay.core.model.duration import Duration
    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.blocking_session import BlockingSession
    from assay.sdk.client.client import Client
    from assay.sdk.client.records import StartRecord
    from assay.sdk.client.spawning import SpawnKeywords


class BlockingMessages:
    """The blocking calls that spawn workflows and send messages.

    Args:
        blocking_client: Returns the client of the program.
    """

    def __init__(self, blocking_client: Callable[[], BlockingClient]) -> None:
        self._blocking_client = blocking_client

    def spawn(
        self, workflow: Callable[..., Any] | str, *arguments: Any, **options: Unpack[SpawnKeywords]
    ) -> StartRecord:
        """Start a workflow with arguments by position; with an id or a name, attach to its open run.

        Args:
            workflow: The workflow function, or its registered name.
            *arguments: Its arguments.
            **options: See `SpawnKeywords`.

        Returns:
            A record with `workflow_id`, `run_id`, `pid`, and `started`: False if an open run was attached to.

        Raises:
            AlreadyExists: The id has an open run, and the options refuse to attach to it.
            Invalid: An argument is malformed.
        """

        async def act(client: Client) -> StartRecord:
            return (await client.spawn(workflow, *arguments, **options)).record()

        return self._blocking_client().call("spawn", act)

    def exec(self, workflow: Callable[..., Any] | str, *arguments: Any, **options: Unpack[SpawnKeywords]) -> Any:
        """Start a workflow with arguments by position, and wait for its result.

        Args:
            workflow: The workflow function, or its registered name.
            *arguments: Its arguments.
            **options: See `SpawnKeywords`. With an id or a name, an open run of the id is waited for.

        Returns:
            The result, decoded by the return annotation of the workflow function.

        Raises:
            WorkflowFailed: The workflow failed; `WorkflowCancelled`, `WorkflowTerminated` and `WorkflowTimedOut`
                likewise.
            Invalid: An argument is malformed.
        """
        return self._blocking_client().call("exec", lambda client: client.exec(workflow, *arguments, **options))

    def signal(
        self,
        workflow_id: str,
        name: str,
        payload: Any = None,
        *,
        run_id: str | None = None,
        namespace: str | None = None,
    ) -> None:
        """Send a signal to an open run.

        Args:
            workflow_id: The workflow id.
            name: The signal's name.
            payload: The signal's payload.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the connection's.

        Raises:
            NotFound: The id has no open run.
        """
        self._blocking_client().call(
            "signal", lambda client: client.signal(workflow_id, name, payload, run_id=run_id, namespace=namespace)
        )

    def update(
        self,
        target: Any,
        name: str,
        *args: Any,
        update_id: str | None = None,
        timeout: Duration | None = None,
        namespace: str | None = None,
    ) -> Any:
        """Send an update to an open run, and wait for its answer.

        Args:
            target: A workflow id, an address, or an object with a `pid`, such as the record of a start.
            name: The update's name, which is the topic of the message that the workflow receives.
            *args: The update's arguments.
            update_id: The id of the update; the same id is one update of a run.
            timeout: The longest wait; without a limit unless given.
            namespace: The namespace of the id, unless the connection's.

        Returns:
            The result of the update.

        Raises:
            NotFound: The id has no open run, or the run ended before it accepted the update.
            Failure: The workflow rejected the update (kind INVALID), or failed it.
            TimeoutError: The time is over; the update goes on.
        """
        return self._blocking_client().call(
            "update",
            lambda client: client.update(
                target, name, *args, update_id=update_id, timeout=timeout, namespace=namespace
            ),
        )

    def send(self, to: Any, topic: str, *args: Any) -> bool:
        """Send a message to a workflow or a session, without an address for replies; see `session`.

        Args:
            to: An address, or an object with a `pid`, such as the record of a start.
            topic: The topic.
            *args: The payloads.

        Returns:
            True, when the message is recorded at its target.

        Raises:
            NotFound: The target does not exist or has ended.
            Invalid: The topic is empty or reserved.
        """
        return self._blocking_client().call("send", lambda client: client.session()._send(to, topic, args, None))

    def session(self, id: str | None = None, *, namespace: str | None = None) -> BlockingSession:
        """Return a session: a durable mailbox with the message verbs of a workflow, for `with`.

        Args:
            id: The id of the mailbox, to attach to it again after a crash; a new one unless given.
            namespace: The namespace of the mailbox, unless the connection's.

        Returns:
            The session, whose mailbox exists from `with` to its end.

        Raises:
            Invalid: The id is malformed.
        """
        from assay.sdk.client.blocking_session import BlockingSession

        async def make(client: Client) -> BlockingSession:
            return BlockingSession(blocking_client, client.session(id, namespace=namespace))

        blocking_client = self._blocking_client()
        return blocking_client.call("session", make)
