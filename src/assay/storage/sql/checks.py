"""Queries of `assay verify` for rows that must not exist."""

from assay.storage.sql.queries import RUN_COLUMNS, RUN_TABLES, columns
from assay.storage.sql.tables import ACTIVITIES

# ruff: noqa: S608  # only constants of this file and of `queries` are joined; values are parameters

ROW_CHECKS: tuple[tuple[str, str, str], ...] = (
    (
        "I4",
        "{1} events belong to no run",
        """SELECT e.run_id, count(*) FROM events e
WHERE e.seq > 0 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.run_id = e.run_id) GROUP BY e.run_id""",
    ),
    (
        "I4",
        "the run has no first event",
        """SELECT r.run_id FROM runs r
WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id = r.run_id AND e.seq = 1)""",
    ),
    (
        "I8",
        "attempt {1} of activity {2} ended {3} times",
        """SELECT min(run_id), attempt, activity_id, count(*) FROM attempts
GROUP BY activity_id, attempt HAVING count(*) > 1""",
    ),
    (
        "I12",
        "activity {1} is open although its run is closed",
        """SELECT a.run_id, a.seq FROM activities a JOIN runs r ON r.run_id = a.run_id
WHERE a.completed_at IS NULL AND r.closed_at IS NOT NULL""",
    ),
    (
        "I12",
        "a {1} deadline is left although the run is closed or gone",
        """SELECT d.run_id, d.kind FROM deadlines d LEFT JOIN runs r ON r.run_id = d.run_id
WHERE d.kind <> 'schedule' AND (r.run_id IS NULL OR r.closed_at IS NOT NULL)""",
    ),
    (
        "I12",
        "a deadline is left although the schedule is gone",
        """SELECT d.run_id FROM deadlines d LEFT JOIN schedules s ON s.key = d.run_id
WHERE d.kind = 'schedule' AND s.key IS NULL""",
    ),
    (
        "I11",
        "the schedule has a next wake-up and no deadline for it",
        """SELECT s.key FROM schedules s
LEFT JOIN deadlines d ON d.run_id = s.key AND d.kind = 'schedule' AND d.due_at = s.wakes_at
WHERE s.wakes_at IS NOT NULL AND d.run_id IS NULL""",
    ),
    (
        "I15",
        "workflow {2} of {1} has {3} open runs",
        """SELECT min(run_id), namespace, workflow_id, count(*) FROM runs WHERE closed_at IS NULL
GROUP BY namespace, workflow_id HAVING count(*) > 1""",
    ),
    (
        "I15",
        "run {3} of workflow {2} of {1} exists {4} times",
        """SELECT min(run_id), namespace, workflow_id, number, count(*) FROM runs
GROUP BY namespace, workflow_id, number HAVING count(*) > 1""",
    ),
    (
        "I17",
        "the run is closed, but its parent has no event of it and the outbox no message",
        """SELECT c.run_id FROM runs c JOIN runs p ON p.run_id = c.parent_run_id
WHERE c.closed_at IS NOT NULL AND c.next_run_id IS NULL AND p.closed_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM outbox_messages o WHERE o.run_id = p.run_id AND o.key = c.run_id || '/closed')
    AND NOT EXISTS (
        SELECT 1 FROM events e WHERE e.run_id = p.run_id
            AND e.kind IN ('ChildWorkflowCompleted', 'ChildWorkflowFailed')
            AND $mentions(e.payload, c.run_id)
    )""",
    ),
    (
        "I18",
        "the run continues as a run that does not exist",
        """SELECT r.run_id FROM runs r
WHERE (r.close_reason = 'continued_as_new' AND r.next_run_id IS NULL)
    OR (r.next_run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.run_id = r.next_run_id))""",
    ),
)
"""(violated invariant, sentence about a row, query for the rows that violate it); the first column is the run."""

STUCK_RUNS = """
SELECT r.run_id FROM runs r
WHERE r.closed_at IS NULL AND r.task_since IS NULL AND r.task_worker IS NULL AND r.awaiting IS NULL
    AND NOT EXISTS (SELECT 1 FROM activities a WHERE a.run_id = r.run_id AND a.completed_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM deadlines d WHERE d.run_id = r.run_id AND d.kind = 'timer')
    AND NOT EXISTS (SELECT 1 FROM runs c WHERE c.parent_run_id = r.run_id AND c.closed_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM outbox_messages o WHERE o.run_id = r.run_id)"""
"""Runs without any own work that could continue them; a reopened run may still wait for an adopted child."""

OVERDUE_CHECKS: tuple[tuple[str, str, str], ...] = (
    (
        "I10",
        "a {1} deadline came {2} microseconds ago and nothing was done about it",
        "SELECT run_id, kind, $1 - due_at FROM deadlines WHERE due_at < $1 - $2",
    ),
    (
        "I17",
        "message {1} has waited {2} microseconds for its run",
        "SELECT run_id, key, $1 - created_at FROM outbox_messages WHERE created_at < $1 - $2",
    ),
)
"""The same for overdue rows; the parameters are the present and the tolerated delay."""

RUNS_AFTER = f"SELECT {RUN_COLUMNS} FROM {RUN_TABLES} WHERE r.run_id > $1 ORDER BY r.run_id LIMIT $2"

HISTORIES = """
SELECT run_id, seq, time, kind, payload, data, id FROM events WHERE run_id $one_of(1) ORDER BY run_id, seq"""

ALL_DEADLINES = "SELECT run_id, kind, ref, due_at FROM deadlines WHERE run_id $one_of(1)"

ALL_ACTIVITIES = f"SELECT {columns(ACTIVITIES, 'a')} FROM activities a WHERE a.run_id $one_of(1)"

FIRST_EVENTS = "SELECT run_id, data FROM events WHERE seq = 1 AND run_id $one_of(1)"
