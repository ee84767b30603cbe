// Two validators that know nothing of us read the document.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import SwaggerParser from "@apidevtools/swagger-parser";
import { Validator } from "@seriousme/openapi-schema-validator";
import { createApp } from "../../src/app.ts";
import { type House, startHouse } from "../support/house.ts";

let house: House;
// biome-ignore lint/suspicious/noExplicitAny: the validators below are what checks its shape
let document: any;
beforeAll(async () => {
  house = await startHouse();
  document = (await house.api("GET", "/swagger/json")).body;
});
afterAll(() => house[Symbol.asyncDispose]());

test("the document is valid 3.1", async () => {
  expect(document.openapi).toBe("3.1.0");
  expect(await new Validator().validate(structuredClone(document))).toMatchObject({ valid: true });
  await SwaggerParser.validate(structuredClone(document));
});

test("a server that was asked for it still opens WebSockets", async () => {
  const socket = new WebSocket(`${house.url.replace("http", "ws")}/agents/webhook-agent/a?token=${house.adminToken}`);
  const first = await new Promise((resolve, reject) => {
    socket.onmessage = ({ data }) => resolve(JSON.parse(String(data)).type);
    socket.onclose = reject;
  });
  socket.close();
  expect(first).toBe("cf_agent_identity");
});

test("it lists every route, wildcards included", () => {
  const listed = new Set(
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item ?? {}).map((method) => `${method} ${path}`),
    ),
  );
  for (const { method, path, hooks } of createApp(house.parts).routes) {
    if (hooks?.detail?.hide) continue;
    const written = path
      .replace(/\*$/, "{path}")
      .replace(/:(\w+)\??/g, "{$1}")
      .replace(/(.)\/$/, "$1");
    for (const one of method === "ALL" ? ["get", "post", "put", "patch", "delete"] : [method.toLowerCase()]) {
      expect(listed).toContain(`${one} ${written}`);
    }
  }
});

describe("every operation", () => {
  test("has a summary, a group and an id of its own", () => {
    const operations = Object.values(document.paths).flatMap((item) => Object.values(item ?? {}));
    for (const operation of operations) {
      expect(operation.summary ?? "").not.toBe("");
      expect(operation.tags?.length ?? 0).toBeGreaterThan(0);
    }
    expect(new Set(operations.map((operation) => operation.operationId)).size).toBe(operations.length);
  });

  test("that needs a token says so, with its failures", () => {
    const { post } = document.paths["/api/tokens"];
    expect(post.security).toEqual([{ token: [] }]);
    expect(Object.keys(post.responses)).toEqual(expect.arrayContaining(["200", "400", "401", "413", "415"]));
    expect(post.requestBody.content["application/json"].schema.properties.permissions.items.enum).toContain(
      "tags:edit",
    );
    expect(Object.keys(post.requestBody.content)).toEqual(["application/json"]);
  });
});
