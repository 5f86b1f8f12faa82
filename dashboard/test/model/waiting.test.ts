import assert from "node:assert/strict";
import { test } from "node:test";
import { ticked } from "../../src/model/waiting";

test("durations of a sentence go on", () => {
  const text = "Activity 'charge' failed 2 of 5 times; next try in 12 s. Last error: card declined";
  const now = ticked(text, { since: 90, until: 112 }, 100, 101);
  assert.equal(now, "Activity 'charge' failed 2 of 5 times; next try in 11 s. Last error: card declined");
  assert.equal(
    ticked("Waits 1 min 40 s for signal 'go'.", { since: 0 }, 100, 161),
    "Waits 2 min 41 s for signal 'go'.",
  );
});

test("a name that looks like a duration stays", () => {
  const text = "Activity 'in 12 s' waits 3 s in queue 'a' (1 queued, 1 workers).";
  assert.equal(
    ticked(text, { since: 97 }, 100, 102),
    "Activity 'in 12 s' waits 5 s in queue 'a' (1 queued, 1 workers).",
  );
});

test("times of day become local", () => {
  const at = Date.UTC(2026, 0, 5, 13, 1) / 1_000;
  const shown = ticked("Timer fires in 1 min (13:01 UTC).", { until: at }, at - 60, at - 60);
  assert.match(shown, /^Timer fires in 1 min \(\d\d:\d\d\)\.$/);
});
