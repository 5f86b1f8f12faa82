-- Groups of failures: a row for each group, one for each run in it. A run that does not fail writes none.
-- min_reader: 12
-- min_writer: 20

CREATE TABLE failure_groups (
    namespace $text NOT NULL,
    fingerprint $text NOT NULL,
    source $text NOT NULL,
    workflow_type $text NOT NULL,
    place $text NOT NULL,
    kind $text NOT NULL,
    type $text,
    message $text NOT NULL,
    first_seen $int NOT NULL,
    state $text NOT NULL,
    changed_at $int,
    until_at $int,
    until_count $int,
    until_build $text,
    assignee $text,
    note $text,
    PRIMARY KEY (namespace, fingerprint)
) $table;

CREATE TABLE failed_runs (
    run_id $text NOT NULL,
    fingerprint $text NOT NULL,
    namespace $text NOT NULL,
    source $text NOT NULL,
    at $int NOT NULL,
    PRIMARY KEY (run_id, fingerprint)
) $key_table;

CREATE INDEX failed_runs_of_group ON failed_runs (namespace, fingerprint, at);
