import pytest

from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.core.model.options import WORKFLOW_RETRY, check_id, choice, duration, retry_policy, workflow_retry
from assay.core.model.payload import Payload
from assay.core.model.policies import IdConflict, IdReuse, ParentClose, RetryPolicy
from assay.core.model.requests import StartWorkflow
from assay.core.model.texts import check_words
from tests.core.support import given, refused, starts


@pytest.mark.parametrize("text", ["use_existing", "USE-EXISTING", " Use_Existing ", IdConflict.USE_EXISTING])
def test_the_spelling_of_a_choice_does_not_matter(text):
    assert choice(IdConflict, text, "id_conflict_policy", IdConflict.FAIL) is IdConflict.USE_EXISTING


def test_a_choice_may_be_left_out():
    assert choice(ParentClose, None, "parent_close_policy", ParentClose.TERMINATE) is ParentClose.TERMINATE


def test_an_unknown_choice_is_refused_with_what_is_allowed():
    with pytest.raises(Invalid, match="fail, use_existing, terminate_existing") as caught:
        choice(IdConflict, "explode", "id_conflict_policy", IdConflict.FAIL)
    assert caught.value.field == "id_conflict_policy"


@pytest.mark.parametrize("value", ["order-1", "é", "a b", "x" * 255, "é" * 127, "日本"])
def test_an_id_is_any_printable_text(value):
    assert check_id(value, "workflow_id") == value


@pytest.mark.parametrize("value", ["", "x" * 256, "é" * 128, "a\nb", "a\x00", "\x7f", "\x85", "\ud800"], ids=ascii)
def test_an_id_has_limits(value):
    with refused("invalid"):
        check_id(value, "workflow_id")


class Named(str):
    """A text of another class, which no encoder knows."""


@pytest.mark.parametrize("value", [5, None, b"x", ["x"], 1.5, True])
def test_an_id_that_is_no_text_is_refused_by_its_name(value):
    with pytest.raises(Invalid, match=f"workflow_id must be a text, not {type(value).__name__}") as caught:
        check_id(value, "workflow_id")
    assert caught.value.field == "workflow_id"


def test_an_id_of_a_subclass_is_the_text_itself():
    assert type(check_id(Named("x"), "workflow_id")) is str
    assert check_id(ParentClose.ABANDON, "workflow_id") == "abandon"


@pytest.mark.parametrize("field", ["summary", "details", "request_id", "cron_schedule"])
def test_words_of_a_start_are_texts(field):
    with pytest.raises(Invalid, match=f"{field} must be a text, not int"):
        given().when(starts(**{field: 5}))


@pytest.mark.parametrize(
    ("value", "code"),
    [(5, "invalid"), ("a\0b", "nul_character"), ("\udc00", "lone_surrogate"), ("x" * 20_000, "text_too_long")],
)
def test_words_are_what_every_store_can_keep(value, code):
    with refused(code):
        check_words(value, "reason")


@pytest.mark.parametrize("value", ["", "because\n\tof that", "é" * 8_000, Named("x")])
def test_words_come_back_as_they_were(value):
    assert check_words(value, "reason") == value
    assert type(check_words(value, "reason")) is str


def test_a_duration_may_be_left_out():
    assert (duration(None, "x"), duration("1m", "x"), duration(1.5, "x")) == (None, 60 * SECOND, 1_500_000)


# retry policies


@pytest.mark.parametrize(
    "fields",
    [
        {"max_attempts": 5, "initial_interval": 2, "backoff": 3, "maximum_interval": "1m"},
        {"maximum_attempts": 5, "initial_interval": 2, "backoff_coefficient": 3, "maximum_interval": 60},
        {"maximumAttempts": 5, "initialInterval": "2s", "backoffCoefficient": 3.0, "maximumInterval": "60s"},
        {"MAXIMUM-ATTEMPTS": 5.0, "initial_interval_secs": 2.0, "Backoff": 3, "maximum_interval_secs": 60},
    ],
    ids=str,
)
def test_every_spelling_of_a_retry_policy_means_the_same(fields):
    assert retry_policy(fields, WORKFLOW_RETRY) == RetryPolicy(5, 2 * SECOND, 3.0, 60 * SECOND)


@pytest.mark.parametrize(
    "fields", [{}, {"initial_interval": 0, "maximum_interval": 0, "backoff": 0}, {"max_attempts": None}, {"colour": 7}]
)
def test_what_is_zero_or_absent_takes_the_default(fields):
    assert retry_policy(fields, WORKFLOW_RETRY) == WORKFLOW_RETRY


