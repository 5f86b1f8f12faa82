import assert from "node:assert/strict";
import { test } from "node:test";
import { connector, focusOf, isShown, pipelineOf, settled } from "../../src/model/steps";

const pipeline = (...statuses: string[]) => {
  const found = pipelineOf({ steps: statuses.map((status, index) => ({ name: `s${index}`, status })) });
  if (found === null) throw new Error("no steps");
  return found;
};

test("only an object with steps is a pipeline", () => {
  for (const value of [null, 3, [], {}, { steps: [] }, { steps: {} }]) assert.equal(pipelineOf(value), null);
});

test("an unknown status looks like waiting and keeps its text", () => {
  const [step] = pipeline("paused").steps;
  assert.deepEqual([step?.status, step?.text], ["waiting", "paused"]);
});

test("connectors are full after done, partial before open ones, muted otherwise", () => {
  assert.deepEqual(
    [
      connector("done", "done"),
      connector("done", "failed"),
      connector("done", "cancelled"),
      connector("done", "running"),
      connector("done", "waiting"),
      connector("done", "skipped"),
      connector("running", "waiting"),
      connector("cancelled", "skipped"),
    ],
    ["full", "full", "full", "partial", "partial", "muted", "muted", "muted"],
  );
});

test("the focus is the current step, else the running one, else the failed one", () => {
  assert.equal(focusOf({ ...pipeline("done", "running"), current: 1 }), 1);
  assert.equal(focusOf({ ...pipeline("done", "running"), current: 9 }), 2);
  assert.equal(focusOf(pipeline("done", "failed", "skipped")), 2);
  assert.equal(focusOf(pipeline("done")), null);
});

test("a failed run ends its running step, and later ones never ran", () => {
  const statuses = (status: string) =>
    settled(pipeline("done", "running", "waiting"), status).steps.map((step) => step.status);
  assert.deepEqual(statuses("FAILED"), ["done", "failed", "skipped"]);
  assert.deepEqual(statuses("CANCELLED"), ["done", "cancelled", "skipped"]);
  assert.deepEqual(statuses("COMPLETED"), ["done", "running", "waiting"]);
});

test("lines without a step stay while a step is pinned", () => {
  const found = pipelineOf({ steps: [{}], log: [{ msg: "a", step: 1 }, { msg: "b", stage: 2 }, { msg: "c" }] });
  assert.deepEqual(
    found?.log.map((line) => isShown(line, 1)),
    [true, false, true],
  );
});
