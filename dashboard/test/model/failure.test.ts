import assert from "node:assert/strict";
import { test } from "node:test";
import { chain, frames } from "../../src/model/failure";

const STACK = `Traceback (most recent call last):
  File "/srv/app/orders/pay.py", line 41, in charge
    client.post()
  File "/usr/lib/python3.12/site-packages/http/client.py", line 88, in post
    raise HTTPError
    ^^^^^^^^^^^^^^^
  File "/usr/lib/python3.12/socket.py", line 3, in send
    x()
HTTPError: 402`;

test("frames of libraries are grouped, own frames stand alone", () => {
  const groups = frames(STACK);
  assert.deepEqual(
    groups.map((group) => [group.own, group.frames.length]),
    [
      [true, 1],
      [false, 2],
    ],
  );
  assert.deepEqual(groups[0]?.frames[0], { place: "orders/pay.py:41 charge", code: "client.post()", own: true });
  assert.equal(groups[1]?.frames[0]?.code, "raise HTTPError");
});

test("causes follow, the outermost first", () => {
  const inner = {
    kind: "INTERNAL",
    message: "b",
    type: "B",
    stack: null,
    source: null,
    timeout_type: null,
    cause: null,
  };
  assert.deepEqual(
    chain({ ...inner, type: "A", cause: inner }).map((one) => one.type),
    ["A", "B"],
  );
});
