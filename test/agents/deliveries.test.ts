// Which webhooks an agent has seen, with a clock and handlers of the test's choice.
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { createDeliveries } from "../../src/agents/runtime/deliveries.ts";

const DAY_MS = 86_400_000;
const facts = (id: string, more = {}) => ({ source: "generic", verdict: "ok", id, type: "x", ...more });

function open() {
  const db = new Database(":memory:", { strict: true });
  let nowMs = 1_700_000_000_000;
  let runs = 0;
  const { once } = createDeliveries(db, () => nowMs);
  const handle = async (status: number) => {
    runs++;
    return new Response("ran", { status });
  };
  return {
    once,
    runs: () => runs,
    advance: (ms: number) => {
      nowMs += ms;
    },
    answer: async (id: string, status = 200, more = {}) => (await once(facts(id, more), () => handle(status))).text(),
    remembered: () => db.query<{ n: number }, []>("select count(*) as n from gatehouse_inbox").get()?.n,
  };
}

test("one that failed runs again, one that is done does not, a replay always does", async () => {
  const it = open();
  expect(await it.answer("a", 500)).toBe("ran");
  expect(await it.answer("a", 499)).toBe("ran");
  expect(await it.answer("a")).toContain("duplicate");
  expect(await it.answer("a", 200, { source: "other" })).toBe("ran");
  expect(await it.answer("a", 200, { replay: true })).toBe("ran");
});

test("of two at the same moment the second runs only if the first failed, also by throwing", async () => {
  const it = open();
  const fails = it.once(facts("a"), async () => {
    throw new Error("not now");
  });
  const [first, second, third] = await Promise.allSettled([fails, it.answer("a"), it.answer("a")]);
  expect([first.status, it.runs()]).toEqual(["rejected", 1]);
  const texts = [second, third].map((outcome) => (outcome.status === "fulfilled" ? outcome.value : "failed"));
  expect(texts.sort()).toEqual(["ran", '{"status":"duplicate"}']);
});

test("ids are remembered for thirty days, and looked through every hundred deliveries", async () => {
  const it = open();
  await it.answer("old");
  it.advance(30 * DAY_MS);
  for (let index = 0; index < 99; index++) await it.answer(`new-${index}`);
  expect([await it.answer("old"), it.remembered()]).toEqual(['{"status":"duplicate"}', 100]);
  it.advance(1);
  for (let index = 0; index < 100; index++) await it.answer(`newer-${index}`);
  expect([it.remembered(), await it.answer("old")]).toEqual([199, "ran"]);
});
