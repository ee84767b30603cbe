// The official client of this interface, unmodified, over a socket: every operation it has, and each way it fails.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Cloudflare from "cloudflare";
import { type House, startHouse } from "../support/house.ts";

let house: House;
let client: Cloudflare;
const clientWith = (apiToken: string) => new Cloudflare({ apiToken, baseURL: `${house.url}/api`, maxRetries: 2 });

beforeAll(async () => {
  house = await startHouse();
  client = clientWith(house.token(["tags:edit"], { accountId: "home" }));
});
afterAll(() => house[Symbol.asyncDispose]());

const home = { account_id: "home" } as const;

async function refusal(attempt: PromiseLike<unknown>) {
  const error = await Promise.resolve(attempt).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Cloudflare.APIError)) throw new Error(`not refused by the API: ${String(error)}`);
  return {
    kind: error.constructor,
    status: error.status,
    code: error.errors[0]?.code,
    message: error.errors[0]?.message,
  };
}

describe("the client is refused", () => {
  test("without a token it knows: AuthenticationError", async () => {
    const seen = await refusal(clientWith(`gh_${"x".repeat(43)}`).resourceTagging.keys.list(home));
    expect([seen.kind, seen.status, seen.code]).toEqual([Cloudflare.AuthenticationError, 401, 1005]);
  });

  test("with a token for reading, or for another account: PermissionDeniedError", async () => {
    house.parts.tokens.createAccount("lab", "Lab");
    const reader = clientWith(house.token(["tags:read"], { accountId: "home" }));
    const other = clientWith(house.token(["tags:edit"], { accountId: "lab" }));
    const worker = { ...home, resource_id: "w", resource_type: "worker", tags: {} } as const;
    for (const attempt of [
      () => reader.resourceTagging.accountTags.update(worker),
      () => other.resourceTagging.accountTags.update(worker),
      () => other.resourceTagging.keys.list(home),
      () => other.resourceTagging.keys.list({ account_id: "no-such-account" }),
    ]) {
      const seen = await refusal(attempt());
      expect(seen).toMatchObject({ kind: Cloudflare.PermissionDeniedError, status: 403, code: 1005 });
    }
  });

  test("for a type that does not exist: BadRequestError", async () => {
    const worker = { ...home, resource_id: "w", tags: {} };
    const unknown = JSON.parse('{"resource_type":"wrk"}'); // the client's own types would not let us write it
    const attempt = client.resourceTagging.accountTags.update({ ...worker, ...unknown });
    expect(await refusal(attempt)).toEqual({
      kind: Cloudflare.BadRequestError,
      status: 400,
      code: 1006,
      message: "Invalid resource type",
    });
  });

  test("for what was never tagged: InternalServerError, asked once and not retried", async () => {
    let asked = 0;
    const counting = new Cloudflare({
      apiToken: house.adminToken,
      baseURL: `${house.url}/api`,
      fetch: (input, init) => {
        asked += 1;
        return fetch(input, init);
      },
    });
    const seen = await refusal(
      counting.resourceTagging.accountTags.get({ ...home, resource_id: "never", resource_type: "worker" }),
    );
    expect([seen.kind, seen.status, seen.code, seen.message, asked]).toEqual([
      Cloudflare.InternalServerError,
      500,
      1001,
      "resource not found: type=worker id=never",
      1,
    ]);
    expect(house.logged.filter(({ event }) => event === "request.failed")).toEqual([]);
  });

  test("for it with NotFoundError where the operator chose 404", async () => {
    const settings = { tags: { missing_status: 404 as const, max_per_account: 0, resource_types: [] } };
    await using later = await startHouse({ settings });
    const there = new Cloudflare({ apiToken: later.adminToken, baseURL: `${later.url}/api` });
    const seen = await refusal(
      there.resourceTagging.accountTags.get({ ...home, resource_id: "x", resource_type: "worker" }),
    );
    expect([seen.kind, seen.status, seen.code]).toEqual([Cloudflare.NotFoundError, 404, 1001]);
  });

  test("when the tags have changed since: 412 in the client's general APIError", async () => {
    const worker = { ...home, resource_id: "guarded", resource_type: "worker" } as const;
    const first = await client.resourceTagging.accountTags.update({ ...worker, tags: { a: "1" } });
    await client.resourceTagging.accountTags.update({ ...worker, tags: { a: "2" }, "If-Match": `"${first.etag}"` });
    const stale = client.resourceTagging.accountTags.update({
      ...worker,
      tags: { a: "3" },
      "If-Match": `"${first.etag}"`,
    });
    expect(await refusal(stale)).toMatchObject({ kind: Cloudflare.APIError, status: 412, code: 1004 });
    const gone = client.resourceTagging.accountTags.delete({ ...home, "If-Match": first.etag }, { body: worker });
    expect(await refusal(gone)).toMatchObject({ status: 412, code: 1004 });
    expect((await client.resourceTagging.accountTags.get(worker)).tags).toEqual({ a: "2" });
  });
});

