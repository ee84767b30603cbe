// What the official client cannot send: raw requests, each with the answer it must get, and proof that nothing was stored.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type House, startHouse } from "../support/house.ts";

let house: House;
const TAGS = "/api/accounts/home/tags";
const JSON_TYPE = { "content-type": "application/json" };

beforeAll(async () => {
  house = await startHouse({
    settings: { tags: { missing_status: 500, max_per_account: 0, resource_types: ["device"] } },
  });
});
afterAll(() => house[Symbol.asyncDispose]());

type Raw = { method: string; path?: string; headers?: Record<string, string>; body?: BodyInit };

async function send({ method, path = TAGS, headers = JSON_TYPE, body }: Raw, token = house.adminToken) {
  const init = {
    method,
    headers: { ...(token && { authorization: `Bearer ${token}` }), ...headers },
    ...(body !== undefined && { body }),
  };
  const answer = await house.fetch(path, init);
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
}

/** Status, code and sentence of a refusal, which must have the interface's whole envelope. */
async function refusal(raw: Raw, token?: string): Promise<[number, number, string]> {
  const { status, body } = await send(raw, token);
  const [{ code, message }] = body.errors;
  expect(body).toEqual({ success: false, errors: [{ code, message }], messages: [], result: null });
  return [status, code, message];
}

const stored = async () => (await house.api("GET", `${TAGS}/resources`)).body.result;
const text = (length: number, char = "x") => char.repeat(length);
const set = (change: object = {}): string =>
  JSON.stringify({ resource_type: "worker", resource_id: "w", tags: { a: "1" }, ...change });
const withTags = (tags: object): string => set({ tags });

const INVALID_SET = [400, 1002, "Invalid set payload"] as const;
const INVALID_DELETE = [400, 1015, "Invalid delete payload"] as const;
const KEY_LONG = [400, 1011, "tag key too long (maximum 256 characters)"] as const;
const VALUE_LONG = [400, 1012, "tag value too long (maximum 1024 characters)"] as const;
const KEY = [400, 1014, "Invalid tag key"] as const;
const TYPE = [400, 1006, "Invalid resource type"] as const;