def test_an_interval_above_the_default_cap_lifts_the_cap():
    assert retry_policy({"initial_interval": 500}, RetryPolicy()).maximum_interval == 500 * SECOND


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({}, 100),
        ({"initial_interval": 500}, 50_000),
        ({"initial_interval": 0.01}, 1),
        ({"initial_interval": 500, "maximum_interval": 600}, 600),
        ({"initial_interval": "36500d"}, 36_525 * 86_400),
    ],
)
def test_a_workflow_waits_up_to_a_hundred_times_its_first_interval(fields, longest):
    policy = workflow_retry(fields)
    assert policy is not None
    assert policy.maximum_interval == longest * SECOND


def test_a_lone_type_of_error_is_a_list_of_one():
    assert retry_policy({"non_retryable": "TypeError"}, WORKFLOW_RETRY).non_retryable == ("TypeError",)
    assert retry_policy({"non_retryable_error_types": ["A", "B"]}, WORKFLOW_RETRY).non_retryable == ("A", "B")


@pytest.mark.parametrize(
    "fields",
    [
        {"max_attempts": 1.5},
        {"max_attempts": -1},
        {"max_attempts": "5"},
        {"max_attempts": True},
        {"max_attempts": 10**400},
        {"max_attempts": float("inf")},
        {"max_attempts": float("nan")},
        {"backoff": 0.5},
        {"backoff": "2"},
        {"backoff": float("inf")},
        {"initial_interval": 10, "maximum_interval": 1},
        {"non_retryable": 7},
        {"non_retryable": [7]},
        {"non_retryable": {"a": 1}},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_a_retry_policy_that_makes_no_sense(fields):
    with refused("invalid"):
        retry_policy(fields, WORKFLOW_RETRY)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"maximum_attempts": -1}, "maximum_attempts"),
        ({"maximum_attempts": 1.5}, "maximum_attempts"),
        ({"maxAttempts": "5"}, "maxAttempts"),
        ({"backoff_coefficient": 0.5}, "backoff_coefficient"),
        ({"backoff": 0.5}, "backoff"),
        ({"initialInterval": 10, "maximumInterval": 1}, "maximumInterval"),
        ({"initial_interval_secs": "soon"}, "initial_interval_secs"),
        ({"non_retryable_error_types": 7}, "non_retryable_error_types"),
    ],
)
def test_a_field_is_blamed_by_the_name_that_the_caller_gave_it(fields, name):
    with pytest.raises(Invalid) as caught:
        retry_policy(fields, WORKFLOW_RETRY)
    assert caught.value.field == name
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize("fields", [{"initial_interval": "soon"}, {"maximum_interval": -1}, {"initial_interval": []}])
def test_intervals_are_durations(fields):
    with refused("invalid_duration"):
        retry_policy(fields, WORKFLOW_RETRY)


# starts


@pytest.mark.parametrize(
    "options",
    [
        {"workflow_id": ""},
        {"workflow_type": ""},
        {"task_queue": ""},
        {"task_queue": "a\tb"},
        {"id_reuse_policy": IdReuse.REJECT_DUPLICATE, "id_conflict_policy": IdConflict.TERMINATE_EXISTING},
        {"cron_schedule": "@daily", "start_delay": SECOND},
        {"search_attributes": Payload(b"[]")},
        {"search_attributes": Payload(b'{"a b":1}')},
        {"memo": Payload(b'"text"')},
        {"retry_policy": RetryPolicy(max_attempts=-1)},
        {"run_timeout": -1},
        {"execution_timeout": -1},
        {"start_delay": -1},
    ],
    ids=",".join,
)
def test_a_start_that_makes_no_sense_is_refused(options):
    with refused("invalid"):
        given().when(starts(**options))


@pytest.mark.parametrize("cron", ["", "61 * * * *", "@never", "* * *"])
def test_a_start_needs_a_cron_schedule_that_can_be_read(cron):
    with refused("bad_cron"):
        given().when(starts(cron_schedule=cron))


def test_a_plain_start_needs_nothing_more_than_its_names():
    request = StartWorkflow(namespace="main", workflow_id="a", workflow_type="T")
    assert (request.task_queue, request.id_conflict_policy, request.id_reuse_policy) == (
        "default",
        IdConflict.FAIL,
        IdReuse.ALLOW_DUPLICATE,
    )
