import dataclasses
import enum
import math
import subprocess
import sys
import uuid
from collections import OrderedDict, UserDict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.model.errors import Invalid, Kind
from assay.core.model.input_hash import canonical_json, hash_of
from assay.sdk.values.converter import REMEMBERED_BYTES, REMEMBERED_HASHES, Converter, _hashes

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
INTEGERS = st.integers() | st.integers(-(10**400), 10**400)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)

converter = Converter()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 9


class CustomerId(str):
    pass


class Cents(int):
    pass


class Point(NamedTuple):
    x: int
    y: float


class Address(TypedDict):
    street: str
    number: int


@dataclasses.dataclass
class Line:
    name: str
    price: float
    tags: list[str] = dataclasses.field(default_factory=list)


class Order(msgspec.Struct):
    id: int
    lines: list[Line]
    note: str | None = None


class Invoice(pydantic.BaseModel):
    number: int
    total: float
    due: date | None = None


class Renamed(pydantic.BaseModel):
    customer_id: int = pydantic.Field(alias="customerId")
    label: str = pydantic.Field("x", serialization_alias="LABEL")

    @pydantic.computed_field
    @property
    def doubled(self) -> int:
        return 2 * self.customer_id

    model_config = pydantic.ConfigDict(extra="forbid")


@dataclasses.dataclass
class Parcel:
    invoice: Invoice
    weight: Decimal


class Strict(msgspec.Struct):
    value: float


INVOICE = Invoice(number=2**80, total=0.1, due=date(2026, 2, 28))
SOME_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def refused(value: object, **options: Any) -> Invalid:
    with pytest.raises(Invalid) as raised:
        converter.encode(value, name="input", **options)
    return raised.value


@given(VALUES)
def test_any_json_value_comes_back_exactly(value):
    raw = converter.encode(value)
    for annotation in (Any, object, Parameter.empty):
        assert repr(converter.decode(raw, annotation)) == repr(value)
    assert repr(converter.decode(msgspec.Raw(raw))) == repr(value)


@given(INTEGERS)
def test_integers_of_any_size_keep_every_digit(value):
    assert converter.encode(value) == str(value).encode()
    assert converter.decode(converter.encode([value]), list[int]) == [value]
    assert converter.decode(converter.encode(Order(value, [])), Order).id == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_every_bit(value):
    assert converter.decode(converter.encode(value), float).hex() == value.hex()
    assert converter.decode(converter.encode({"a": value, "b": None}))["a"].hex() == value.hex()


@given(
    st.timedeltas()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.times()
    | st.uuids()
    | st.binary()
    | st.decimals(allow_nan=False)
)
def test_values_with_a_type_come_back_by_annotation(value):
    assert converter.decode(converter.encode(value), type(value)) == value
    assert converter.decode(converter.encode([None, value]), list[type(value) | None]) == [None, value]


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (Line("a", 1.5, ["x"]), Line),
        ([Line("a", 1.5)], list[Line]),
        (Order(1, [Line("a", 2.5)], None), Order),
        ({"o": Order(10**50, [], "n")}, dict[str, Order]),
        ({"street": "Main", "number": 5}, Address),
        (Colour.BLUE, Colour),
        ({Colour.RED: Level.HIGH}, dict[Colour, Level]),
        (Point(1, 2.5), Point),
        (datetime(2026, 1, 2, 3, 4, 5, 678, UTC), datetime),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=-3, minutes=-30))), datetime),
        (datetime(2026, 1, 2, 3, 4, 5, 678), datetime),  # noqa: DTZ001 - a naive one stays naive
        (date(1, 1, 1), date),
        (time(1, 2, 3, 4), time),
        (timedelta.min, timedelta),
        (timedelta(microseconds=-1), timedelta),
        (SOME_ID, uuid.UUID),
        ({SOME_ID: 1}, dict[uuid.UUID, int]),
        (Decimal("1.10"), Decimal),
        (Decimal("1E+500"), Decimal),
        (b"\x00\xff", bytes),
        ({3, 1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ((1, "a", None), tuple[int, str, None]),
        ((1, 2, 3), tuple[int, ...]),
        ({1: "a"}, dict[int, str]),
        ({2**70: "a"}, dict[int, str]),
        (None, Line | None),
        (None, None),
        ("a", Literal["a", "b"]),
        (5, Annotated[int, msgspec.Meta(gt=1)]),
        (CustomerId("c-1"), CustomerId),
        ([Cents(2**70)], list[Cents]),
        (INVOICE, Invoice),
        ([INVOICE], list[Invoice]),
        (INVOICE, Invoice | None),
        (None, Invoice | None),
        ({"a": [INVOICE]}, dict[str, list[Invoice]]),
        (INVOICE, Invoice | Renamed | int),
        (7, Invoice | Renamed | int),
        (INVOICE, NewType("Paid", Invoice)),
        (Renamed(customerId=5), Renamed),
        (pydantic.RootModel[list[int]]([1, 2]), pydantic.RootModel[list[int]]),
        (5, Annotated[int, pydantic.Field(gt=1)]),
        (Parcel(INVOICE, Decimal("2.50")), Parcel),
        ([Parcel(INVOICE, Decimal("2.50"))], list[Parcel]),
    ],
)
def test_every_supported_type_makes_the_round_trip(value, annotation):
    decoded = converter.decode(converter.encode(value), annotation)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Line("a", 1.5), {"name": "a", "price": 1.5, "tags": []}),
        (b"abc", "YWJj"),
        ((1, [2]), [1, [2]]),
        ({7}, [7]),
        (Level.HIGH, 9),
        (CustomerId("c"), "c"),
        (deque([1, None]), [1, None]),
        (UserDict(a=None), {"a": None}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (INVOICE, {"number": 2**80, "total": 0.1, "due": "2026-02-28"}),
        (Renamed(customerId=1), {"customer_id": 1, "label": "x"}),
        (timedelta(seconds=90), "PT90S"),
        ("\\u0000 null nan", "\\u0000 null nan"),
        ({"nan": None, "inf": 1e305}, {"nan": None, "inf": 1e305}),
        (msgspec.Raw(b'{"a":1}'), {"a": 1}),
    ],
)
def test_values_look_the_same_in_every_language(value, plain):
    assert converter.decode(converter.encode(value)) == plain


