"""Signatures of handlers: the ctx, the input and their types, read once at registration."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from assay.core.model.arguments import unpacked_payload
from assay.core.model.errors import Invalid
from assay.core.model.payload import Payload
from assay.sdk.values.converter import Converter

_Parameter = inspect.Parameter
ABSENT: Final = _Parameter.empty
_POSITIONAL = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)


@dataclasses.dataclass(frozen=True, slots=True)
class OtherInput:
    """A parameter after the first input: given by start requests with several arguments."""

    name: str
    position: int | None
    annotation: Any
    required: bool
    is_rest: bool
    """True for `*args`, which takes all further arguments."""
    default: Any = dataclasses.field(default=ABSENT, compare=False)


class Arguments(tuple[Any, ...]):
    """The decoded arguments of a call with several: the input, then the values of `HandlerSignature.others`."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class HandlerSignature:
    """How to call a handler, and how to decode and encode its values.

    A position of None means a keyword-only parameter. `surplus` names required parameters beside a ctx and one input.
    """

    takes_context: bool
    context_name: str | None
    context_position: int | None
    takes_input: bool
    input_name: str | None
    input_position: int | None
    input_required: bool
    input_annotation: Any
    result_annotation: Any
    is_async: bool
    parameters: tuple[str, ...]
    surplus: tuple[str, ...]
    input_default: Any = dataclasses.field(default=ABSENT, compare=False)
    others: tuple[OtherInput, ...] = ()
    input_is_rest: bool = False
    is_wrapper: bool = False
    """True for a function with `*args` alone."""

    def value_of(self, raw: Payload, converter: Converter) -> Any:
        """Decode the input; return `ABSENT` for a null input of a handler whose input has a default.

        Raises:
            Invalid: The input cannot be decoded, or has too many or too few arguments for the handler.
        """
        given = unpacked_payload(raw) if self.takes_input else None
        if given is not None or self.others or self.input_is_rest:
            return self._several(raw, given, converter)
        if not self.takes_input or (not self.input_required and bytes(raw).strip() == b"null"):
            return ABSENT
        return converter.decode(raw, self.input_annotation, name="input")

    def _several(self, raw: Payload, given: list[Payload] | None, converter: Converter) -> Any:
        """Decode the arguments of a handler with several parameters, or of an input with several arguments."""
        if given is None:
            is_null = bytes(raw).strip() == b"null"
            given = [] if is_null and (self.input_is_rest or not self.input_required) else [raw]
            if self.is_wrapper:
                given = [raw]  # the wrapped function has most likely one parameter for the input
        rest = self.others[-1] if self.others and self.others[-1].is_rest else None
        single = self.others[:-1] if rest else self.others
        is_first_rest = self.input_is_rest
        most = None if rest or is_first_rest else 1 + len(single)
        least = int(self.input_required and not is_first_rest) + sum(other.required for other in single)
        if len(given) < least or (most is not None and len(given) > most):
            raise _wrong_count(self, len(given), least)
        if is_first_rest:
            return Arguments(converter.decode(one, name=f"args[{place}]") for place, one in enumerate(given))
        kinds = [self.input_annotation, *(other.annotation for other in single)]
        kinds += [ABSENT if rest is None else rest.annotation] * (len(given) - len(kinds))
        values = [
            converter.decode(one, kind, name="input" if len(given) == 1 else f"args[{place}]")
            for place, (one, kind) in enumerate(zip(given, kinds, strict=False))
        ]
        defaults = [self.input_default, *(other.default for other in single)]
        return Arguments(values + defaults[len(values) :])

    def arguments(self, context: object, value: object) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the positional and named arguments of a call; an absent input takes its default."""
        if type(value) is Arguments:
            return self._placed(context, value)
        if value is ABSENT:
            value = self.input_default
        if self.context_position == 0:  # the fast path of nearly every handler: (ctx, input) or (ctx)
            if self.input_position == 1:
                return (context, value), {}
            if not self.takes_input:
                return (context,), {}
        placed: list[tuple[int, object]] = []
        named: dict[str, object] = {}
        for name, position, argument in (
            (self.context_name, self.context_position, context),
            (self.input_name, self.input_position, value),
        ):
            if position is not None:
                placed.append((position, argument))
            elif name is not None:
                named[name] = argument
        return tuple(argument for _, argument in sorted(placed, key=lambda pair: pair[0])), named

    def _placed(self, context: object, values: Arguments) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the positional and named arguments of a call with several arguments."""
        if self.input_is_rest:
            return ((context, *values) if self.takes_context else tuple(values)), {}
        single = [other for other in self.others if not other.is_rest]
        places = [(self.input_name, self.input_position), *((other.name, other.position) for other in single)]
        pairs = list(zip(places, values, strict=False))
        if self.takes_context:
            pairs.append(((self.context_name, self.context_position), context))
        placed = [(position, value) for (_, position), value in pairs if position is not None]
        named = {str(name): value for (name, position), value in pairs if position is None}
        ordered = [value for _, value in sorted(placed, key=lambda pair: pair[0])]
        return (*ordered, *values[len(places) :]), named


def _wrong_count(signature: HandlerSignature, given: int, least: int) -> Invalid:
    names = ", ".join([str(signature.input_name), *(other.name for other in signature.others)])
    wanted = f"at least {least}" if given < least else f"at most {1 + len(signature.others)}"
    return Invalid(f"the handler takes {wanted} arguments ({names}), and {given} were given", field="args")


