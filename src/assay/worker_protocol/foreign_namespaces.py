"""Namespaces that the commands of a turn name beside the run's own: the credential of the worker must grant them."""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from assay.core.model.addresses import parse_address
from assay.core.model.commands import (
    AnyCommand,
    RequestCancelExternal,
    SendMessage,
    StartChildWorkflow,
    TerminateExternal,
    Unwatch,
    Watch,
)
from assay.core.model.requests import Advance

MayAct = Callable[[str], bool]
"""Returns whether the credential of a worker may start and steer runs in a namespace."""
_NAMING: Final = frozenset({StartChildWorkflow, SendMessage, RequestCancelExternal, TerminateExternal, Watch, Unwatch})


def restricted(request: Advance, own: str, may_act: MayAct) -> Advance:
    """Return a turn with the namespaces in which its commands must have no effect.

    Args:
        request: The turn.
        own: The namespace of the worker, in which its commands need no further permission.
        may_act: Checks the credential of the worker.
    """
    if _NAMING.isdisjoint(map(type, request.commands)):
        return request
    denied = frozenset(name for name in _named(request.commands) if name != own and not may_act(name))
    return replace(request, denied=denied) if denied else request


def _named(commands: Iterable[AnyCommand]) -> set[str]:
    found: set[str] = set()
    for command in commands:
        if isinstance(command, StartChildWorkflow) and isinstance(command.namespace, str):
            found.add(command.namespace)
        elif isinstance(command, SendMessage | RequestCancelExternal | TerminateExternal | Watch | Unwatch):
            address = parse_address(command.to if isinstance(command, SendMessage) else command.target)
            if address is not None:
                found.add(address.namespace)
    return found