@pytest.mark.parametrize(
    ("value", "field", "code"),
    [
        (math.nan, "input", "not_a_number"),
        ({"items": [0, 1, 2, {"price": math.nan}]}, "input.items[3].price", "not_a_number"),
        ([None, -math.inf], "input[1]", "not_a_number"),
        ({"a b": math.inf}, "input['a b']", "not_a_number"),
        ({math.nan: 1}, "input.nan", "not_a_number"),
        ({-math.inf: 1}, "input['-inf']", "not_a_number"),
        ([2**70, math.nan], "input[1]", "not_a_number"),
        ([Line("a", math.nan)], "input[0].price", "not_a_number"),
        (Order(1, [Line("a", 1.0), Line("b", math.inf)]), "input.lines[1].price", "not_a_number"),
        ({"i": Invoice(number=1, total=math.nan)}, "input.i.total", "not_a_number"),
        ((1, {math.nan}), "input[1][0]", "not_a_number"),
        (deque([math.nan]), "input[0]", "not_a_number"),
        (UserDict(a=math.nan), "input.a", "not_a_number"),
        ("a\0", "input", "nul_character"),
        ({"a\0": 1}, "input['a\\x00']", "nul_character"),
        ({"a": ["\\u0000", "\0"]}, "input.a[1]", "nul_character"),
        (Order(1, [], "\0"), "input.note", "nul_character"),
        ("\ud800", "input", "lone_surrogate"),
        ({"\udfff": 1}, "input['\\udfff']", "lone_surrogate"),
        ([{"a": "x\ud83d"}], "input[0].a", "lone_surrogate"),
        ([pydantic.RootModel[str]("\ud800")], "input[0]", "lone_surrogate"),
        ({"p": Path("x")}, "input.p", "unencodable"),
        ([object()], "input[0]", "unencodable"),
        (1j, "input", "unencodable"),
        ({"a": iter([1])}, "input.a", "unencodable"),
        ([Line], "input[0]", "unencodable"),
        ({(1, 2): 3}, "input", "unencodable"),
        ({None: 1}, "input", "unencodable"),
        ([ValueError("x")], "input[0]", "unencodable"),
        ([10**5000], "input[0]", "unencodable"),
        ({"a": "x" * 100}, "input", "payload_too_large"),
        (msgspec.Raw(b"1 2"), "input", "invalid_json"),
    ],
)
def test_what_cannot_be_sent_exactly_is_refused_at_the_call_with_its_path(value, field, code):
    error = refused(value, limit=60)
    assert (error.field, error.code, error.kind) == (field, code, Kind.INVALID)
    assert error.message.startswith(f"{field}")
    error.message.encode()


def test_the_sentence_tells_what_is_wrong():
    assert str(refused({"items": [{"price": math.nan}]})) == "input.items[0].price: NaN is not a JSON number"
    assert "str(path)" in str(refused(Path("x")))
    assert "list(...)" in str(refused(iter([1])))
    assert "await" in str(refused(Awaited()))


class Awaited:
    def __await__(self):
        yield


def test_a_model_that_writes_nan_as_a_word_is_refused():
    class Loose(pydantic.BaseModel):
        value: float
        model_config = pydantic.ConfigDict(ser_json_inf_nan="constants")

    assert refused([Loose(value=math.nan)]).field == "input[0].value"


def test_a_model_that_cannot_be_written_is_refused():
    class Broken(pydantic.BaseModel):
        @pydantic.model_serializer
        def write(self) -> dict[str, int]:
            raise RuntimeError("no")

    assert refused([Broken()]).code == "unencodable"


