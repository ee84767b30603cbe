// The [tags] section of the settings, from each place a setting can come from.
import { expect, test } from "bun:test";
import { parseConfig } from "../../src/platform/config.ts";
import { createResourceTypes } from "../../src/tags/resource-types.ts";
import { startHouse } from "../support/house.ts";

const tagsOf = (env: Record<string, string>, text?: string) => {
  const result = parseConfig({ env, flags: {}, ...(text !== undefined && { file: { path: "gatehouse.toml", text } }) });
  return result.ok ? result.settings.tags : result.problems;
};

test.each([
  [{ GATEHOUSE_TAGS_MISSING_STATUS: "403" }, undefined, /^tags\.missing_status .* allowed is 500, 404$/],
  [{}, "[tags]\nmissing_status = '404'", /^tags\.missing_status .* allowed is 500, 404$/],
  [{ GATEHOUSE_TAGS_MAX_PER_ACCOUNT: "-1" }, undefined, /^tags\.max_per_account /],
  [{ GATEHOUSE_TAGS_RESOURCE_TYPES: "vm,My Device" }, undefined, /^tags\.resource_types /],
  [{}, "[tags]\nmissing = 404", /^gatehouse\.toml: "tags\.missing" is not a known setting$/],
])("%p and %p stop the start with a sentence", (env, text, sentence) => {
  expect(tagsOf(env, text)).toEqual([expect.stringMatching(sentence)]);
});

test("are these when nobody says anything, and are read from variables and from the file", () => {
  expect(tagsOf({})).toEqual({ missing_status: 500, max_per_account: 0, resource_types: [] });
  const variables = { GATEHOUSE_TAGS_MISSING_STATUS: "404", GATEHOUSE_TAGS_RESOURCE_TYPES: "vm, device" };
  expect(tagsOf(variables)).toEqual({ missing_status: 404, max_per_account: 0, resource_types: ["vm", "device"] });
  expect(tagsOf({}, "[tags]\nmissing_status = 404\nmax_per_account = 10000\nresource_types = ['vm']")).toEqual({
    missing_status: 404,
    max_per_account: 10_000,
    resource_types: ["vm"],
  });
});

test("a type of the operator's joins the built-in ones, and cannot change one of them", () => {
  const types = createResourceTypes(["vm", "zone"]);
  expect([types.get("vm"), types.get("zone"), types.get("worker_version")]).toEqual([
    { level: "account" },
    { level: "zone" },
    { level: "account", parent: "worker_id" },
  ]);
  expect(createResourceTypes().size).toBe(41 + 3);
});

test("a name comes from what the account itself holds, and a type of one's own may be called anything", async () => {
  await using house = await startHouse({
    settings: { tags: { missing_status: 500, max_per_account: 0, resource_types: ["constructor"] } },
  });
  house.parts.tokens.createAccount("lab", "The lab");
  const nameOf = async (account: string, resource_type: string, resource_id: string) => {
    const body = { resource_type, resource_id, tags: {} };
    return (await house.api("PUT", `/api/accounts/${account}/tags`, body)).body.result?.name;
  };
  expect(await nameOf("lab", "account", "lab")).toBe("The lab");
  expect(await nameOf("home", "account", "lab")).toBe("lab");
  expect(await nameOf("home", "constructor", "x")).toBe("x");
});
