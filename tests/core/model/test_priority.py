"""Priorities: their values, and the order that they give to ready work."""

import pytest
from msgspec.structs import replace

from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.core.model.payload import NULL, Payload
from assay.core.model.priority import activity_order, check_priority, priority_of, priority_payload, task_order
from tests.core.support import NOW, given, later, scheduled, started


@pytest.mark.parametrize("value", [0, 6, -1, 1.5, "3", True, None, {"priority_key": 1}, [1]])
def test_only_numbers_from_1_to_5_are_priorities(value: object):
    with pytest.raises(Invalid):
        priority_payload(value)


@pytest.mark.parametrize("raw", [b"0", b"6", b'"3"', b"1.5", b"true", b"{}", b'{"priority_key":1}'])
def test_other_json_in_a_request_is_refused(raw: bytes):
    with pytest.raises(Invalid):
        check_priority(Payload(raw))


def test_no_priority_and_values_from_before_are_the_default():
    assert [priority_of(raw) for raw in (NULL, Payload(b"1"), Payload(b"5"), Payload(b'{"old":1}'))] == [3, 1, 5, 3]


def test_each_step_counts_like_a_minute_of_age_so_that_nothing_starves():
    orders = {number: task_order(given(started(priority=priority_payload(number))).run) for number in range(1, 6)}
    assert orders == {number: NOW + number * 60 * SECOND for number in range(1, 6)}
    last = given(started(priority=priority_payload(5))).run
    first = given(later(241 * SECOND), started(priority=priority_payload(1))).run
    assert (task_order(last) or 0) < (task_order(first) or 0)
    assert task_order(replace(last, task=replace(last.task, since=None))) is None


def test_an_activity_has_the_priority_of_its_run_unless_it_has_its_own():
    world = given(started(priority=priority_payload(1)), scheduled(1))
    plain = world.activity(1)
    assert activity_order(world.run, plain) == plain.queued_at + 60 * SECOND
    own = replace(plain, options=replace(plain.options, priority=priority_payload(5)))
    assert activity_order(world.run, own) == plain.queued_at + 300 * SECOND
