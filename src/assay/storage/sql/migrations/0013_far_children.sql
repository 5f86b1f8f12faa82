-- Children in another namespace than their parent: their `parent_workflow_id` is the parent's address.
-- min_reader: 1
-- min_writer: 12

CREATE INDEX runs_far_children ON runs (parent_workflow_id, created_at)
    WHERE parent_workflow_id >= 'wf://' AND parent_workflow_id < 'wf:/0';
