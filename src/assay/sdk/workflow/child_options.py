"""The options of `start_child_workflow`, and their form on the wire."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.core.model.options import choice
from assay.core.model.payload import Payload
from assay.core.model.policies import IdReuse, ParentClose
from assay.core.model.start_options import OptionKind, by_option
from assay.core.model.texts import check_words
from assay.sdk.arguments import check_mapping, nearest
from assay.sdk.client.start_options import retry_of
from assay.sdk.values.context_values import check_scope, encoded_context
from assay.sdk.values.converter import Converter
from assay.sdk.values.retry import wire_retry


def child_options(converter: Converter, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the command for a call's options; an unknown keyword is refused, not ignored."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        read = _READERS.get(name)
        if read is None:
            hint = nearest(name, ("workflow_id", "input", "task_queue", *_READERS))
            raise Invalid(f"start_child_workflow has no option '{name}'; {hint}", field=name)
        if value is not None:
            fields[name] = read(converter, name, value)
    return fields


def _document(converter: Converter, name: str, value: Any) -> Payload:
    return Payload(converter.encode(value, name=name))


def _object(converter: Converter, name: str, value: Any) -> Payload:
    return _document(converter, name, check_mapping(value, name))


def _duration(_: Converter, name: str, value: Any) -> float:
    return parse_duration(value, name) / SECOND


def _words(_: Converter, name: str, value: Any) -> str:
    return check_words(value, name)


def _retry(_: Converter, name: str, value: Any) -> dict[str, Any] | None:
    policy = retry_of(value, name)
    return None if policy is None else wire_retry(policy)


def _reuse(_: Converter, name: str, value: Any) -> str:
    return choice(IdReuse, value, name, IdReuse.ALLOW_DUPLICATE).value


def _context(converter: Converter, name: str, value: Any) -> Payload:
    return encoded_context(converter, value, name)


def _scope(_: Converter, name: str, value: Any) -> tuple[str, ...]:
    return check_scope(value, name)


def _parent_close(_: Converter, name: str, value: Any) -> str:
    return choice(ParentClose, value, name, ParentClose.TERMINATE).value


_READERS: Final[dict[str, Callable[[Converter, str, Any], Any]]] = {
    **by_option(
        {
            OptionKind.OBJECT: _object,
            OptionKind.DURATION: _duration,
            OptionKind.RETRY: _retry,
            OptionKind.REUSE: _reuse,
            OptionKind.TEXT: _words,
            OptionKind.VALUE: _document,
            OptionKind.LIST: _scope,
        },
    ),
    "context": _context,
    "parent_close_policy": _parent_close,
}
