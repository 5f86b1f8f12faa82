"""The options of a start, listed once: requests, commands and bodies inherit them, and conversions iterate over them.

CONTRIBUTING.md describes how to add an option.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Final, Generic, TypeVar, get_type_hints

import msgspec

from assay.core.model.payload import NULL, Payload

Span = TypeVar("Span")
Policy = TypeVar("Policy")
Reuse = TypeVar("Reuse")
JsonObject = Annotated[Payload, msgspec.Meta(title="object")]
"""A payload with a JSON object."""


PriorityNumber = Annotated[Payload, msgspec.Meta(title="priority")]
"""A payload with a priority."""


class StartOptions(msgspec.Struct, Generic[Span, Policy, Reuse], frozen=True, gc=False, kw_only=True):
    """The common options of a start by a client and the start of a child.

    The parameters are the types of a duration, a retry policy and an id reuse policy: parsed in a request, as the
    caller spells them in a command or body. Encoded commands have this order: add new options at the end.
    """

    search_attributes: JsonObject = NULL
    memo: JsonObject = NULL
    context: JsonObject = NULL
    execution_timeout: Span | None = None
    run_timeout: Span | None = None
    task_timeout: Span | None = None
    start_delay: Span | None = None
    retry_policy: Policy | None = None
    cron_schedule: str | None = None
    id_reuse_policy: Reuse | None = None
    summary: str | None = None
    details: str | None = None
    priority: PriorityNumber = NULL
    actor: str | None = None
    scope: tuple[str, ...] | None = None


SpelledOptions = StartOptions[float | str, dict[str, Any], str]
"""The options of a command or body: durations in seconds or as a text, for example "1h30m"."""


class OptionKind:
    """The kinds of options: conversions have a function per kind, not per option. A kind is the type of its fields."""

    OBJECT: Final[Any] = JsonObject
    DURATION: Final[Any] = Span | None
    RETRY: Final[Any] = Policy | None
    REUSE: Final[Any] = Reuse | None
    TEXT: Final[Any] = str | None
    PRIORITY: Final[Any] = PriorityNumber
    LIST: Final[Any] = tuple[str, ...] | None


OPTION_KINDS: Final[dict[str, Any]] = get_type_hints(StartOptions, include_extras=True)
"""The kind of each option."""

Entry = TypeVar("Entry")
Convert = Callable[[Any, str], Any]
"""Return an option's value in another form; the second argument is the option's name, for errors."""

_values: Final = attrgetter(*OPTION_KINDS)


def options_of(*kinds: Any) -> tuple[str, ...]:
    """Return the names of the options of these kinds, in their order."""
    return tuple(name for name, kind in OPTION_KINDS.items() if kind in kinds)


def by_option(by_kind: Mapping[Any, Entry]) -> dict[str, Entry]:
    """Return a dict from each option whose kind is in `by_kind` to the entry of its kind."""
    return {name: by_kind[kind] for name, kind in OPTION_KINDS.items() if kind in by_kind}


def given_options(options: StartOptions[Any, Any, Any], converts: Mapping[str, Convert]) -> dict[str, Any]:
    """Return the options with a value by name, each converted by its function in `converts`, if any."""
    found: dict[str, Any] = {}
    for name, value in zip(OPTION_KINDS, _values(options), strict=True):
        if value is not None and value is not NULL:
            convert = converts.get(name)
            found[name] = value if convert is None else convert(value, name)
    return found
