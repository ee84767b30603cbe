import { expect, test } from "bun:test";
import { findBy, holds, isTemplate } from "../../src/hooks/template.ts";

const reading = {
  headers: new Headers({ "x-event": "push", "x-empty": "" }),
  query: new URLSearchParams("host=nas"),
  payload: {
    repository: { full_name: "Acme/Web", id: 0, empty: "", nothing: null, list: [{ name: "first" }] },
    status: 0,
    on: false,
  },
};
const find = (...templates: string[]) => findBy(templates)(reading);

test.each([
  ["{repository}"],
  ["{repository.full_name.length}"],
  ["{repository.list.1.name}"],
  ["{repository.empty}"],
  ["{repository.nothing}"],
  ["{__proto__.toString}"],
  ["{constructor.name}"],
  ["{header:x-empty}"],
  ["{header:x-none}"],
  ["{query:none}"],
  ["{repository.full_name}-{missing}"],
  ["down{?status=1}"],
  ["up{!status}"],
  ["{?missing}x"],
])("%s finds nothing", (template) => expect(find(template)).toBeUndefined());

test.each([
  ["{repository.full_name}", "Acme/Web"],
  ["repo-{repository.id}", "repo-0"],
  ["{repository.list.0.name}", "first"],
  ["{on}", "false"],
  ["{header:X-Event}", "push"],
  ["{query:host}", "nas"],
  ["down{?status=0}", "down"],
  ["ok{?repository}{!missing}{?header:x-event=push}", "ok"],
  ["{repository.full_name}: {header:x-event}", "Acme/Web: push"],
])("%s finds %p", (template, text) => expect(find(template)).toBe(text));

test("takes the first template that can be filled", () => expect(find("{none}", "{status}", "fixed")).toBe("0"));
test("cuts a value at two thousand characters", () => {
  expect(findBy(["{a}"])({ ...reading, payload: { a: "x".repeat(2_001) } })?.length).toBe(2_000);
});
test("conditions alone hold or do not", () => {
  expect([holds("{?status=0}")(reading), holds("{?status=1}")(reading), holds("{!none}")(reading)]).toEqual([
    true,
    false,
    true,
  ]);
});
test("a brace without its partner is no template", () => {
  expect(["{a}-{b}", "plain", "{a", "a}", "{{a}}"].map(isTemplate)).toEqual([true, true, false, false, false]);
});
