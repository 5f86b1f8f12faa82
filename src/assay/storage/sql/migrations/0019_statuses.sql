-- Runs that ended badly are few, and are what people look for: a run that completes pays nothing for these indexes.
-- min_reader: 1
-- min_writer: 17

CREATE INDEX runs_failed ON runs (namespace, created_at DESC, run_id DESC) WHERE status = 'FAILED';
CREATE INDEX runs_cancelled ON runs (namespace, created_at DESC, run_id DESC) WHERE status = 'CANCELLED';
CREATE INDEX runs_timed_out ON runs (namespace, created_at DESC, run_id DESC) WHERE status = 'TIMED_OUT';
