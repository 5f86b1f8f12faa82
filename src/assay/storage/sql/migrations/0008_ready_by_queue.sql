-- Ready work is looked for by the task queues and types that workers serve, so that work nobody serves hides no other.
-- min_reader: 1
-- min_writer: 5

DROP INDEX runs_ready;
DROP INDEX activities_ready;

CREATE INDEX runs_ready ON runs (namespace, task_queue, workflow_type, task_since, run_id)
    WHERE task_since IS NOT NULL AND task_worker IS NULL AND task_not_before IS NULL;
CREATE INDEX activities_ready ON activities (namespace, task_queue, name, queued_at, run_id, seq)
    WHERE completed_at IS NULL AND worker IS NULL AND not_before IS NULL;
