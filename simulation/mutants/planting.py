"""What a planted bug is: a name, the rule it breaks, a patch, and the world in which it shows."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

import msgspec

from simulation.settings import Settings, settings_of

Patch = tuple[Any, str, Any]
"""An object, the name of one of its attributes, and what to put there."""


class Mutant(msgspec.Struct, frozen=True):
    """A bug that some checker must find."""

    name: str
    rule: str
    patches: Callable[[], list[Patch]]
    shared: bool | None = None
    faults: tuple[str, ...] | None = None
    """The faults that bring it out; None for what each seed decides."""
    seeds: int = 100
    """Within how many seeds it must be found."""
    world: dict[str, Any] = {}
    """Settings that are the same for all seeds."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The code as it would be with the bug."""
        with ExitStack() as stack:
            for target, name, value in self.patches():
                stack.enter_context(_patched(target, name, value))
            yield

    def settings(self, seed: int) -> Settings:
        """The world of a seed in which the bug is looked for."""
        return msgspec.structs.replace(settings_of(seed, shared=self.shared, faults=self.faults), **self.world)


def _patched(target: Any, name: str, value: Any) -> AbstractContextManager[Any]:
    if isinstance(target, dict):
        return mock.patch.dict(target, {name: value})
    return mock.patch.object(target, name, value)


def does_nothing(*_: Any, **__: Any) -> None:
    """In place of what should be done."""


async def waits_for_nothing(*_: Any, **__: Any) -> None:
    """In place of what should be done and waited for."""
