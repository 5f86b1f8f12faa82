"""Versions of changes in workflow code: the checks of a call, and the call for helpers without a ctx."""

from assay.core.model.errors import Invalid
from assay.core.model.options import check_id
from assay.core.rules.attributes import LARGEST_VERSION
from assay.sdk.workflow.replay.commands import DEFAULT_VERSION, Commands
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.workflow_flag import FLAG


def version(change_id: str, min: int, max: int) -> int:
    """Return the version of a change: inside a workflow the version that its run has, elsewhere `max`.

    For functions without a ctx that workflows and other programs call. See `Context.version`.

    Args:
        change_id: The name of the change.
        min: The oldest version that the code supports, at least -1.
        max: The newest version, which new runs receive.

    Returns:
        The version.

    Raises:
        Invalid: The change id is empty, or `min` is greater than `max`.
        UnsupportedVersion: The run's version is outside of the range; the task fails, and the run stays open.
    """
    check_version(change_id, min, max)
    loop = FLAG.inside
    commands = loop.timers if isinstance(loop, WorkflowLoop) else None
    return commands.version(change_id, min, max) if isinstance(commands, Commands) else max


def check_version(change_id: object, minimum: object, maximum: object) -> None:
    """Raise `Invalid` unless the arguments are a change id and a range of versions."""
    check_id(change_id, "change_id")  # type: ignore[arg-type]  # checks the type itself
    for name, number in (("min", minimum), ("max", maximum)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise Invalid(f"{name} must be a whole number, not {type(number).__name__}", field=name)
        if not DEFAULT_VERSION <= number <= LARGEST_VERSION:
            raise Invalid(f"{name} must be from {DEFAULT_VERSION} to {LARGEST_VERSION}, not {number}", field=name)
    if minimum > maximum:  # type: ignore[operator]  # both are int by now
        raise Invalid(f"min is {minimum}, greater than max, which is {maximum}", field="min")
