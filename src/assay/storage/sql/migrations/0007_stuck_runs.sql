-- Runs that are stuck are few, and are what an operator looks for first.
-- min_reader: 1
-- min_writer: 5

CREATE INDEX runs_stuck ON runs (namespace) WHERE stuck IS NOT NULL;
