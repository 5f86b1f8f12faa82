-- Updates: requests to runs whose callers wait for an answer.
-- min_reader: 12
-- min_writer: 20

CREATE TABLE updates (
    run_id $text NOT NULL,
    update_id $text NOT NULL,
    namespace $text NOT NULL,
    workflow_id $text NOT NULL,
    status $text NOT NULL,
    result $bytes,
    failure $bytes,
    PRIMARY KEY (run_id, update_id)
) $key_table;

CREATE INDEX updates_of_workflow ON updates (namespace, workflow_id, update_id);
