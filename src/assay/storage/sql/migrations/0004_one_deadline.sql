-- One deadline stands for all clocks of a run but its timers: those of activities go, and whoever has one is looked at
-- once, to work out its deadline anew.
-- min_reader: 1
-- min_writer: 4

DELETE FROM deadlines WHERE kind IN ('activity', 'run');

INSERT INTO deadlines (run_id, kind, ref, due_at)
SELECT run_id, 'run', 0, 0 FROM runs WHERE closed_at IS NULL;
