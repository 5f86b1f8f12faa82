import assert from "node:assert/strict";
import { test } from "node:test";
import { timeSpent } from "../../src/model/duration";
import type { HistoryEvent } from "../../src/model/history";
import { itemsOf } from "../../src/model/items";
import { idleGaps, rowsOf, scaleOf, zoomed } from "../../src/model/timeline";

let seq = 0;
const event = (event_type: string, timestamp: number, value: object): HistoryEvent => ({
  seq: (seq += 1),
  event_type,
  timestamp,
  payload: { value, text: JSON.stringify(value) },
});

test("each activity, timer, signal wait and child is an item with its outcome", () => {
  const items = itemsOf(
    [
      event("ActivityScheduled", 1, { activity_seq: 1, name: "charge" }),
      event("TimerScheduled", 1, { timer_seq: 1, fire_at: 9 }),
      event("WorkflowAwaitingSignal", 2, { signal: "go", timer_seq: 1 }),
      event("ActivityFailed", 3, { activity_seq: 1, name: "charge", error: "no" }),
      event("ChildWorkflowStarted", 3, { child_seq: 2, child_workflow_id: "c" }),
      event("TimerFired", 9, { timer_seq: 1 }),
      event("SignalReceived", 9, { signal: "late" }),
    ],
    [],
  );
  assert.deepEqual(
    items.map((item) => [item.kind, item.name, item.status, item.to]),
    [
      ["activity", "charge", "failed", 3],
      ["timer", "timer", "completed", 9],
      ["signal", "go", "timed_out", 9],
      ["child", "c", "running", null],
      ["signal", "late", "completed", 9],
    ],
  );
});

test("attempts are segments: queued, running, between tries", () => {
  const attempts = [
    { outcome: "failed", started_at: 2, ended_at: 3 },
    { outcome: "failed", started_at: 5, ended_at: 6 },
  ];
  const [item] = itemsOf(
    [event("ActivityScheduled", 1, { activity_seq: 7, name: "a" })],
    [{ seq: 7, scheduled_at: 1, attempts, next_try_at: 9 }],
  );
  assert.equal(item?.status, "retrying");
  assert.deepEqual(
    item?.segments.map((one) => [one.kind, one.from, one.to]),
    [
      ["queued", 1, 2],
      ["attempt", 2, 3],
      ["backoff", 3, 5],
      ["attempt", 5, 6],
      ["backoff", 6, null],
    ],
  );
});

test("more than ten equal neighbours are one row until it is opened", () => {
  const events = Array.from({ length: 12 }, (_, index) =>
    event("ActivityScheduled", index, { activity_seq: index + 1, name: "resize" }),
  );
  const items = itemsOf(events, []);
  const [group] = rowsOf(items, new Set());
  assert.deepEqual([rowsOf(items, new Set()).length, group?.type], [1, "group"]);
  assert.equal(rowsOf(items, new Set([items[0]?.key ?? ""])).length, 13);
});

test("idle time is folded to a small part of the width", () => {
  const items = itemsOf(
    [
      event("ActivityScheduled", 0, { activity_seq: 1, name: "a" }),
      event("ActivityCompleted", 10, { activity_seq: 1 }),
      event("ActivityScheduled", 90, { activity_seq: 2, name: "b" }),
      event("ActivityCompleted", 100, { activity_seq: 2 }),
    ],
    [],
  );
  const range = { from: 0, to: 100 };
  const gaps = idleGaps(items, range);
  assert.deepEqual(gaps, [{ from: 10, to: 90 }]);
  const scale = scaleOf(range, gaps);
  assert.deepEqual(
    [scale.x(0), Math.round(scale.x(10) * 100), Math.round(scale.x(90) * 100), scale.x(100)],
    [0, 48, 52, 1],
  );
  assert.ok(Math.abs(scale.time(scale.x(95)) - 95) < 1e-6);
  assert.equal(scaleOf(range, []).x(50), 0.5);
});

test("zooming stays inside the whole", () => {
  const whole = { from: 0, to: 100 };
  assert.deepEqual(zoomed(whole, whole, 0.5), { from: 25, to: 75 });
  assert.deepEqual(zoomed({ from: 80, to: 100 }, whole, 2), { from: 60, to: 100 });
  assert.deepEqual(zoomed(whole, whole, 2), whole);
});

test("each moment belongs to what explains it best", () => {
  const items = itemsOf(
    [
      event("WorkflowAwaitingSignal", 0, { signal: "go" }),
      event("ActivityScheduled", 2, { activity_seq: 1, name: "a" }),
      event("ActivityCompleted", 4, { activity_seq: 1 }),
      event("SignalReceived", 8, { signal: "go" }),
    ],
    [],
  );
  assert.deepEqual(
    timeSpent(items, 0, 10).map((share) => [share.label, share.seconds]),
    [
      ["waiting for signal go", 6],
      ["running a", 2],
      ["workflow code and gaps", 2],
    ],
  );
});
