-- Schedules follow the wall clock and are looked for apart from all that follows engine time; engines that share a
-- database share the correction that takes steps of its clock out of engine time.
-- min_reader: 1
-- min_writer: 5

CREATE INDEX deadlines_of_schedules ON deadlines (due_at) WHERE kind = 'schedule';

$shared_clock
