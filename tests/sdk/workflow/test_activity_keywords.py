"""The typed options of `execute_activity` are those that a call accepts."""

from assay.core.model.options import RETRY_KEYS
from assay.sdk.workflow.activity_options import OTHER_OPTIONS, ActivityKeywords

OF_THE_WAIT = {"wait_for_cancellation"}


def test_the_typed_options_are_the_accepted_ones():
    assert set(ActivityKeywords.__annotations__) == {*RETRY_KEYS, *OTHER_OPTIONS} | OF_THE_WAIT
