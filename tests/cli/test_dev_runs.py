"""The lines of `assay dev` about runs."""

from assay.cli.dev_runs import RunLines, events_of

STREAM = b""": connected

id: 1
event: workflow_started
data: {"kind":"workflow_started","workflow_id":"o","run_id":"","workflow_type":"O","ts":10.0,"payload":{}}

id: 2
event: workflow_failed
data: {"kind":"workflow_failed","workflow_id":"o","run_id":"","workflow_type":"O","ts":12.5,"payload":{"error":"a\\nb"}}

data: {"kind":"workflow_completed","workflow_id":"p\\u001b","run_id":"s","workflow_type":"O","ts":13,"payload":null}
"""


def test_a_line_when_a_run_starts_and_one_when_it_ends():
    lines = RunLines()
    assert [lines.line(event) for event in events_of(STREAM.splitlines())] == [
        ("o (O) started", None),
        ("o (O) failed after 2.5s: a", "red"),
        ("p\\u001b (O) completed", "green"),
    ]
