from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypedDict, TypeVar

import pytest

from assay.core.model.errors import Invalid
from assay.core.model.payload import NULL, Payload
from assay.sdk.values.converter import Converter
from assay.sdk.values.signatures import signature_of

if TYPE_CHECKING:
    from nowhere import HiddenContext, HiddenOrder

T = TypeVar("T")


class Context(Generic[T]):
    pass


class BlockingContext:
    pass


@dataclasses.dataclass
class Order:
    id: int


@dataclasses.dataclass
class OrderContext:
    id: int


class TypedContext(TypedDict):
    id: int


def call(handler: Callable[..., Any]) -> Any:
    """What the handler makes of its arguments when it is called as its signature says."""
    positional, named = signature_of(handler).arguments("CTX", "INPUT")
    return handler(*positional, **named)


def neither():
    return ()


def only_ctx(ctx):
    return (ctx,)


def only_input(input):
    return (input,)


def both(ctx, input):
    return (ctx, input)


def turned(input, ctx):
    return (ctx, input)


def by_annotation(context: BlockingContext, order: Order):
    return (context, order)


def by_brackets(order: Order, c: Context[int]):
    return (c, order)


def by_option(c: Context[int] | None, order: Order):
    return (c, order)


def by_mark(c: Annotated[BlockingContext, "x"], order: Order):
    return (c, order)


def by_hidden_name(c: HiddenContext, order: Order):
    return (c, order)


def named_first(order: OrderContext, ctx):
    return (ctx, order)


def keyword_ctx(order, *, ctx):
    return (ctx, order)


def keyword_input(ctx, *, order):
    return (ctx, order)


def positional_only(ctx, order, /):
    return (ctx, order)


def with_defaults(ctx, order=None, extra=1, **more):
    return (ctx, order)


def with_rest(ctx, *rest):
    return (ctx, *rest)


def open_to_all(*rest, **more):
    return rest


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (neither, ()),
        (only_ctx, ("CTX",)),
        (only_input, ("INPUT",)),
        *[
            (handler, ("CTX", "INPUT"))
            for handler in (
                both, turned, by_annotation, by_brackets, by_option, by_mark, by_hidden_name, named_first,
                keyword_ctx, keyword_input, positional_only, with_defaults, with_rest, open_to_all,
            )
        ],
    ],
)  # fmt: skip
def test_a_handler_gets_what_it_asks_for_where_it_asks_for_it(handler, expected):
    assert call(handler) == expected
    signature = signature_of(handler)
    assert (signature.takes_context, signature.takes_input) == ("CTX" in expected, "INPUT" in expected)
    assert signature.surplus == ()


def test_types_are_resolved_from_texts():
    async def flow(ctx: Context[int], order: list[Order]) -> dict[str, Order] | None: ...

    signature = signature_of(flow)
    assert signature.input_annotation == list[Order]
    assert signature.result_annotation == dict[str, Order] | None
    assert signature.is_async
    assert (signature.context_name, signature.context_position) == ("ctx", 0)
    assert (signature.input_name, signature.input_position, signature.input_required) == ("order", 1, True)
    assert signature.parameters == ("ctx", "order")


def test_what_is_not_annotated_is_empty():
    signature = signature_of(both)
    assert signature.input_annotation is Parameter.empty
    assert signature.result_annotation is Parameter.empty
    assert not signature.is_async
    assert signature_of(only_ctx).input_annotation is Parameter.empty
    assert signature_of(with_defaults).input_required is False


MARK = object()


def with_own_mark(ctx, order: int = MARK):  # type: ignore[assignment]
    return ctx, order


def default_before_ctx(order: int = 7, ctx=None, /):
    return ctx, order


def default_by_name(ctx, *, order: int = 7):
    return ctx, order


@pytest.mark.parametrize(("handler", "default"), [(with_own_mark, MARK), (default_before_ctx, 7), (default_by_name, 7)])
@pytest.mark.parametrize("raw", [b"null", b" null\n", b"3"])
def test_a_handler_gets_its_default_when_no_input_was_given(handler: Callable[..., Any], default: object, raw: bytes):
    signature = signature_of(handler)
    value = signature.value_of(Payload(raw), Converter())
    positional, named = signature.arguments("CTX", value)
    assert handler(*positional, **named) == ("CTX", 3 if raw == b"3" else default)


def test_without_a_default_nothing_given_is_null():
    assert signature_of(both).value_of(NULL, Converter()) is None


def test_data_named_like_a_context_is_an_input():
    def flow(order: OrderContext): ...

    def other(order: TypedContext): ...

    assert not signature_of(flow).takes_context
    assert signature_of(flow).input_annotation is OrderContext
    assert not signature_of(other).takes_context


def test_more_than_one_input_is_named_as_surplus():
    def flow(context, order, copies, retries=1): ...

    assert signature_of(flow).surplus == ("order", "copies")
    assert signature_of(flow).parameters == ("context", "order", "copies", "retries")


def test_local_names_help_to_resolve():
    @dataclasses.dataclass
    class Local:
        id: int

    def flow(ctx, order: Local): ...

    with pytest.raises(Invalid, match="'Local' of 'order'"):
        signature_of(flow)
    assert signature_of(flow, local_names={"Local": Local}).input_annotation is Local


def test_a_type_that_is_hidden_from_run_time_is_refused():
    def flow(ctx, order: HiddenOrder): ...

    def other(ctx) -> HiddenOrder: ...

    for handler in (flow, other):
        with pytest.raises(Invalid, match="not only for type checking") as raised:
            signature_of(handler)
        assert raised.value.code == "invalid_handler"


def test_generators_and_silent_callables_are_refused():
    def generator(ctx):
        yield 1

    async def stream(ctx):
        yield 1

    for handler in (generator, stream, dict):
        with pytest.raises(Invalid) as raised:
            signature_of(handler)
        assert raised.value.code == "invalid_handler"


def wrapped(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return handler(*arguments, **named)

    return wrapper


class Service:
    def method(self, ctx, order: Order) -> Order:
        return (ctx, order)

    async def __call__(self, order: Order) -> Order: ...


def test_methods_partials_wrappers_and_objects_are_handlers():
    for handler in (wrapped(by_annotation), Service().method, functools.partial(with_defaults, extra=2)):
        assert signature_of(handler).takes_context
    assert call(wrapped(by_annotation)) == ("CTX", "INPUT")
    assert call(Service().method) == ("CTX", "INPUT")
    assert signature_of(Service().method).input_annotation is Order
    assert signature_of(wrapped(by_annotation)).input_annotation is Order
    assert signature_of(functools.partial(by_annotation, order=1)).takes_context
    signature = signature_of(Service())
    assert signature.is_async
    assert signature.input_annotation is Order
    assert not signature.takes_context