def test_deep_and_circular_values_are_refused():
    deep: list[Any] = []
    for _ in range(64):
        deep = [deep]
    assert refused(deep).code == "json_too_deep"
    assert converter.decode(converter.encode(deep[0])) == deep[0]
    circle: list[Any] = []
    circle.append(circle)
    assert refused(circle).code == "json_too_deep"
    deepest: list[Any] = []
    for _ in range(100_000):
        deepest = [deepest]
    assert refused(deepest).code == "json_too_deep"
    while deepest:  # an interpreter that frees this at once would need a stack as deep
        deepest = deepest.pop()


def test_a_value_as_deep_as_allowed_passes_the_walk():
    deep: list[Any] = [None, 2**70]  # both make the converter look twice
    for _ in range(63):
        deep = [deep]
    assert converter.decode(converter.encode(deep)) == deep
    assert refused([deep]).code == "json_too_deep"


@given(VALUES, st.sampled_from([math.nan, math.inf, -math.inf, "\0", "\ud800"]), st.data())
def test_a_flaw_is_found_wherever_it_is(value, flaw, data):
    holder = data.draw(st.sampled_from([lambda it: [value, it], lambda it: {"k": value, "z": it}, lambda it: (it,)]))
    assert refused(holder(holder(flaw))).code in ("not_a_number", "nul_character", "lone_surrogate")
    if isinstance(flaw, str):
        assert refused({"a": value, flaw: 1}).code in ("nul_character", "lone_surrogate")


@pytest.mark.parametrize(
    ("raw", "annotation", "field", "reason"),
    [
        (b'{"id":1,"lines":[{"name":"a","price":"x"}]}', Order, "input.lines[0].price", "Expected float, got str"),
        (b'{"lines":[]}', Order, "input", "missing required field id"),
        (b'"x"', int, "input", "Expected int, got str"),
        (b'"green"', Colour, "input", "Invalid enum value"),
        (b"nope", Any, "input", "malformed"),
        (b"", Any, "input", "truncated"),
        (b'[{"number":1,"total":"x"}]', list[Invoice], "input[0].total", "valid number"),
        (b'{"invoice":{"number":1},"weight":"1"}', Parcel, "input.invoice", "total: Field required"),
        (b"{}", Awaited, "input", "Awaited cannot be made from JSON"),
        (b'{"a":5}', dict[str, Awaited], "input[...]", "Awaited cannot be made from JSON"),
        (b"5", CustomerId, "input", "CustomerId"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(raw, annotation, field, reason):
    with pytest.raises(Invalid, match=reason) as raised:
        converter.decode(raw, annotation, name="input")
    assert raised.value.code == "undecodable"
    assert raised.value.field == field
    assert raised.value.message.startswith(f"{field}: ")


def test_several_problems_of_a_model_are_told_at_once():
    with pytest.raises(Invalid, match=r"^input\.number: .*; input\.total: "):
        converter.decode(b'{"number":"x","total":"y"}', Invoice, name="input")


def test_an_annotation_that_cannot_work_is_found_when_it_is_declared():
    with pytest.raises(Invalid, match="cannot be decoded as") as raised:
        converter.decoder(Line | Parcel)
    assert raised.value.code == "unsupported_annotation"


def test_an_annotation_that_cannot_be_hashed_works():
    assert converter.decode(b"[1]", list[Annotated[int, {"a": 1}]]) == [1]


def test_a_model_is_read_by_name_and_by_alias():
    assert converter.decode(b'{"customerId":3}', Renamed).customer_id == 3
    assert converter.decode(b'{"customer_id":3}', Renamed).customer_id == 3


def test_decoders_are_kept():
    built = Converter()
    built.decode(b'{"value":1.5}', Strict)
    kept = built._decoders[Strict]
    built.decode(b'{"value":2.5}', Strict)
    assert built._decoders[Strict] is kept


def test_pydantic_is_not_imported_by_us():
    use = "import sys, assay.sdk.values.converter as c; c.Converter().encode({'a': 1})"
    code = f"{use}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - our own words


def test_a_remembered_hash_is_that_of_the_text() -> None:
    for value in ("one", 1, {"b": 2, "a": [1, None]}, "x" * (2 * REMEMBERED_BYTES)):
        expected = hash_of(canonical_json(msgspec.json.encode([value])))
        assert [converter.arguments_hash((value,)) for _ in range(2)] == [expected, expected]
    assert converter.arguments_hash((1,)) != converter.arguments_hash((True,))


def test_hashes_are_remembered_of_few_and_short_texts() -> None:
    for number in range(REMEMBERED_HASHES + 10):
        assert converter.arguments_hash((f"number {number}",)) is not None
    assert converter.arguments_hash(("long" * REMEMBERED_BYTES,)) is not None
    assert len(_hashes) <= REMEMBERED_HASHES
    assert all(len(text) <= REMEMBERED_BYTES for text in _hashes)
