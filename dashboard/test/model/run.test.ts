import assert from "node:assert/strict";
import { test } from "node:test";
import { assayCommand, curlCommand } from "../../src/model/command";
import { badgeOf } from "../../src/model/run";
import { branchesOf } from "../../src/model/tree";

const run = (status: string, more: object = {}) => ({
  run_id: status,
  status,
  close_reason: null,
  cancel_requested: false,
  stuck: null,
  waiting_on: null,
  ...more,
});

test("a badge is the status, refined by how the run closed and what it needs", () => {
  const words = [
    run("RUNNING"),
    run("RUNNING", { cancel_requested: true }),
    run("RUNNING", { cancel_requested: true, waiting_on: { attention: "operator" } }),
    run("COMPLETED", { close_reason: "continued_as_new" }),
    run("FAILED", { close_reason: "terminated" }),
    run("TIMED_OUT"),
    run("NEW_ONE"),
  ].map((one) => badgeOf(one).word);
  assert.deepEqual(words, ["Running", "Cancelling", "Blocked", "Continued", "Terminated", "Timed out", "NEW_ONE"]);
});

test("children that ended alike are folded, failed and open ones are not", () => {
  const children = [...Array.from({ length: 7 }, () => run("COMPLETED")), run("FAILED"), run("RUNNING")];
  assert.deepEqual(
    branchesOf(children).map((branch) => [branch.word, branch.runs.length]),
    [
      [null, 1],
      [null, 1],
      ["Completed", 7],
    ],
  );
});

test("commands are quoted for a shell", () => {
  assert.equal(
    assayCommand(["workflow", "signal", "a b", "go"], { reason: "it's", "run-id": "" }, "prod"),
    `assay workflow signal 'a b' go --reason 'it'\\''s' --namespace prod`,
  );
  assert.match(curlCommand("POST", "http://x/y?z=1&q=2", '{"a": 1}'), /^curl -X POST 'http:\/\/x\/y\?z=1&q=2' \\\n/);
});
