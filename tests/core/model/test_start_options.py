"""The options of a start stand in one list; whatever is made from the list has all of them."""

import msgspec
import pytest

from assay.core.model.commands import StartChildWorkflow
from assay.core.model.events import StartData
from assay.core.model.ids import SECOND, Namespace
from assay.core.model.options import OPTION_PARSERS, child_request
from assay.core.model.payload import Payload
from assay.core.model.policies import IdReuse
from assay.core.model.requests import StartWorkflow
from assay.core.model.start_options import OPTION_KINDS, OptionKind, StartOptions, by_option, given_options, options_of
from assay.wire.request_bodies import StartBody

RECORDED_OTHERWISE = {"execution_timeout": "execution_deadline", "start_delay": "first_task_at"}
NOT_RECORDED = {"id_reuse_policy"}
DOCUMENT = Payload(b'{"a":1}')
PRIORITY = Payload(b"2")
SPELLED = {
    OptionKind.OBJECT: DOCUMENT,
    OptionKind.DURATION: "1m",
    OptionKind.RETRY: {"maximum_attempts": 3},
    OptionKind.REUSE: "reject-duplicate",
    OptionKind.TEXT: "words",
    OptionKind.PRIORITY: PRIORITY,
    OptionKind.LIST: ("read", "pay"),
}


def test_every_option_has_a_kind():
    assert tuple(OPTION_KINDS) == StartOptions.__struct_fields__ == options_of(*SPELLED)


@pytest.mark.parametrize("kind", [StartWorkflow, StartChildWorkflow, StartBody])
def test_requests_commands_and_bodies_have_every_option(kind: type[msgspec.Struct]):
    assert set(OPTION_KINDS) <= set(kind.__struct_fields__)


def test_a_run_records_every_option():
    """An option that a run does not record is forgotten by a retry, a cron schedule and a restart."""
    names = {RECORDED_OTHERWISE.get(name, name) for name in OPTION_KINDS if name not in NOT_RECORDED}
    assert names <= set(StartData.__struct_fields__)


def test_options_without_a_value_are_left_out():
    assert given_options(StartBody("T"), OPTION_PARSERS) == {}
    assert given_options(StartBody("T", summary="words"), OPTION_PARSERS) == {"summary": "words"}


def test_every_option_of_a_command_is_in_its_request():
    spelled = by_option(SPELLED) | {"cron_schedule": None}  # excludes a delay
    request = child_request(Namespace("main"), StartChildWorkflow("T", "id", **spelled))
    assert all(getattr(request, name) is DOCUMENT for name in options_of(OptionKind.OBJECT))
    assert request.priority == PRIORITY
    assert {getattr(request, name) for name in options_of(OptionKind.DURATION)} == {60 * SECOND}
    assert request.retry_policy is not None
    assert (request.retry_policy.max_attempts, request.id_reuse_policy) == (3, IdReuse.REJECT_DUPLICATE)
    assert (request.summary, request.details, request.actor) == ("words", "words", "words")
    assert request.scope == ("read", "pay")
