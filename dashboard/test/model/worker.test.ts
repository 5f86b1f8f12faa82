import assert from "node:assert/strict";
import { test } from "node:test";
import { loadOf, namesInShort, stateOf } from "../../src/model/worker";

const heard = (age: number, healthy = true) => stateOf({ healthy, last_heartbeat: 1_000 - age }, 1_000).word;

test("a worker is healthy, slow or stale by the age of its heartbeat", () => {
  assert.deepEqual(
    [0, 29.9, 30, 59.9, 60].map((age) => heard(age)),
    ["healthy", "healthy", "slow", "slow", "stale"],
  );
});

test("a worker that reports trouble is unhealthy, however fresh its heartbeat", () => {
  assert.equal(heard(0, false), "unhealthy");
});

test("the limit of a worker is that of tasks and activities together", () => {
  const worker = {
    healthy: true,
    last_heartbeat: 0,
    active_tasks: 7,
    max_concurrent_workflows: 8,
    max_concurrent_activities: 12,
  };
  assert.deepEqual(loadOf(worker), { active: 7, most: 20 });
});

test("types are shown by the first name and the number of others", () => {
  assert.deepEqual([null, [], ["A"], ["A", "B", "C"]].map(namesInShort), ["all", "none", "A", "A +2"]);
});
