import assert from "node:assert/strict";
import { test } from "node:test";
import { Doc, mistakeIn, parseAnswer, parseNode, pretty } from "../../src/json/parse";

test("a document of an answer keeps its text", () => {
  const answer = parseAnswer('[{"id":"a","input":{"n":3544790567247868102,"f":1.0,"2":0,"1":0},"created_at":12.50}]');
  const [record] = answer as [{ id: string; input: Doc; created_at: number }];
  assert.equal(record.input.text, '{"n":3544790567247868102,"f":1.0,"2":0,"1":0}');
  assert.equal(record.created_at, 12.5);
});

test("a state is a document only if it is an object", () => {
  const [state, group] = parseAnswer('[{"state":{"n":1.0}},{"state":"open"}]') as [{ state: Doc }, { state: string }];
  assert.equal(state.state.text, '{"n":1.0}');
  assert.equal(group.state, "open");
});

test("texts with escapes, brackets and quotes do not end a document", () => {
  const answer = parseAnswer('{"result":"a \\"}] \\\\","next":1}') as { result: Doc; next: number };
  assert.equal(answer.result.value, 'a "}] \\');
  assert.equal(answer.next, 1);
});

test("a name that is special to JavaScript is an ordinary name", () => {
  const answer = parseAnswer('{"roles":{"__proto__":"admin"}}') as { roles: object };
  assert.deepEqual(Object.keys(answer.roles), ["__proto__"]);
  assert.equal(Object.getPrototypeOf(answer.roles), Object.prototype);
});

test("nodes keep digits and the order of names", () => {
  const text = pretty(parseNode('{"b":1.0,"10":12345678901234567890,"a":[true,null,-1e5]}'));
  assert.equal(text, '{\n  "b": 1.0,\n  "10": 12345678901234567890,\n  "a": [\n    true,\n    null,\n    -1e5\n  ]\n}');
});

test("a mistake has its line and column", () => {
  const found = mistakeIn('{\n  "a": 01\n}');
  assert.deepEqual([found?.line, found?.column], [2, 8]);
  for (const text of ["", "{", "[1,]", '{"a" 1}', "{a: 1}", '"\\x"', "1 2", "nul", "'a'"])
    assert.ok(mistakeIn(text), text);
  for (const text of ["1", "-0.5e+7", '""', "[]", " {} ", '{"a":[{}]}']) assert.equal(mistakeIn(text), null, text);
});
