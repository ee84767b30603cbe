// Fibers seen from outside: listed, cancelled, resolved and deleted, while they run and after a crash cut them off.
import { describe, expect, test } from "bun:test";
import { failure, startAgents, until } from "../support/agents.ts";

const JOBS = `
import { Agent, callable } from "gatehouse";
export class Jobs extends Agent {
  gates = new Map<string, PromiseWithResolvers<void>>();
  reasons: unknown[] = [];
  async onFiberRecovered(fiber) { if (fiber.metadata?.verdict) return fiber.metadata.verdict; }
  /** Runs until it is opened; one that is obedient also ends when it is cancelled. */
  @callable() begin(key: string, obedient = true, metadata?: object) {
    const gate = Promise.withResolvers<void>();
    this.gates.set(key, gate);
    return this.startFiber("gated", async ({ signal, stash }) => {
      stash({ key });
      signal.addEventListener("abort", () => { this.reasons.push(signal.reason); if (obedient) gate.reject(new Error("stopped")); });
      await gate.promise;
    }, { fiberId: "id-" + key, idempotencyKey: key, metadata });
  }
  @callable() async done(key: string, name = "quick") { return (await this.startFiber(name, async () => {}, { fiberId: "id-" + key, idempotencyKey: key, waitForCompletion: true })).status; }
  @callable() async broken(key: string) { return (await this.startFiber("quick", async () => { throw new Error("broke"); }, { fiberId: "id-" + key, waitForCompletion: true })).status; }
  @callable() open(key: string) { this.gates.get(key)?.resolve(); }
  @callable() why() { return this.reasons.map((reason) => reason instanceof Error ? reason.name : reason); }
  @callable() inspect(id: string) { return this.inspectFiber(id); }
  @callable() inspectKey(key: string) { return this.inspectFiberByKey(key); }
  @callable() list(criteria?: object) { return this.listFibers(criteria); }
  @callable() cancel(id: string, reason?: string) { return this.cancelFiber(id, reason); }
  @callable() cancelKey(key: string, reason?: string) { return this.cancelFiberByKey(key, reason); }
  @callable() resolve(id: string, verdict: object) { return this.resolveFiber(id, verdict); }
  @callable() resolveWithError(id: string) { return this.resolveFiber(id, { status: "error", error: new TypeError("gave up") }); }
  @callable() remove(options?: object) { return this.deleteFibers(options); }
  @callable() fill(count: number) {
    this.sql\`with recursive n (i) as (select 1 union all select i + 1 from n where i < \${count})
      insert into gatehouse_fibers (id, name, status, created_ms, updated_ms) select 'full-' || i, 'full', 'completed', i, i from n\`; }
  @callable() crash() { process.exit(1); }
}`;

async function startJobs() {
  const agents = await startAgents({ files: { "jobs.ts": JOBS } });
  const jobs = (method: string, ...args: unknown[]) => agents.call("jobs", "a", method, args);
  const keys = async (criteria?: object) => ((await jobs("list", criteria)) as { fiberId: string }[]).map(idOf);
  const statusOf = async (id: string) => ((await jobs("inspect", id)) as { status: string } | undefined)?.status;
  /** A fiber that the crash of its thread cut off. */
  async function interrupt(key: string, metadata?: object): Promise<void> {
    await jobs("begin", key, true, metadata);
    expect((await failure(jobs("crash"))).code).toBe("agent.gone");
  }
  return { jobs, keys, statusOf, interrupt, [Symbol.asyncDispose]: agents[Symbol.asyncDispose] };
}
const idOf = ({ fiberId }: { fiberId: string }) => fiberId;

describe("refusals", () => {
  test("what is not there, and what has ended, can be neither cancelled nor resolved", async () => {
    await using agent = await startJobs();
    const { jobs } = agent;
    await jobs("done", "k");
    for (const id of ["id-k", "nobody"]) {
      expect(await jobs("cancel", id)).toBe(false);
      expect(await jobs("resolve", id, { status: "aborted", snapshot: 1 })).toBe(false);
    }
    for (const key of ["k", "nobody"]) expect(await jobs("cancelKey", key)).toBe(false);
    expect(await jobs("inspectKey", "nobody")).toBeUndefined();
    expect(await jobs("inspect", "id-k")).toMatchObject({ status: "completed", snapshot: undefined });
  });

  test("one that runs can be neither resolved nor deleted", async () => {
    await using agent = await startJobs();
    const { jobs, statusOf } = agent;
    await jobs("begin", "k");
    expect(await jobs("resolve", "id-k", { status: "completed" })).toBe(false);
    expect(await jobs("remove", { status: ["running", "pending"] })).toBe(0);
    expect(await statusOf("id-k")).toBe("running");
    await jobs("open", "k");
  });

  test.each(["running", "pending", "lost"])("a verdict may not be %s", async (status) => {
    await using agent = await startJobs();
    await agent.interrupt("k");
    const refused = await failure(agent.jobs("resolve", "id-k", { status }));
    expect(refused.message).toContain("completed, aborted, interrupted or error");
    expect(await agent.statusOf("id-k")).toBe("interrupted");
  });

  test("a recovery whose verdict is none leaves the fiber interrupted", async () => {
    await using agent = await startJobs();
    await agent.interrupt("k", { verdict: { status: "running" } });
    expect(await agent.statusOf("id-k")).toBe("interrupted");
  });
});

