"""The keywords of `start` and of `start_child_workflow` are the options of a start, and a few of their own."""

import typing

from assay.core.start_options import OPTION_KINDS
from assay.sdk import child_options, starts

OWN = {"task_queue", "namespace", "id_conflict_policy", "error_if_exists", "signals", "request_id"}


def test_every_option_is_a_keyword_of_a_start():
    assert set(typing.get_type_hints(starts.StartKeywords)) == set(starts._READERS) == {*OPTION_KINDS, *OWN}


def test_every_option_is_a_keyword_of_a_child():
    assert set(child_options._READERS) == {*OPTION_KINDS, "parent_close_policy"}
