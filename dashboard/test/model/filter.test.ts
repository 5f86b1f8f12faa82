import assert from "node:assert/strict";
import { test } from "node:test";
import { filterOf, isFiltered, parameters, words } from "../../src/model/filter";

test("words of the search box become filters, the rest stays text", () => {
  const found = words("status:failed attr.env:prod attr.n:3 queue:pay order 81 error:x", filterOf({}));
  assert.deepEqual(found, {
    text: "order 81 error:x",
    patch: { status: "FAILED", queue: "pay", attrs: '{"env":"prod","n":3}' },
  });
});

test("the address is read and asked for", () => {
  const filter = filterOf({ q: "a", status: "FAILED,TIMED_OUT", since: "1h", roots: "1" });
  assert.ok(isFiltered(filter));
  assert.deepEqual(parameters(filter, 10_000), {
    text: "a",
    status: "FAILED,TIMED_OUT",
    created_after: "6400",
    roots: "true",
  });
  assert.ok(!isFiltered(filterOf({ ns: "x", wf: "y" })));
});
