import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.model.errors import ActivityError, Failure, Invalid, Kind, NotFound, WorkflowFailed
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload, check_json
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import CAUSES_LIMIT, FAILURE_TEXT_LIMIT, STACK_LIMIT, to_exception, to_info


class CardDeclined(Failure):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - it is what we asked for
        return caught


def details(info: FailureInfo) -> object:
    return msgspec.json.decode(info.details)


def test_a_failure_keeps_its_fields():
    cause = Failure("disk", kind=Kind.UNAVAILABLE, type="IOError", stack="at disk")
    error = Failure(
        "no", kind="NotFound", retryable=False, details={"n": 10**30}, type="Odd", stack="at x", cause=cause
    )
    info = to_info(error, source="activity")
    assert info == FailureInfo(
        kind=Kind.NOT_FOUND, message="no", retryable=False, details=Payload(b'{"n":%d}' % 10**30), type="Odd",
        stack="at x", source="activity",
        cause=FailureInfo(kind=Kind.UNAVAILABLE, message="disk", type="IOError", stack="at disk"),
    )  # fmt: skip


def test_another_exception_is_internal_and_told_by_its_class():
    info = to_info(raised(KeyError("x")))
    assert (info.kind, info.type, info.message, info.retryable) == (Kind.INTERNAL, "KeyError", "'x'", None)
    assert details(info) == {"type": "KeyError"}


@pytest.mark.parametrize(
    ("error", "kind", "message", "retryable"),
    [
        (ValueError(), Kind.INTERNAL, "ValueError", None),
        (Unspeakable(), Kind.INTERNAL, "Unspeakable", None),
        (asyncio.CancelledError(), Kind.CANCELED, "operation canceled", False),
        (NotFound("no workflow"), Kind.NOT_FOUND, "no workflow", None),
        (KeyboardInterrupt(), Kind.INTERNAL, "KeyboardInterrupt", None),
    ],
)
def test_every_exception_can_be_recorded(error, kind, message, retryable):
    info = to_info(raised(error))
    assert (info.kind, info.message, info.retryable) == (kind, message, retryable)
    check_json(msgspec.json.encode(info))


class Halfmade(Failure):
    def __init__(self) -> None:
        """Without a word to the class above."""


def meddled(**fields: object) -> Failure:
    error = Failure("no")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


class Angry(dict[str, int]):
    def items(self) -> None:
        raise RuntimeError("leave me alone")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Failure(ValueError("boom")), "boom"),
        (Failure(ValueError()), "ValueError()"),
        (Failure(Unspeakable()), "<Unspeakable>"),
        (Failure(404), "404"),
        (Failure(None), "None"),
        (WorkflowFailed(["a"]), "['a']"),
        (NotFound(7), "7"),
        (Failure("no", type=ValueError, stack=3), "no"),
        (Failure("no", retryable=0), "no"),
        (Failure("no", details=Angry(a=1)), "no"),
        (Halfmade(), "Halfmade"),
        (meddled(message=5), "5"),
        (meddled(kind=5, type=7, stack=[1], retry_state=1, source=2, timeout_type=3, retryable="x"), "no"),
    ],
)
def test_a_failure_of_odd_parts_is_recorded_and_read_back(error, message):
    info = to_info(raised(error))
    assert info.message == message
    assert msgspec.json.decode(msgspec.json.encode(info), type=FailureInfo) == info


def test_a_subclass_of_failure_is_told_by_its_name():
    assert to_info(CardDeclined("no")).type == "CardDeclined"
    assert to_info(CardDeclined("no", type="Own")).type == "Own"
    assert to_info(Failure("no")).type is None
    assert to_info(ActivityError("no", activity="a")).type is None


def test_the_stack_shows_the_users_frames_and_not_ours():
    def users_code():
        return Converter().decode(b"nope", name="input")

    with pytest.raises(Invalid) as caught:
        users_code()
    stack = to_info(caught.value).stack
    assert "users_code" in stack
    assert "converter.py" not in stack
    assert stack.startswith("Traceback (most recent call last):")
    assert stack.rstrip().endswith("Invalid: input: JSON is malformed: invalid character (byte 4)")


def test_a_stack_of_our_frames_only_is_kept():
    try:
        Converter().decode(b"nope")
    except Invalid as error:
        ours = error.with_traceback(error.__traceback__.tb_next)
        assert "converter.py" in to_info(ours).stack


def test_an_exception_that_was_never_raised_has_no_stack():
    assert to_info(ValueError("x")).stack is None


