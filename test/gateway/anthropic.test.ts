// The unmodified Anthropic client through the gateway: messages, streams, abort, errors.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import {
  closeAll,
  type FakeProvider,
  failureOf,
  type GatewayHouse,
  startGatewayHouse,
  startProvider,
  streamOf,
  until,
} from "./support/provider.ts";

const USAGE = { input_tokens: 25, cache_read_input_tokens: 100, cache_creation_input_tokens: 0, output_tokens: 15 };
const MESSAGE = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-6",
  content: [{ type: "text", text: "Hello!" }],
  stop_reason: "end_turn",
  usage: USAGE,
};
const event = (type: string, fields: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

let provider: FakeProvider;
let house: GatewayHouse;
let aborted = 0;
beforeAll(async () => {
  provider = startProvider((request, { body }) => {
    const asked = JSON.parse(new TextDecoder().decode(body));
    if (asked.model === "overloaded") {
      return Response.json(
        { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
        { status: 529 },
      );
    }
    if (!asked.stream) return Response.json(MESSAGE, { headers: { "request-id": "req_1" } });
    request.signal.addEventListener("abort", () => aborted++);
    return streamOf(async function* () {
      yield event("message_start", { message: { ...MESSAGE, content: [], usage: { ...USAGE, output_tokens: 1 } } });
      yield event("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
      yield event("ping", {});
      yield event("content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hello!" } });
      if (asked.model === "endless") await new Promise(() => {});
      yield event("content_block_stop", { index: 0 });
      yield event("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 15 } });
      yield event("message_stop", {});
    }, "text/event-stream; charset=utf-8");
  });
  house = await startGatewayHouse(provider.url);
});
afterAll(() => closeAll(house, provider));

const ask = { model: "claude-sonnet-4-6", max_tokens: 100, messages: [{ role: "user" as const, content: "Hello" }] };

describe.each([
  [
    "authentication on, token as a default header",
    true,
    () =>
      new Anthropic({
        apiKey: "sk-ant",
        baseURL: `${house.base}/anthropic`,
        defaultHeaders: { "gw-aig-authorization": `Bearer ${house.runToken}` },
      }),
    { authorization: "Bearer sk-ant", "x-api-key": null },
  ],
  [
    "authentication on, token as the key beside the provider's own header",
    true,
    () =>
      new Anthropic({
        apiKey: house.runToken,
        baseURL: `${house.base}/anthropic`,
        defaultHeaders: { "x-api-key": "sk-ant" },
      }),
    { authorization: null, "x-api-key": "sk-ant" },
  ],
  [
    "authentication on, token as the auth token",
    true,
    () => new Anthropic({ authToken: house.runToken, baseURL: `${house.base}/anthropic` }),
    { authorization: null, "x-api-key": null },
  ],
  [
    "authentication off",
    false,
    () => new Anthropic({ apiKey: "sk-ant", baseURL: `${house.base}/anthropic` }),
    { authorization: "Bearer sk-ant", "x-api-key": null },
  ],
] as const)("%s", (_, authentication, make, keys) => {
  beforeAll(() => house.setGateway({ authentication }));

  test("a message: cached tokens counted in, priced apart", async () => {
    const answer = await make().messages.create(ask);
    expect(answer.content).toMatchObject([{ type: "text", text: "Hello!" }]);
    expect(answer._request_id).toBe("req_1");
    expect(provider.seen.at(-1)).toMatchObject({ path: "/v1/messages" });
    for (const [name, value] of Object.entries(keys)) {
      expect([name, provider.seen.at(-1)?.headers.get(name) ?? null]).toEqual([name, value]);
    }
    const row = await house.newest();
    expect(row).toMatchObject({
      provider: "anthropic",
      model: "claude-sonnet-4-6",
      tokens_in: 125,
      tokens_cached: 100,
      tokens_out: 15,
    });
    expect(row.cost).toBeCloseTo((25 * 3 + 100 * 0.3 + 15 * 15) / 1e6, 12);
  });

  test("a stream: the prompt counted at its start, the answer at its end", async () => {
    const stream = make().messages.stream(ask);
    const message = await stream.finalMessage();
    expect(message.content).toMatchObject([{ type: "text", text: "Hello!" }]);
    await until(async () => (await house.newest()).response_content_type === "text/event-stream; charset=utf-8");
    expect(await house.newest()).toMatchObject({
      tokens_in: 125,
      tokens_out: 15,
      tokens_cached: 100,
      estimated: false,
      success: true,
    });
  });

  test("abort in mid-stream reaches the provider, and what was said is estimated", async () => {
    const before = aborted;
    const stream = make().messages.stream({ ...ask, model: "endless" });
    stream.on("text", () => stream.abort());
    expect(await failureOf(stream.finalMessage())).toBeInstanceOf(Anthropic.APIUserAbortError);
    await until(() => aborted === before + 1);
    await until(async () => (await house.newest()).outcome === "client_left");
    expect(await house.newest()).toMatchObject({ tokens_in: 125, estimated: true, success: false });
  });

  test("an overloaded provider keeps its status and error class", async () => {
    const refused = await failureOf(make().messages.create({ ...ask, model: "overloaded" }, { maxRetries: 0 }));
    expect(refused).toBeInstanceOf(Anthropic.InternalServerError);
    expect(refused).toMatchObject({ status: 529 });
  });
});

test("a missing gateway token is an AuthenticationError and never reaches the provider", async () => {
  await house.setGateway({ authentication: true });
  const before = provider.seen.length;
  const client = new Anthropic({ apiKey: "sk-ant", baseURL: `${house.base}/anthropic` });
  expect(await failureOf(client.messages.create(ask))).toBeInstanceOf(Anthropic.AuthenticationError);
  expect(provider.seen.length).toBe(before);
});
