import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.core.model.errors import Invalid
from assay.core.model.payload import INTEGER_DIGITS, PAYLOAD_LIMIT, check_json, check_keys, check_limits

SCALARS = st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
# Few characters, so that chance hits upon what is almost JSON.
ALMOST_JSON = st.text('[]{}",:\\u0dD8eE+-.19ntrue\x00\x1fé ', max_size=24)


def refusal(raw: bytes, **limits: int) -> str | None:
    try:
        check_json(raw, **limits)
    except Invalid as error:
        return error.code
    return None


def nested(levels: int) -> bytes:
    """Levels of arrays and objects in turn, with brackets in texts that must not count."""
    raw = b"1"
    for level in range(levels):
        raw = b'["]",' + raw + b',"["]' if level % 2 else b'{"}":' + raw + b',"{":0}'
    return raw


@pytest.mark.parametrize(
    "raw",
    [
        b"null",
        b" [1, 2.5e3, -0.0] ",
        '{"é": "\U0001f600"}'.encode(),
        b'"\\ud83d\\ude00 \\uD83D\\uDE00"',
        b'"\\\\u0000 \\\\ud800"',
        b'"\\\\\\\\u0000"',
        b"1" * 4300,
        b'{"a":1,"a":2}',
        nested(64),
        b'["' + b"[" * 1000 + b'"]',
        json.dumps([{str(index): index for index in range(5000)}] * 3).encode(),
    ],
    ids=lambda raw: ascii(raw[:20]),
)
def test_json_within_the_limits_passes(raw):
    assert refusal(raw) is None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[1,]", "invalid_json"),
        (b"01", "invalid_json"),
        (b"1 2", "invalid_json"),
        (b"NaN", "invalid_json"),
        (b"[Infinity]", "invalid_json"),
        (b"1e400", "invalid_json"),
        (b"1" * 4301, "invalid_json"),
        (b"'a'", "invalid_json"),
        (b'"\x00"', "invalid_json"),
        (b'"\n"', "invalid_json"),
        (b'"\xff"', "invalid_json"),
        (b'"\xed\xa0\x80"', "invalid_json"),
        (b"\xef\xbb\xbf1", "invalid_json"),
        (b'"\\u0000"', "nul_character"),
        (b'{"a\\u0000":1}', "nul_character"),
        (b'"\\\\\\u0000"', "nul_character"),
        (b'"\\ud800"', "lone_surrogate"),
        (b'"\\uDC00"', "lone_surrogate"),
        (b'"\\ud83d \\ude00"', "lone_surrogate"),
        (b'"\\ud83d\\\\\\ude00"', "lone_surrogate"),
        (b'"\\ude00\\ud83d"', "lone_surrogate"),
        (b'{"\\ud800":1}', "lone_surrogate"),
        (nested(65), "json_too_deep"),
        (b"[" * 100_000, "json_too_deep"),
        (b"[" * 100_000 + b"]" * 100_000, "json_too_deep"),
        (json.dumps({str(index): index for index in range(10_001)}).encode(), "too_many_keys"),
        (json.dumps([[{str(index): index for index in range(10_001)}]]).encode(), "too_many_keys"),
        (b'"' + b"a" * PAYLOAD_LIMIT + b'"', "payload_too_large"),
    ],
    ids=lambda part: ascii(part[:20]),
)
def test_the_rest_is_refused_with_a_stable_code(raw, code):
    assert refusal(raw) == code


def test_limits_are_exact():
    assert refusal(b"[1]", limit=3) is None
    assert refusal(b"[1]", limit=2) == "payload_too_large"
    assert refusal(nested(5), depth=5) is None
    assert refusal(nested(6), depth=5) == "json_too_deep"
    assert refusal(b'{"a":1,"b":2}', keys=2) is None
    assert refusal(b'{"a":1,"b":2,"c":3}', keys=2) == "too_many_keys"


def test_encoded_values_are_held_to_the_same_limits():
    check_limits(nested(64))
    for raw, limits, code in [
        (nested(65), {}, "json_too_deep"),
        (b"[1]", {"limit": 2}, "payload_too_large"),
        (b'{"a":1,"b":2,"c":3}', {"keys": 2}, "too_many_keys"),
    ]:
        with pytest.raises(Invalid) as raised:
            check_limits(raw, **limits)
        assert raised.value.code == code