def test_members_of_a_group_are_shown():
    stack = to_info(raised(ExceptionGroup("both", [raised(ValueError("first")), TypeError("second")]))).stack
    assert "ValueError: first" in stack
    assert "TypeError: second" in stack


def test_causes_are_chained_and_circles_end():
    first, second = ValueError("first"), TypeError("second")
    first.__cause__, second.__cause__ = second, first
    info, causes = to_info(first), 0
    assert info.cause.type == "TypeError"
    while info.cause is not None:
        info, causes = info.cause, causes + 1
    assert causes == CAUSES_LIMIT


def test_a_cause_given_by_from_is_recorded():
    try:
        try:
            {}["missing"]
        except KeyError as inner:
            raise Failure("outer") from inner
    except Failure as error:
        info = to_info(error)
    assert info.cause.type == "KeyError"
    assert "missing" not in info.stack


@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=10))
def test_any_text_can_be_recorded(message, odd):
    for error in (ValueError(message), Failure(message, details={odd: odd}, type=odd, stack=odd)):
        info = to_info(raised(error))
        raw = msgspec.json.encode(info)
        check_json(raw)
        assert msgspec.json.decode(raw, type=FailureInfo) == info


def test_bad_characters_are_replaced():
    assert to_info(ValueError("a\0b\ud800c")).message == "a\ufffdb?c"


def test_long_texts_are_cut():
    info = to_info(Failure("é" * FAILURE_TEXT_LIMIT + "end", stack="top" + "x" * STACK_LIMIT + "end"))
    assert FAILURE_TEXT_LIMIT - 50 < len(info.message.encode()) <= FAILURE_TEXT_LIMIT
    assert STACK_LIMIT - 50 < len(info.stack.encode()) <= STACK_LIMIT
    assert info.message.startswith("éé")
    assert info.stack.startswith("topx")
    assert info.stack.endswith("xend")
    assert "... cut ..." in info.stack


@pytest.mark.parametrize("odd", [object(), float("nan"), "\ud800", {"a": "x" * 200_000}, {1j: 2}, Unspeakable()])
def test_details_that_cannot_be_sent_are_shown_instead(odd):
    shown = details(to_info(Failure("x", details=odd)))
    assert set(shown) == {"unencodable", "problem"}


def test_a_huge_chain_still_fits_a_payload():
    error = None
    for _ in range(20):
        error = Failure("m" * 10_000, details="d" * 130_000, stack="s" * 40_000, cause=error)
    check_json(msgspec.json.encode(to_info(error)))


def test_an_exception_is_made_from_its_record():
    info = FailureInfo(
        kind=Kind.CONFLICT, message="no", retryable=False, details=Payload(b'{"n":1}'), type="Odd", stack="at x",
        cause=FailureInfo(message="disk"), source="activity", retry_state="maximum_attempts",
    )  # fmt: skip
    error = to_exception(info, ActivityError, activity="charge", attempts=3)
    assert isinstance(error, ActivityError)
    assert (error.activity, error.attempts, error.retry_state) == ("charge", 3, "maximum_attempts")
    assert (error.kind, error.retryable, error.details) == ("Conflict", False, {"n": 1})
    assert type(error.cause) is Failure
    assert error.__cause__ is error.cause
    assert to_info(error) == info
    assert type(to_exception(info)) is Failure


def test_a_time_out_says_which():
    info = FailureInfo(kind=Kind.TIMEOUT, message="late", timeout_type="heartbeat")
    error = to_exception(info, WorkflowFailed, workflow_id="w-1", run_id="r")
    assert error.details == {"timeout_type": "heartbeat"}
    assert error.timeout_type == "heartbeat"
    assert (error.workflow_id, error.run_id) == ("w-1", "r")


def test_nothing_is_made_up():
    info = to_info(Failure("x"))
    assert info == FailureInfo(kind=Kind.INTERNAL, message="x")
    assert info.details is NULL


@pytest.mark.parametrize(
    ("given", "kind", "kept"),
    [
        ("Declined", Kind.UNKNOWN, "Declined"),
        ("NotFound", Kind.NOT_FOUND, None),
        ("rate-limited", Kind.RATE_LIMITED, None),
        ("unknown", Kind.UNKNOWN, None),
        ("", Kind.UNKNOWN, None),
        (Kind.CONFLICT, Kind.CONFLICT, None),
    ],
)
def test_a_kind_that_is_none_of_the_eleven_becomes_the_type(given, kind, kept):
    info = to_info(Failure("no", kind=given))
    assert (info.kind, info.type) == (kind, kept)
    assert to_info(Failure("no", kind=given, type="Own")).type == "Own"