describe("a set is refused, and stores nothing,", () => {
  const BAD: [string, BodyInit, readonly [number, number, string], Record<string, string>?][] = [
    ["without a body", "", INVALID_SET],
    ["that is not JSON", "{", INVALID_SET],
    ["that is not UTF-8", new Uint8Array([0x22, 0xff, 0x22]), INVALID_SET],
    ["that is null", "null", INVALID_SET],
    ["that is a list", `[${set()}]`, INVALID_SET],
    ["sent as a form", set(), INVALID_SET, { "content-type": "application/x-www-form-urlencoded" }],
    ["sent as text", set(), INVALID_SET, { "content-type": "text/plain" }],
    ["without a type", set({ resource_type: undefined }), INVALID_SET],
    ["with an empty type", set({ resource_type: "" }), INVALID_SET],
    ["with a number as type", set({ resource_type: 5 }), INVALID_SET],
    ["without an id", set({ resource_id: undefined }), INVALID_SET],
    ["with an empty id", set({ resource_id: "" }), INVALID_SET],
    ["with an id of 1,025 characters", set({ resource_id: text(1_025) }), INVALID_SET],
    ["with a NUL in the id", set({ resource_id: "a\0b" }), INVALID_SET],
    ["with half a character in the id", set({ resource_id: "\ud800" }), INVALID_SET],
    ["without tags", set({ tags: undefined }), INVALID_SET],
    ["with null for tags", set({ tags: null }), INVALID_SET],
    ["with a list for tags", set({ tags: ["a"] }), INVALID_SET],
    ["with text for tags", set({ tags: "a=1" }), INVALID_SET],
    ["with a number as value", withTags({ a: 1 }), INVALID_SET],
    ["with null as value", withTags({ a: null }), INVALID_SET],
    ["with an object as value", withTags({ a: {} }), INVALID_SET],
    ["with a NUL in a value", withTags({ a: "x\0y" }), INVALID_SET],
    ["with half a character in a value", withTags({ a: "x\udc00" }), INVALID_SET],
    ["for an unknown type", set({ resource_type: "wrk" }), TYPE],
    ["for a type that JavaScript knows", set({ resource_type: "constructor" }), TYPE],
    ["for a type that lives in a zone", set({ resource_type: "dns_record" }), TYPE],
    ["for a worker version without its worker", set({ resource_type: "worker_version" }), INVALID_SET],
    ["with a key of 257 characters", withTags({ [text(257)]: "" }), KEY_LONG],
    ["with an empty key", withTags({ "": "" }), KEY],
    ["with a space in a key", withTags({ "a b": "" }), KEY],
    ["with a NUL in a key", withTags({ "a\0": "" }), KEY],
    ["with half a character as key", '{"resource_type":"worker","resource_id":"w","tags":{"\\ud800":""}}', KEY],
    ["with __proto__ as key", '{"resource_type":"worker","resource_id":"w","tags":{"__proto__":"x"}}', KEY],
    [
      "with __proto__ as a map",
      '{"resource_type":"worker","resource_id":"w","tags":{"__proto__":{"a":"b"}}}',
      INVALID_SET,
    ],
    ["with a value of 1,025 characters", withTags({ a: text(1_025) }), VALUE_LONG],
    ["with a value of 1,025 emoji", withTags({ a: text(1_025, "😀") }), VALUE_LONG],
    [
      "with 10 MB of tags",
      withTags({ a: text(10_000_000) }),
      [413, 7001, "The body is too large (maximum 1048576 bytes)"],
    ],
    ["with everything wrong: form first", set({ resource_type: "wrk", tags: { "a b": 1 } }), INVALID_SET],
    ["then the type", set({ resource_type: "wrk", tags: { [text(257)]: text(1_025) } }), TYPE],
    ["then the length of keys", withTags({ "a b": text(1_025), [text(257)]: "" }), KEY_LONG],
    ["then their characters", withTags({ a: text(1_025), "a b": "" }), KEY],
  ];

  test.each(BAD)("%s", async (_, body, expected, headers = JSON_TYPE) => {
    expect(await refusal({ method: "PUT", body, headers })).toEqual([...expected]);
    expect(await stored()).toEqual([]);
  });

  test("as a patch by the same rules", async () => {
    expect(await refusal({ method: "PATCH", body: "[]" })).toEqual([...INVALID_SET]);
    expect(await refusal({ method: "PATCH", body: withTags({ a: 1 }) })).toEqual([...INVALID_SET]);
    expect(await refusal({ method: "PATCH", body: withTags({ "a b": null }) })).toEqual([...KEY]);
    expect(await stored()).toEqual([]);
  });

  test("in bulk with the number of the bad one", async () => {
    const path = `${TAGS}/bulk`;
    const one = JSON.parse(set());
    const bulk = (resources: unknown) => refusal({ method: "POST", path, body: JSON.stringify({ resources }) });
    expect(await bulk([])).toEqual([...INVALID_SET]);
    expect(await bulk(Array(1_001).fill(one))).toEqual([...INVALID_SET]);
    expect(await bulk([one, { ...one, tags: { "a b": "" } }])).toEqual([400, 1014, "resources[1]: Invalid tag key"]);
    expect(await bulk([one, { ...one, resource_type: "zone" }])).toEqual([
      400,
      1002,
      "resources[1]: Invalid set payload",
    ]);
    expect(await bulk([one, { ...one, if_match: "*", resource_id: "new" }])).toEqual([
      412,
      1004,
      "resources[1]: If-Match does not match: the tags have changed since",
    ]);
    expect(await stored()).toEqual([]);
  });
});

describe("a delete is refused", () => {
  test.each([
    ["without anything", "", INVALID_DELETE],
    ["that is not JSON", "{", INVALID_DELETE],
    ["that is a list", "[]", INVALID_DELETE],
    ["that is null", "null", INVALID_DELETE],
    ["without an id", '{"resource_type":"worker"}', INVALID_DELETE],
    ["without a type", '{"resource_id":"w"}', INVALID_DELETE],
    ["for an unknown type", '{"resource_type":"wrk","resource_id":"w"}', TYPE],
  ] as const)("%s", async (_, body, expected) => {
    expect(await refusal({ method: "DELETE", body })).toEqual([...expected]);
  });

  test("with the wrong content type", async () => {
    const body = '{"resource_type":"worker","resource_id":"w"}';
    expect(await refusal({ method: "DELETE", body, headers: { "content-type": "text/plain" } })).toEqual([
      ...INVALID_DELETE,
    ]);
  });
});

const REQUIRED = [400, 1003, "resource_type and resource_id are required"] as const;
const FORMAT = [
  400,
  1007,
  "tag parameter must be in format key, key=value, key=value1,value2, !key, key!=value or key!=value1,value2",
] as const;
const many = (count: number, one: string) => `?${Array(count).fill(one).join("&")}`;

