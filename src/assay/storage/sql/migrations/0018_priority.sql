-- The order in which ready work goes out: the time since when it is ready, plus 60 seconds for each step of its priority.
-- Work from before priorities has the priority 3.
-- min_reader: 1
-- min_writer: 18

ALTER TABLE runs ADD COLUMN task_order $int;
ALTER TABLE activities ADD COLUMN queue_order $int;

UPDATE runs SET task_order = task_since + 180000000 WHERE task_since IS NOT NULL AND closed_at IS NULL;
UPDATE activities SET queue_order = queued_at + 180000000 WHERE completed_at IS NULL;

DROP INDEX runs_ready;
DROP INDEX activities_ready;

CREATE INDEX runs_ready ON runs (namespace, task_queue, workflow_type, task_order, run_id)
    WHERE task_since IS NOT NULL AND task_worker IS NULL AND task_not_before IS NULL;
CREATE INDEX activities_ready ON activities (namespace, task_queue, name, queue_order, run_id, seq)
    WHERE completed_at IS NULL AND worker IS NULL AND not_before IS NULL;