describe("account tags", () => {
  const worker = { ...home, resource_id: "checkout", resource_type: "worker" } as const;

  test("are set, read back, and deleted with a body", async () => {
    const tags = { environment: "production", team: "engineering" };
    const set = await client.resourceTagging.accountTags.update({ ...worker, tags });
    expect(set).toMatchObject({
      id: "checkout",
      type: "worker",
      name: "checkout",
      tags,
      etag: "v1:4A2EQwB9GS6VEwLXh5kY3Q",
    });
    expect(await client.resourceTagging.accountTags.get(worker)).toEqual(set);
    const { account_id: _, ...body } = worker;
    const answer = await client.resourceTagging.accountTags.delete(home, { body }).asResponse();
    expect([answer.status, await answer.text()]).toEqual([204, ""]);
    expect(await refusal(client.resourceTagging.accountTags.get(worker))).toMatchObject({ status: 500, code: 1001 });
  });

  test("are deleted with a query too, again and again", async () => {
    await client.resourceTagging.accountTags.update({ ...worker, tags: {} });
    const query = { resource_id: "checkout", resource_type: "worker" };
    for (let n = 0; n < 2; n += 1) expect(await client.resourceTagging.accountTags.delete(home, { query })).toBeNull();
    expect(await refusal(client.resourceTagging.accountTags.delete(home))).toMatchObject({ status: 400, code: 1015 });
  });

  test("of a worker version need the worker, and keep it apart from another worker's", async () => {
    const version = { ...home, resource_id: "v1", resource_type: "worker_version" } as const;
    await client.resourceTagging.accountTags.update({ ...version, worker_id: "a", tags: { of: "a" } });
    await client.resourceTagging.accountTags.update({ ...version, worker_id: "b", tags: { of: "b" } });
    expect(await client.resourceTagging.accountTags.get({ ...version, worker_id: "a" })).toMatchObject({
      worker_id: "a",
      tags: { of: "a" },
    });
    const orphan = JSON.parse(JSON.stringify({ ...version, tags: {} })); // the client's own types ask for worker_id
    expect(await refusal(client.resourceTagging.accountTags.update(orphan))).toMatchObject({ code: 1002 });
  });
});

test("zone tags are set, read and deleted, and show up in the account's lists", async () => {
  const record = { zone_id: "example.org", resource_id: "www", resource_type: "dns_record" } as const;
  const set = await client.resourceTagging.zoneTags.update({ ...record, tags: { kind: "site" } });
  expect(set).toMatchObject({ id: "www", type: "dns_record", zone_id: "example.org", tags: { kind: "site" } });
  expect(await client.resourceTagging.zoneTags.get(record)).toEqual(set);
  const policy = { zone_id: "example.org", resource_id: "p", resource_type: "access_application_policy" } as const;
  expect(
    await client.resourceTagging.zoneTags.update({ ...policy, access_application_id: "app", tags: { kind: "site" } }),
  ).toMatchObject({ zone_id: "example.org", access_application_id: "app" });
  const listed = await client.resourceTagging.list({ ...home, tag: ["kind=site"] });
  expect(listed.result.map(({ id }) => id)).toEqual(["p", "www"]);
  const { zone_id, ...body } = record;
  expect(await client.resourceTagging.zoneTags.delete({ zone_id }, { body })).toBeNull();
  expect(await refusal(client.resourceTagging.zoneTags.get(record))).toMatchObject({ status: 500, code: 1001 });
});

describe("lists", () => {
  const ids = Array.from({ length: 250 }, (_, n) => `q${String(n).padStart(3, "0")}`);

  beforeAll(async () => {
    for (const [n, id] of ids.entries()) {
      const tags = { lot: "250", serial: `s${id}`, [`key-${id}`]: "", Parity: n % 2 === 0 ? "even" : "odd" };
      await client.resourceTagging.accountTags.update({ ...home, resource_id: id, resource_type: "queue", tags });
    }
  });

  test("of resources run through all 250 by themselves, in order, three requests for three pages", async () => {
    const seen: string[] = [];
    for await (const one of client.resourceTagging.list({ ...home, tag: ["lot=250"] })) seen.push(one.id);
    expect(seen).toEqual(ids);
    const first = await client.resourceTagging.list({ ...home, tag: ["lot=250"] });
    expect([first.result.length, first.hasNextPage()]).toEqual([100, true]);
    const last = await (await first.getNextPage()).getNextPage();
    expect([last.result.length, last.hasNextPage()]).toEqual([50, false]);
  });

  test("of resources take every form of filter, types, ids, a name and case", async () => {
    const find = async (query: Omit<Cloudflare.ResourceTagging.ResourceTaggingListParams, "account_id">) => {
      const found = await client.resourceTagging.list({ ...home, ...query });
      return found.result.map(({ id }) => id);
    };
    expect(await find({ tag: ["serial=sq001,sq003", "Parity=odd", "!archived", "lot!=1"] })).toEqual(["q001", "q003"]);
    expect(await find({ tag: ["parity=ODD"], id: ["q001", "q002"], case_insensitive: true })).toEqual(["q001"]);
    expect(await find({ tag: ["parity=ODD"], id: ["q001", "q002"] })).toEqual([]);
    expect(await find({ tag: ["lot"], name: "Q24", type: ["queue", "worker"] })).toEqual(ids.slice(240));
    expect(await find({ tag: ["lot"], type: ["worker"] })).toEqual([]);
  });

  test("of keys and of values page by themselves", async () => {
    const keys: unknown[] = [];
    for await (const key of client.resourceTagging.keys.list(home)) keys.push(key);
    expect(keys.filter((key) => String(key).startsWith("key-q"))).toEqual(ids.map((id) => `key-${id}`));
    const values: unknown[] = [];
    for await (const value of client.resourceTagging.values.list("serial", home)) values.push(value);
    expect(values).toEqual(ids.map((id) => `s${id}`));
    expect((await client.resourceTagging.values.list("serial", { ...home, type: "worker" })).result).toEqual([]);
    expect((await client.resourceTagging.values.list("no.such-key", home)).result).toEqual([]);
  });

  test("of keys with values come a page at a time", async () => {
    const summary = await client.resourceTagging.summary.get(home);
    expect(summary.length).toBe(100);
    expect(summary[0]).toEqual({ key: "Parity", values: ["even", "odd"] });
  });
});