def signature_of(
    handler: Callable[..., object], *, local_names: Mapping[str, object] | None = None
) -> HandlerSignature:
    """Read the signature of `handler`; `local_names` helps to resolve annotations that are texts."""
    resolve = _Resolver(handler, local_names)
    declared = _declared(handler)
    found = [one for one in declared.parameters.values() if one.kind is not _Parameter.VAR_KEYWORD]
    is_wrapper = [one.kind for one in found] == [_Parameter.VAR_POSITIONAL]
    if is_wrapper:
        found = [found[0].replace(name="ctx"), found[0]]  # a wrapper with *args only receives both
    context = _context_among(found, resolve)
    rest = [one for one in found if one is not context]
    given = rest[0] if rest else None
    return HandlerSignature(
        takes_context=context is not None,
        context_name=context.name if context else None,
        context_position=_position(context, found),
        takes_input=given is not None,
        input_name=given.name if given else None,
        input_position=_position(given, found),
        input_required=given is not None and given.default is _Parameter.empty,
        input_default=given.default if given else ABSENT,
        input_annotation=resolve(given.annotation, given.name) if given else _Parameter.empty,
        result_annotation=resolve(declared.return_annotation, "return"),
        is_async=_is_async(handler),
        parameters=tuple(one.name for one in found if one.kind in _POSITIONAL),
        surplus=tuple(one.name for one in rest[1:] if _is_required(one)),
        others=tuple(_other(one, found, resolve) for one in rest[1:]),
        input_is_rest=given is not None and given.kind is _Parameter.VAR_POSITIONAL,
        is_wrapper=is_wrapper,
    )


def _declared(handler: Callable[..., object]) -> inspect.Signature:
    """Return the signature as written; refuse generators, and callables without a readable signature."""
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise _refused(handler, "is a generator: a handler returns its result, it does not yield")
    try:
        return inspect.signature(handler)
    except (TypeError, ValueError):
        raise _refused(handler, "has no readable signature: wrap it in a function") from None


def _context_among(found: list[_Parameter], resolve: _Resolver) -> _Parameter | None:
    """Return the parameter named `ctx`, otherwise the first parameter annotated as a context."""
    named = [one for one in found if one.name == "ctx"]
    return next(iter(named or [one for one in found if resolve.is_context(one.annotation)]), None)


def _position(parameter: _Parameter | None, found: list[_Parameter]) -> int | None:
    if parameter is None or parameter.kind is _Parameter.KEYWORD_ONLY:
        return None
    return found.index(parameter)


def _other(parameter: _Parameter, found: list[_Parameter], resolve: _Resolver) -> OtherInput:
    return OtherInput(
        parameter.name,
        _position(parameter, found),
        resolve(parameter.annotation, parameter.name),
        _is_required(parameter),
        parameter.kind is _Parameter.VAR_POSITIONAL,
        parameter.default,
    )


def _is_required(parameter: _Parameter) -> bool:
    return parameter.default is _Parameter.empty and parameter.kind is not _Parameter.VAR_POSITIONAL


def _is_async(handler: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _refused(handler: Callable[..., object], problem: str) -> Invalid:
    return Invalid(f"handler {getattr(handler, '__qualname__', repr(handler))} {problem}", code="invalid_handler")


class _Resolver:
    """Resolves annotations that are texts, as `from __future__ import annotations` leaves them."""

    def __init__(self, handler: Callable[..., object], local_names: Mapping[str, object] | None) -> None:
        self._handler = handler
        self._globals = _globals_of(handler)
        self._locals = dict(local_names or {})

    def __call__(self, annotation: Any, parameter: str) -> Any:
        if annotation is _Parameter.empty:
            return annotation
        try:
            return self._resolve(annotation)
        except Exception as error:
            problem = f"has an annotation that cannot be resolved, {annotation!r} of {parameter!r}: {error}"
            raise _refused(self._handler, f"{problem}; import it at run time, not only for type checking") from error

    def is_context(self, annotation: Any) -> bool:
        """Return True if `annotation` is a class whose name ends with Context, and not a class of data."""
        if annotation is _Parameter.empty:
            return False
        try:
            resolved = self._resolve(annotation)
        except Exception:  # noqa: BLE001 - imported for type checking only: the name has to do
            return isinstance(annotation, str) and annotation.partition("[")[0].endswith("Context")
        return any(_is_context_class(candidate) for candidate in _alternatives(resolved))

    def _resolve(self, annotation: Any) -> Any:
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        return typing.get_type_hints(holder, self._globals, self._locals, include_extras=True)["it"]


def _globals_of(handler: Callable[..., object]) -> dict[str, Any]:
    target: Any = handler
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target)
    if not hasattr(target, "__globals__"):  # an object that can be called
        target = inspect.unwrap(type(target).__call__)
    return getattr(target, "__globals__", {})


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, without type arguments and `Annotated` marks."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return tuple(one for member in typing.get_args(annotation) for one in _alternatives(member))
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    return (origin or annotation,)


def _is_context_class(candidate: Any) -> bool:
    if not isinstance(candidate, type) or not candidate.__name__.endswith("Context"):
        return False
    # A user's class of data, such as a dataclass named OrderContext, is an input.
    is_data = dataclasses.is_dataclass(candidate) or typing.is_typeddict(candidate) or issubclass(candidate, dict)
    return not (is_data or issubclass(candidate, msgspec.Struct) or hasattr(candidate, "__pydantic_validator__"))
