-- Versions of changes that runs have recorded; a run keeps the number of a change for the rest of its life.
-- min_reader: 1
-- min_writer: 11

CREATE TABLE versions (
    run_id $text NOT NULL,
    change_id $text NOT NULL,
    version $int NOT NULL,
    namespace $text NOT NULL,
    PRIMARY KEY (run_id, change_id)
) $key_table;

CREATE INDEX versions_changes ON versions (namespace, change_id, version, run_id);
