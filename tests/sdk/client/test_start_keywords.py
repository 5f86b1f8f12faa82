"""The keywords of `start` and of `start_child_workflow` are the options of a start, and a few of their own."""

import typing

from assay.core.model.start_options import OPTION_KINDS
from assay.sdk.client import start_options
from assay.sdk.workflow import child_options

OWN = {
    *("args", "type", "messages", "enable_eager_start"),
    *("task_queue", "namespace", "id_conflict_policy", "error_if_exists", "signals", "request_id"),
}


def test_every_option_is_a_keyword_of_a_start():
    assert (
        set(typing.get_type_hints(start_options.StartKeywords)) == set(start_options._READERS) == {*OPTION_KINDS, *OWN}
    )


def test_every_option_is_a_keyword_of_a_child():
    assert set(child_options._READERS) == {*OPTION_KINDS, "parent_close_policy", "namespace", "messages", "signals"}