def test_the_error_names_what_was_sent():
    with pytest.raises(Invalid, match=r"^result is not valid JSON: ") as raised:
        check_json(b"nope", name="result")
    assert raised.value.field == "result"


def parsed(raw: bytes) -> object:
    """What the standard library reads, held to what JSON is: UTF-8 and no constants that it lacks."""

    def refuse(constant: str) -> object:
        raise ValueError(constant)

    return json.loads(raw.decode(), parse_constant=refuse)


def expected_code(raw: bytes) -> str | None:
    try:
        text = json.dumps(parsed(raw), ensure_ascii=False, allow_nan=False)  # 1e400 is read as an infinity
    except ValueError:
        return "invalid_json"
    if "\\u0000" in text.replace("\\\\", ""):
        return "nul_character"
    return "lone_surrogate" if any("\ud800" <= character <= "\udfff" for character in text) else None


def assert_judged_alike(raw: bytes) -> None:
    found, expected = refusal(raw), expected_code(raw)
    if expected == "invalid_json":  # which of two faults is named is a matter of taste
        assert found is not None
    else:
        assert found == expected


@given(VALUES, st.booleans())
def test_what_a_peer_sends_is_judged_as_the_standard_library_would(value, ascii_only):
    assert_judged_alike(json.dumps(value, ensure_ascii=ascii_only).encode())


@given(ALMOST_JSON.map(str.encode) | st.binary(max_size=12))
@example(b'"\\ud8')
@example(b'["\\u0000')
def test_broken_json_never_passes_and_good_json_never_fails(raw):
    assert_judged_alike(raw)


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)))
def test_depth_is_counted_as_people_count(value):
    def depth(node):
        inside = node.values() if isinstance(node, dict) else node
        return 1 + max((depth(child) for child in inside), default=0)

    raw = json.dumps(value).encode()
    for limit in range(1, depth(value) + 2):
        codes = refusal(raw, depth=limit)
        assert (codes == "json_too_deep") == (depth(value) > limit) or codes in ("nul_character", "lone_surrogate")


KEYS = st.sampled_from(['"a"', '"\\u0061"', '"a:"', '"a\\u003a"', '"\\":"', '":"', '""'])
TEXTS = KEYS | st.sampled_from(['"\\\\"', '": :"', '"\\u003A"', "1", "-2.5e3", "null"])
MEMBERS_OF = st.recursive(
    TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]")
        | st.lists(st.tuples(KEYS, st.sampled_from([":", " :", "\n: "]), inner).map("".join), max_size=3).map(
            lambda found: "{" + ",".join(found) + "}"
        )
    ),
    max_leaves=8,
)
"""Objects whose keys come twice often, also spelled in two ways, among texts that look like keys."""


def has_twins(raw: bytes) -> bool:
    found: list[bool] = []
    json.loads(raw, object_pairs_hook=lambda members: found.append(len(dict(members)) != len(members)))
    return any(found)


@given(MEMBERS_OF)
@example('{"a":1,"a":2}')
@example('{"a":1,"b":{"a":1,"c":{},"a":":"}}')
@example('{"a":1,"a":2,"b":"\\u003a"}')
@example('{"a":{"b":1},"c":{"b":1}}')
@example('{"a":1000000000000000000000000000000000000000000,"b":-1e-300}')
def test_keys_that_come_twice_are_found_and_no_others(text: str):
    raw = text.encode()
    if has_twins(raw):
        with pytest.raises(Invalid, match="twice in one object"):
            check_keys(raw, check_json(raw))
    else:
        check_keys(raw, check_json(raw))


@given(VALUES)
def test_what_a_program_writes_has_no_key_twice(value: object):
    raw = json.dumps(value).encode()
    if refusal(raw) is None:
        check_keys(raw, check_json(raw))


def test_integers_are_exact_up_to_the_digits_that_python_reads():
    assert check_json(b"9" * INTEGER_DIGITS) == 10**INTEGER_DIGITS - 1
    for raw in (b"1" * (INTEGER_DIGITS + 1), b'{"a":[-%b]}' % (b"1" * 5_000)):
        with pytest.raises(Invalid, match="more than 4,300 digits") as caught:
            check_json(raw)
        assert caught.value.code == "invalid_json"
