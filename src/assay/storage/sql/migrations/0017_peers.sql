-- Watches between runs: rows of the watched run about its watchers, of the watcher about its watches, and options of runs.
-- min_reader: 12
-- min_writer: 17

CREATE TABLE peers (
    run_id $text NOT NULL,
    kind $text NOT NULL,
    name $text NOT NULL,
    number $int NOT NULL,
    pid $text NOT NULL,
    PRIMARY KEY (run_id, kind, name)
) $key_table;