describe("a read or a list is refused", () => {
  test.each([
    ["", REQUIRED],
    ["?resource_type=worker", REQUIRED],
    ["?resource_id=w", REQUIRED],
    ["?resource_type=&resource_id=w", REQUIRED],
    ["?resource_type=worker_version&resource_id=w", REQUIRED],
    ["?resource_type=wrk&resource_id=w", TYPE],
    ["?resource_type=zone&resource_id=w", TYPE],
    ["?resource_type=worker&resource_id=w", [500, 1001, "resource not found: type=worker id=w"]],
    ["/values", [400, 1009, "tag_key is required"]],
    ["/values/", [400, 1009, "tag_key is required"]],
    [`/values/${text(257)}`, KEY_LONG],
    ["/values/a%20b", KEY],
    ["/values/a%2Fb", KEY],
    ["/values/%zz", KEY],
    ["/values/a?type=wrk", TYPE],
    ["/values/a?cursor=x", [400, 7001, "cursor is not one of ours"]],
    ["/keys?cursor=WzFd", [400, 7001, "cursor is not one of ours"]],
    ["/summary?cursor=e30", [400, 7001, "cursor is not one of ours"]],
    ["/resources?cursor=WyJhIl0", [400, 7001, "cursor is not one of ours"]],
    [`/resources${many(21, "tag=a")}`, [400, 1010, "too many tag filters (maximum 20)"]],
    ["/resources?tag=", FORMAT],
    ["/resources?tag=%3Dv", FORMAT],
    ["/resources?tag=!k=v", FORMAT],
    [`/resources?tag=k=${text(10, ",")}`, [400, 1013, "too many OR values in tag filter (maximum 10)"]],
    [`/resources?tag=${text(257)}`, KEY_LONG],
    ["/resources?tag=a:b", KEY],
    [`/resources?tag=k=${text(1_025)}`, VALUE_LONG],
    ["/resources?type=wrk", TYPE],
    [`/resources${many(51, "id=a")}`, [400, 7001, "too many id parameters (maximum 50)"]],
    [`/resources?name=${text(257)}`, [400, 7001, "name too long (maximum 256 characters)"]],
    ["/resources?case_insensitive=maybe", [400, 7001, "case_insensitive must be true or false"]],
    ["/export?tag=!", FORMAT],
    ["/nothing", [404, 7003, "No route for the URI"]],
  ] as const)("%s", async (path, expected) => {
    expect(await refusal({ method: "GET", path: `${TAGS}${path}` })).toEqual([...expected]);
  });

  test.each(["a%00b", text(1_025)])("in a zone of which no id could be %s", async (zone) => {
    const path = `/api/zones/${zone}/tags?resource_type=zone&resource_id=z`;
    const sentence = "zone_id must be text of 1 to 1024 characters";
    expect(await refusal({ method: "GET", path })).toEqual([400, 7001, sentence]);
    expect(await refusal({ method: "PUT", path, body: set({ resource_type: "zone" }) })).toEqual([400, 7001, sentence]);
  });

  test.each([
    `/resources${many(20, "tag=a")}`,
    `/resources?tag=k=${text(9, ",")}`,
    `/resources?tag=${text(256)}&tag=k=${text(1_024)}`,
    `/resources${many(50, "id=a")}`,
    `/resources?name=${text(256)}&per_page=5`,
    `/values/${text(256)}`,
  ])("not at the limit: %s", async (path) => {
    const { status, body } = await send({ method: "GET", path: `${TAGS}${path}` });
    expect([status, body.result, body.result_info]).toEqual([
      200,
      [],
      { count: 0, cursor: null, cursors: { after: null } },
    ]);
  });
});