describe("cancelling", () => {
  test("is on disk at once, tells the fiber why, and keeps the reason however the fiber ends", async () => {
    await using agent = await startJobs();
    const { jobs } = agent;
    await jobs("begin", "k");
    expect(await jobs("cancel", "id-k", "not needed")).toBe(true);
    expect(await jobs("inspectKey", "k")).toMatchObject({
      status: "aborted",
      error: "not needed",
      snapshot: { key: "k" },
    });
    expect(await jobs("why")).toEqual(["not needed"]);
    expect(await jobs("cancel", "id-k", "again")).toBe(false);
    await jobs("done", "later");
    expect(await jobs("inspectKey", "k")).toMatchObject({ status: "aborted", error: "not needed" });
  });

  test("works by key, and without a reason", async () => {
    await using agent = await startJobs();
    await agent.jobs("begin", "k");
    expect(await agent.jobs("cancelKey", "k")).toBe(true);
    expect(await agent.jobs("why")).toEqual(["AbortError"]);
    expect(await agent.jobs("inspectKey", "k")).not.toHaveProperty("error");
  });

  test("one that does not listen stays cancelled over a crash, and is not deleted while it runs", async () => {
    await using agent = await startJobs();
    const { jobs, statusOf } = agent;
    await jobs("begin", "k", false);
    await jobs("cancelKey", "k");
    expect(await jobs("remove")).toBe(0);
    expect((await failure(jobs("crash"))).code).toBe("agent.gone");
    expect(await statusOf("id-k")).toBe("aborted");
    expect(await jobs("remove")).toBe(1);
  });
});

describe("resolving", () => {
  test.each([
    [
      { status: "completed", snapshot: { at: 9 } },
      { status: "completed", snapshot: { at: 9 } },
    ],
    [
      { status: "aborted", reason: "too late" },
      { status: "aborted", error: "too late", snapshot: { key: "k" } },
    ],
    [
      { status: "error", error: "own words" },
      { status: "error", error: "own words" },
    ],
  ])("an interrupted fiber takes the verdict %j, once", async (verdict, found) => {
    await using agent = await startJobs();
    await agent.interrupt("k");
    expect(await agent.jobs("resolve", "id-k", verdict)).toBe(true);
    expect(await agent.jobs("inspect", "id-k")).toMatchObject(found);
    expect(await agent.jobs("resolve", "id-k", verdict)).toBe(false);
  });

  test("an error may be an Error", async () => {
    await using agent = await startJobs();
    await agent.interrupt("k");
    expect(await agent.jobs("resolveWithError", "id-k")).toBe(true);
    expect(await agent.jobs("inspect", "id-k")).toMatchObject({ status: "error", error: "gave up" });
  });
});

test("fibers are listed by status and name, oldest first, and no more than asked for", async () => {
  await using agent = await startJobs();
  const { jobs, keys } = agent;
  await jobs("done", "1");
  await jobs("done", "2", "other");
  await jobs("broken", "3");
  await jobs("begin", "4");
  expect(await keys()).toEqual(["id-1", "id-2", "id-3", "id-4"]);
  expect(await keys({ status: "completed" })).toEqual(["id-1", "id-2"]);
  expect(await keys({ status: ["error", "running"] })).toEqual(["id-3", "id-4"]);
  expect(await keys({ status: [] })).toEqual([]);
  expect(await keys({ name: "other" })).toEqual(["id-2"]);
  expect(await keys({ name: "quick", status: "completed" })).toEqual(["id-1"]);
  expect(await keys({ limit: 2 })).toEqual(["id-1", "id-2"]);
  expect(await keys({ limit: -1 })).toEqual(["id-1"]);
  await jobs("open", "4");
});

test("a list and a deletion take 100 at a time unless told, and never more than 1,000", async () => {
  await using agent = await startJobs();
  const { jobs, keys } = agent;
  await jobs("fill", 2_101);
  expect([await keys(), await keys({ limit: 1_000 }), await keys({ limit: 1_001 })].map((all) => all.length)).toEqual([
    100, 1_000, 1_000,
  ]);
  expect([await jobs("remove"), await jobs("remove", { limit: 1_000 })]).toEqual([100, 1_000]);
  expect([await jobs("remove", { limit: 1_001 }), await keys()]).toEqual([1_000, ["full-2101"]]);
});

describe("deleting", () => {
  test("leaves what runs and what was interrupted, unless the latter is asked for", async () => {
    await using agent = await startJobs();
    const { jobs, keys } = agent;
    await agent.interrupt("cut");
    await jobs("done", "1");
    await jobs("broken", "2");
    await jobs("begin", "running");
    expect(await jobs("remove")).toBe(2);
    expect(await keys()).toEqual(["id-cut", "id-running"]);
    expect(await jobs("remove", { status: ["interrupted", "running"] })).toBe(1);
    expect(await keys()).toEqual(["id-running"]);
    await jobs("open", "running");
  });

  test("takes a status, an end and a number, and frees the key", async () => {
    await using agent = await startJobs();
    const { jobs, keys } = agent;
    await jobs("broken", "0");
    await jobs("done", "1");
    await jobs("done", "2");
    expect(await jobs("remove", { settledBefore: new Date(0) })).toBe(0);
    expect(await jobs("remove", { status: "completed", limit: 1 })).toBe(1);
    expect(await keys()).toEqual(["id-0", "id-2"]);
    expect(await jobs("remove", { settledBefore: new Date(Date.now() + 60_000) })).toBe(2);
    expect(await jobs("begin", "2")).toMatchObject({ accepted: true });
    await jobs("open", "2");
    await until(async () => (await agent.statusOf("id-2")) === "completed");
  });
});
