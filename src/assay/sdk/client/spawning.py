"""`spawn` and `exec` of a client: starts with arguments by position, and with a name that several callers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack, cast

from assay.core.model.errors import Invalid
from assay.core.model.options import check_id
from assay.sdk.client.handle import Handle
from assay.sdk.client.start_options import StartKeywords
from assay.sdk.spawner import Building, Spawner


class SpawnKeywords(StartKeywords, total=False):
    """Options of `spawn` and `exec`: those of a start, and two names of its workflow id.

    Keys:
        id: The workflow id; generated unless given.
        name: The same; `id` is used if both are given.
    """

    id: str | None
    name: str | None


class Spawning(Building):
    """The part of `Client` that spawns."""

    def _spawner(self) -> Spawner:
        return Spawner(self)

    async def spawn(
        self, workflow: Callable[..., Any] | str, *arguments: Any, **options: Unpack[SpawnKeywords]
    ) -> Handle[Any]:
        """Start a workflow and return without waiting for its end.

        With an id or a name, an open run of the id is attached to: `started` of the handle is False then, and the
        arguments are ignored. An `id_conflict_policy` or `error_if_exists` decides instead.

        Args:
            workflow: The workflow function, or its registered name.
            *arguments: Its arguments.
            **options: See `SpawnKeywords`.

        Returns:
            A handle of the run.

        Raises:
            AlreadyExists: The id has an open run, and the options refuse to attach to it.
            Invalid: An argument is malformed.
        """
        handle: Handle[Any] = await cast("Any", self).start(workflow, args=arguments, **_named(options))
        return handle

    async def exec(self, workflow: Callable[..., Any] | str, *arguments: Any, **options: Unpack[SpawnKeywords]) -> Any:
        """Start a workflow and wait for its result; the run goes on if the caller is cancelled.

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
        named = _named(options)
        if named.get("id_reuse_policy") is None:
            named["id_reuse_policy"] = "allow_duplicate"  # `run` would return the result of a completed run
        return await cast("Any", self).run(workflow, args=arguments, **named)


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a start: with its workflow id, and with the default of a name that is in use."""
    found = {key: value for key, value in options.items() if key not in ("id", "name")}
    if "args" in found:
        raise Invalid("spawn and exec take arguments by position, not as args", field="args")
    for key in ("name", "id"):
        if options.get(key) is not None:
            found["workflow_id"] = check_id(options[key], key)
    if found.get("workflow_id") is not None and found.get("error_if_exists") is None:
        found["id_conflict_policy"] = found.get("id_conflict_policy") or "use_existing"
    return found