describe("who may not", () => {
  const ROUTES: [string, string][] = [
    ["GET", "/accounts/home/tags?resource_type=worker&resource_id=w"],
    ["PUT", "/accounts/home/tags"],
    ["PATCH", "/accounts/home/tags"],
    ["DELETE", "/accounts/home/tags"],
    ["POST", "/accounts/home/tags/bulk"],
    ["POST", "/accounts/home/tags/import"],
    ["GET", "/accounts/home/tags/export"],
    ["GET", "/accounts/home/tags/resources?tag="],
    ["GET", "/accounts/home/tags/keys?cursor=x"],
    ["GET", "/accounts/home/tags/values/"],
    ["GET", "/accounts/home/tags/values/a b"],
    ["GET", "/accounts/home/tags/summary"],
    ["GET", "/zones/z/tags"],
    ["PUT", "/zones/z/tags"],
    ["PATCH", "/zones/z/tags"],
    ["DELETE", "/zones/z/tags"],
  ];

  test.each(ROUTES)("%s %s: refused before anything else is looked at", async (method, path) => {
    const body = method === "GET" ? {} : { body: "{ not json" };
    const raw = { method, path: `/api${path}`, ...body };
    expect(await refusal(raw, "")).toEqual([401, 1005, "A valid token is required"]);
    expect(await refusal(raw, house.token(["run", "gateway:edit", "agents:edit"]))).toEqual([
      403,
      1005,
      "This token may not do that",
    ]);
    if (method === "GET") return;
    expect(await refusal(raw, house.token(["tags:read"]))).toEqual([403, 1005, "This token may not do that"]);
  });

  test("another account: the same answer for what exists and what does not", async () => {
    await using own = await startHouse();
    own.parts.tokens.createAccount("lab", "Lab");
    await own.api("PUT", TAGS, JSON.parse(set()));
    const token = own.token(["tags:edit"], { accountId: "lab" });
    const answers = await Promise.all(
      [
        "home/tags?resource_type=worker&resource_id=w",
        "home/tags?resource_type=worker&resource_id=none",
        "none/tags/keys",
      ].map(async (path) => {
        const { status, body } = await own.api("GET", `/api/accounts/${path}`, undefined, token);
        return JSON.stringify({ status, body });
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect((await own.api("GET", "/api/accounts/lab/tags/keys", undefined, token)).body.result).toEqual([]);
  });

  test("a zone that another account has tagged first", async () => {
    await using own = await startHouse();
    own.parts.tokens.createAccount("lab", "Lab");
    const record = { resource_type: "dns_record", resource_id: "www", tags: { a: "1" } };
    const lab = own.token(["tags:edit"], { accountId: "lab" });
    const home = own.token(["tags:edit"], { accountId: "home" });
    const path = "/api/zones/lab.example/tags";
    expect((await own.api("PUT", path, record, lab)).status).toBe(200);
    const read = `${path}?resource_type=dns_record&resource_id=`;
    const attempts = [
      await own.api("GET", `${read}www`, undefined, home),
      await own.api("GET", `${read}none`, undefined, home),
      await own.api("PUT", path, record, home),
      await own.api("PATCH", path, record, home),
      await own.api("DELETE", path, record, home),
      await own.api("POST", `${TAGS}/bulk`, { resources: [{ ...record, zone_id: "lab.example" }] }, home),
    ];
    expect(attempts.map(({ status, body }) => [status, body.errors[0].code])).toEqual(Array(6).fill([403, 1005]));
    expect((await own.api("GET", `${read}www`)).body.result.tags).toEqual({ a: "1" }); // an admin works in the owner's account
    await own.api("PUT", "/api/zones/new.example/tags", record);
    expect(
      (await own.api("GET", `${TAGS}/resources`)).body.result.map(({ zone_id }: { zone_id: string }) => zone_id),
    ).toEqual(["new.example"]);
  });

  test("an account at its limit, until something goes", async () => {
    await using own = await startHouse({
      settings: { tags: { missing_status: 500, max_per_account: 2, resource_types: [] } },
    });
    expect((await own.api("PUT", TAGS, JSON.parse(withTags({ a: "1", b: "2" })))).status).toBe(200);
    const past = await own.api("PATCH", TAGS, JSON.parse(withTags({ c: "3" })));
    expect([past.status, past.body.errors[0]]).toEqual([
      400,
      { code: 1008, message: "This account is at its tag limit" },
    ]);
    expect((await own.api("PATCH", TAGS, JSON.parse(withTags({ c: "3", a: null })))).body.result.tags).toEqual({
      b: "2",
      c: "3",
    });
  });
});

describe("what is stored", () => {
  test("comes back as it was sent, whatever a tag may hold", async () => {
    const tags = {
      [text(256)]: text(1_024),
      [text(256, "𐐀")]: text(1_024, "😀"),
      "größe.v-2_β٣": "a,b = !c\n\t\"'\\ \u2028",
      constructor: "",
      toString: "x",
    };
    const id = `${text(1_020, "é")}/:%?`;
    const answer = await house.api("PUT", TAGS, { resource_type: "device", resource_id: id, tags, note: "ignored" });
    expect([answer.status, answer.body.result.tags, answer.body.result.id]).toEqual([200, tags, id]);
    const query = new URLSearchParams({ resource_type: "device", resource_id: id });
    expect((await house.api("GET", `${TAGS}?${query}`)).body.result).toEqual(answer.body.result);
    await house.api("DELETE", `${TAGS}`, { resource_type: "device", resource_id: id });
    expect(await stored()).toEqual([]);
  });

  test("an empty map counts as tagged, and is found by what it lacks", async () => {
    await house.api("PUT", TAGS, JSON.parse(withTags({})));
    const answer = await house.api("GET", `${TAGS}?resource_type=worker&resource_id=w`);
    expect([answer.status, answer.body.result.tags, answer.body.result.etag]).toEqual([
      200,
      {},
      "v1:RBNvo1WzZ4oRRq0W9-hkng",
    ]);
    const found = await house.api("GET", `${TAGS}/resources?tag=!a&tag=b!=1`);
    expect(found.body.result.map(({ id }: { id: string }) => id)).toEqual(["w"]);
    await house.api("DELETE", `${TAGS}?resource_type=worker&resource_id=w`);
  });

  test("changes by patch, key by key, under If-Match", async () => {
    await house.api("PUT", TAGS, JSON.parse(withTags({ a: "1", b: "2" })));
    const patched = await house.api("PATCH", TAGS, JSON.parse(withTags({ b: null, c: "3" })));
    expect(patched.body.result.tags).toEqual({ a: "1", c: "3" });
    const headers = { ...JSON_TYPE, "if-match": '"v1:RBNvo1WzZ4oRRq0W9-hkng"' };
    expect(await refusal({ method: "PATCH", headers, body: withTags({ a: "2" }) })).toEqual([
      412,
      1004,
      "If-Match does not match: the tags have changed since",
    ]);
    await house.api("DELETE", TAGS, JSON.parse(set()));
    const first = await send({ method: "PATCH", headers, body: withTags({ a: null, b: "2" }) });
    expect([first.status, first.body.result.tags]).toEqual([200, { b: "2" }]);
    await house.api("DELETE", TAGS, JSON.parse(set()));
  });

  test("in bulk: all of them, zones included", async () => {
    const resources = [
      { resource_type: "worker", resource_id: "a", tags: { x: "1" } },
      { resource_type: "zone", resource_id: "z", zone_id: "z", tags: { x: "2" } },
    ];
    const answer = await house.api("POST", `${TAGS}/bulk`, { resources });
    expect(answer.body.result.map(({ id, tags }: { id: string; tags: object }) => [id, tags])).toEqual([
      ["a", { x: "1" }],
      ["z", { x: "2" }],
    ]);
    expect((await house.api("GET", "/api/zones/z/tags?resource_type=zone&resource_id=z")).body.result.zone_id).toBe(
      "z",
    );
    for (const { resource_id } of resources)
      house.parts.tags.forget(resource_id === "a" ? "worker" : "zone", resource_id);
  });

  test("is read with any JSON content type, in any case", async () => {
    for (const type of ["APPLICATION/JSON", "application/json; charset=utf-8", "application/vnd.api+json"]) {
      expect((await send({ method: "PUT", headers: { "content-type": type }, body: set() })).status).toBe(200);
    }
    house.parts.tags.forget("worker", "w");
  });
});

describe("the document", () => {
  type Operation = {
    parameters?: { in: string; name: string; required?: boolean; example?: string }[];
    requestBody?: { content: Record<string, { schema: { examples?: unknown[] }; example?: string }> };
    summary?: string;
    tags?: string[];
  };

  test("has an example for every operation that runs as it stands", async () => {
    const { paths } = (await house.api("GET", "/swagger/json")).body as {
      paths: Record<string, Record<string, Operation>>;
    };
    const operations = Object.entries(paths)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
      )
      .filter(({ tags }) => tags?.includes("Tags"));
    expect(operations.length).toBe(15);
    const order = ["put", "patch", "post", "get", "delete"];
    for (const { path, method, parameters = [], requestBody, summary } of operations.sort(
      (a, b) => order.indexOf(a.method) - order.indexOf(b.method),
    )) {
      expect(summary).toBeString();
      const query = parameters
        .filter((one) => one.in === "query" && one.example !== undefined)
        .flatMap(({ name, example }) => [example].flat().map((value) => `${name}=${encodeURIComponent(value ?? "")}`));
      const filled = path.replace(
        /\{(\w+)\}/g,
        (_, name) => parameters.find((one) => one.name === name)?.example ?? "",
      );
      const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
      const body = content?.example ?? (content && JSON.stringify(content.schema.examples?.[0]));
      const answer = await house.fetch(`${filled}?${query.join("&")}`, {
        method: method.toUpperCase(),
        headers: { authorization: `Bearer ${house.adminToken}`, ...(type && { "content-type": type }) },
        ...(body && { body }),
      });
      expect([method, path, answer.status]).toEqual([method, path, method === "delete" ? 204 : 200]);
    }
  });
});
