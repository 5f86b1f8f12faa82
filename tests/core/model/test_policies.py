import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.model.errors import Kind
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.core.model.policies import RetryPolicy
from tests.core.support import BROKEN, refused

POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(0, 10),
    initial_interval=st.integers(0, 100 * SECOND),
    backoff=st.floats(1, 1e308),
    maximum_interval=st.integers(100 * SECOND, 1_000 * SECOND),
)


def test_the_interval_grows_from_the_first_up_to_the_cap():
    policy = RetryPolicy(max_attempts=0, initial_interval=SECOND, backoff=3.0, maximum_interval=20 * SECOND)
    assert [policy.delay_after(attempt, BROKEN) for attempt in range(1, 6)] == [
        SECOND,
        3 * SECOND,
        9 * SECOND,
        20 * SECOND,
        20 * SECOND,
    ]


def test_the_last_attempt_has_no_successor():
    policy = RetryPolicy(max_attempts=3)
    assert [policy.delay_after(attempt, BROKEN) is None for attempt in (1, 2, 3, 4)] == [False, False, True, True]
    assert policy.state_after(3, BROKEN) == "maximum_attempts_reached"


def test_attempts_without_end():
    assert RetryPolicy(max_attempts=0).delay_after(1_000_000, BROKEN) == 60 * SECOND


@pytest.mark.parametrize("listed", ["BrokenError", "INTERNAL", "Internal"])
def test_a_type_or_a_kind_may_be_listed_in_either_spelling(listed):
    policy = RetryPolicy(max_attempts=0, non_retryable=(listed,))
    assert policy.delay_after(1, BROKEN) is None
    assert policy.state_after(1, BROKEN) == "non_retryable_failure"
    assert policy.delay_after(1, FailureInfo(kind=Kind.TIMEOUT, type="Other")) is not None


def test_a_failure_may_say_that_it_is_final():
    assert RetryPolicy().delay_after(1, FailureInfo(retryable=False)) is None
    assert RetryPolicy().delay_after(1, FailureInfo(retryable=True)) is not None
    assert RetryPolicy(max_attempts=1).delay_after(1, FailureInfo(retryable=True)) is None


def test_what_could_be_retried_but_has_no_time_left_timed_out():
    assert RetryPolicy().state_after(1, BROKEN) == "timeout"


@given(POLICIES, st.integers(1, 5_000))
def test_every_delay_lies_between_nothing_and_the_cap(policy, attempt):
    delay = policy.checked().delay_after(attempt, BROKEN)
    if policy.max_attempts and attempt >= policy.max_attempts:
        assert delay is None
    else:
        assert delay is not None
        assert 0 <= delay <= policy.maximum_interval


@given(POLICIES, st.integers(1, 100))
def test_delays_never_shrink(policy, attempt):
    endless = RetryPolicy(0, policy.initial_interval, policy.backoff, policy.maximum_interval)
    assert endless.delay_after(attempt, BROKEN) <= endless.delay_after(attempt + 1, BROKEN)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_attempts": -1},
        {"backoff": 0.99},
        {"backoff": float("nan")},
        {"backoff": float("inf")},
        {"initial_interval": -1},
        {"maximum_interval": -1},
        {"initial_interval": 61 * SECOND},
    ],
    ids=str,
)
def test_policies_that_make_no_sense(fields):
    with refused("invalid"):
        RetryPolicy(**fields).checked()


def test_a_single_attempt_needs_no_sensible_intervals():
    policy = RetryPolicy(max_attempts=1, initial_interval=61 * SECOND)
    assert policy.checked() is policy
