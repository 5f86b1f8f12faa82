"""What is registered can be served: types that no value can be decoded as are refused at once."""

import dataclasses
import enum
from typing import Any, Literal, Never, NoReturn, TypedDict

import pydantic
import pytest

from assay.core.model.errors import Invalid
from assay.core.model.payload import Payload
from assay.sdk.app import App
from assay.sdk.values.converter import Converter
from assay.sdk.workflow.context import Context


class Ratio(enum.Enum):
    HALF = 0.5


class Corner(enum.Enum):
    TOP_LEFT = (0, 0)


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Nothing(enum.Enum):
    pass


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Cat:
    lives: int


@dataclasses.dataclass
class Dog:
    tricks: int


@dataclasses.dataclass
class Owner:
    shares: Ratio


class Bird(TypedDict):
    songs: int


class Fish(pydantic.BaseModel):
    fins: int


class Whale(pydantic.BaseModel):
    songs: int


def registered(input: Any, result: Any, kind: str) -> None:
    async def handler(ctx, input): ...  # type: ignore[no-untyped-def]

    handler.__annotations__ = {"input": input, "return": result}
    getattr(App(), kind)("Keep", handler)


@pytest.mark.parametrize("kind", ["workflow", "activity"])
@pytest.mark.parametrize(
    "annotation",
    [Ratio, Corner, Mixed, Nothing, Owner, list[Ratio], Ratio | None, Cat | Dog, list[Cat | Dog], Cat | Bird,
     Cat | dict, set[int] | list[int], Literal[1.5]],
)  # fmt: skip
def test_a_type_that_nothing_can_be_decoded_as_is_refused(kind: str, annotation: Any):
    with pytest.raises(Invalid, match=f"the input of {kind} 'Keep': values cannot be decoded as") as raised:
        registered(annotation, int, kind)
    assert raised.value.code == "unsupported_annotation"
    with pytest.raises(Invalid, match=f"the result of {kind} 'Keep': values cannot be decoded as"):
        registered(int, annotation, kind)


@pytest.mark.parametrize(
    "annotation",
    [Any, None, Colour, Cat | None, Cat | int, list[Cat] | Cat, Fish | Whale, Never, NoReturn, Bird, object],
)
def test_all_others_are_welcome(annotation: Any):
    registered(annotation, annotation, "workflow")


@dataclasses.dataclass
class Early:
    later: "list[Later]"


app = App()


@app.workflow
async def early(ctx: Context, input: Early) -> Early:
    return input


@dataclasses.dataclass
class Later:
    number: int


def test_a_class_that_comes_later_is_waited_for():
    value = app.workflows["early"].signature.value_of(Payload(b'{"later": [{"number": 1}]}'), Converter())
    assert value == Early([Later(1)])
