import assert from "node:assert/strict";
import { test } from "node:test";
import { type QueueFacts, isUnserved, pendingOf, queueSentence } from "../../src/model/queue";

const queue = (facts: Partial<QueueFacts>): QueueFacts => ({
  queue: "default",
  pending_activities: 0,
  pending_workflow_tasks: 0,
  running_activities: 0,
  workers: 1,
  oldest_pending_at: null,
  ...facts,
});

test("a queue without a worker is unserved only if work waits", () => {
  assert.equal(isUnserved(queue({ workers: 0 })), false);
  assert.equal(isUnserved(queue({ workers: 0, pending_workflow_tasks: 1 })), true);
  assert.equal(isUnserved(queue({ pending_workflow_tasks: 1 })), false);
});

test("workflow tasks and activities that wait are pending", () => {
  assert.equal(pendingOf(queue({ pending_activities: 2, pending_workflow_tasks: 3 })), 5);
});

test("the sentence names what waits, for how long, and who serves", () => {
  assert.equal(queueSentence(queue({}), null), "Nothing waits; 1 worker serves this queue.");
  assert.equal(queueSentence(queue({ workers: 0 }), null), "Nothing waits; no worker serves this queue.");
  assert.equal(
    queueSentence(queue({ workers: 0, pending_activities: 12 }), "4 min"),
    "12 activities wait for 4 min; no worker serves this queue.",
  );
  assert.equal(
    queueSentence(queue({ workers: 2, pending_workflow_tasks: 1 }), "1 s"),
    "1 workflow task waits for 1 s; 2 workers serve this queue.",
  );
});
