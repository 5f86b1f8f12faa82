import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, relative, span } from "../../src/model/times";

test("a span has at most two units", () => {
  const spans = [0, 59, 60, 61, 3_600, 7_380, 86_400, 90_061].map((seconds) => span(seconds));
  assert.deepEqual(spans, ["0 s", "59 s", "1 min", "1 min 1 s", "1 h", "2 h 3 min", "1 d", "1 d 1 h"]);
});

test("a time to come is rounded up, a time past down", () => {
  assert.equal(span(11.2, true), "12 s");
  assert.equal(span(11.9), "11 s");
  assert.equal(span(0.1 + 0.2 + 0.7), "1 s");
});

test("a measured duration is exact where it is short", () => {
  assert.deepEqual([0.0042, 0.4, 3.24, 12, 125].map(duration), ["4 ms", "0.4 s", "3.2 s", "12 s", "2 min 5 s"]);
});

test("a time is relative to now", () => {
  assert.deepEqual(
    [100, 88, 40, 130].map((time) => relative(time, 100)),
    ["just now", "12 s ago", "1 min ago", "in 30 s"],
  );
});
