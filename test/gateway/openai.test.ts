// The unmodified OpenAI client with only its base address changed: what people will really do.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import {
  CHAT,
  closeAll,
  type FakeProvider,
  failureOf,
  type GatewayHouse,
  startGatewayHouse,
  startProvider,
  streamOf,
  until,
} from "./support/provider.ts";

let provider: FakeProvider;
let house: GatewayHouse;
let aborted = 0;
beforeAll(async () => {
  provider = startProvider((request, { path, body }) => {
    const asked = body.byteLength > 0 && path.endsWith("completions") ? JSON.parse(new TextDecoder().decode(body)) : {};
    if (path.endsWith("/embeddings")) {
      const data = [{ object: "embedding", index: 0, embedding: [0.5, -0.25] }];
      return Response.json({
        object: "list",
        data,
        model: "text-embedding-3-small",
        usage: { prompt_tokens: 8, total_tokens: 8 },
      });
    }
    if (path.endsWith("/models"))
      return Response.json({ object: "list", data: [{ id: "gpt-4o-mini", object: "model" }] });
    if (path.endsWith("/files")) return Response.json({ id: "file-1", object: "file", bytes: body.byteLength });
    if (path.endsWith("/audio/speech"))
      return new Response(new Uint8Array([0, 255, 1, 254]), { headers: { "content-type": "audio/mpeg" } });
    if (path.endsWith("/responses")) {
      const usage = {
        input_tokens: 7,
        input_tokens_details: { cached_tokens: 3 },
        output_tokens: 9,
        output_tokens_details: { reasoning_tokens: 4 },
      };
      return Response.json({ id: "r", object: "response", model: "gpt-4.1", output: [], usage });
    }
    if (asked.model === "no-key")
      return Response.json({ error: { message: "Incorrect API key", code: "invalid_api_key" } }, { status: 401 });
    if (asked.model === "busy")
      return Response.json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after-ms": "1" } });
    if (!asked.stream) return Response.json(CHAT);
    request.signal.addEventListener("abort", () => aborted++);
    const chunk = (content: string) =>
      `data: ${JSON.stringify({ model: "gpt-4o-mini", choices: [{ index: 0, delta: { content } }] })}\n\n`;
    const last = { model: "gpt-4o-mini", choices: [], usage: { prompt_tokens: 19, completion_tokens: 2 } };
    return streamOf(async function* () {
      yield chunk("Hel");
      yield chunk("lo");
      if (asked.model === "endless") await new Promise(() => {});
      if (asked.stream_options?.include_usage) yield `data: ${JSON.stringify(last)}\n\n`;
      yield "data: [DONE]\n\n";
    });
  });
  house = await startGatewayHouse(provider.url);
});
afterAll(() => closeAll(house, provider));

const messages = [{ role: "user" as const, content: "Say hello" }];

describe.each([
  [
    "authentication on, token as a default header",
    true,
    () =>
      new OpenAI({
        apiKey: "sk-p",
        baseURL: `${house.base}/openai`,
        defaultHeaders: { "gw-aig-authorization": `Bearer ${house.runToken}` },
      }),
  ],
  [
    "authentication on, token as the API key",
    true,
    () => new OpenAI({ apiKey: house.runToken, baseURL: `${house.base}/openai/v1` }),
  ],
  ["authentication off", false, () => new OpenAI({ apiKey: "sk-p", baseURL: `${house.base}/openai` })],
] as const)("%s", (_, authentication, make) => {
  beforeAll(() => house.setGateway({ authentication }));

  test("chat, logged with counts and cost", async () => {
    const answer = await make().chat.completions.create({ model: "gpt-4o-mini", messages });
    expect(answer.choices[0]?.message.content).toBe("Hello!");
    expect(provider.seen.at(-1)?.path).toBe("/v1/chat/completions");
    const row = await house.newest();
    expect(row).toMatchObject({
      provider: "openai",
      model: "gpt-4o-mini",
      model_type: "chat",
      tokens_in: 19,
      tokens_out: 10,
      success: true,
      authentication,
    });
    expect(row.cost).toBeCloseTo((19 * 0.15 + 10 * 0.6) / 1e6, 12);
  });

  test("streamed chat", async () => {
    const stream = await make().chat.completions.create({
      model: "gpt-4o-mini",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("Hello");
    expect(await house.newest()).toMatchObject({ tokens_in: 19, tokens_out: 2, estimated: false });
  });

  test("abort in mid-stream reaches the provider", async () => {
    const before = aborted;
    const stream = await make().chat.completions.create({ model: "endless", messages, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content === "lo") break;
    await until(() => aborted === before + 1);
  });

  test("embeddings", async () => {
    const answer = await make().embeddings.create({
      model: "text-embedding-3-small",
      input: "x",
      encoding_format: "float",
    });
    expect(answer.data[0]?.embedding).toEqual([0.5, -0.25]);
    expect(await house.newest()).toMatchObject({ model_type: "embeddings", tokens_in: 8, tokens_out: null });
  });

  test("models, responses, an upload and a binary answer", async () => {
    const client = make();
    expect((await client.models.list()).data[0]?.id).toBe("gpt-4o-mini");
    expect((await client.responses.create({ model: "gpt-4.1", input: "x" })).id).toBe("r");
    expect(await house.newest()).toMatchObject({ tokens_in: 7, tokens_out: 9, tokens_cached: 3, tokens_reasoning: 4 });
    const file = new File([new Uint8Array(1000).fill(7)], "data.jsonl");
    await client.files.create({ file, purpose: "batch" });
    expect(provider.seen.at(-1)?.headers.get("content-type")).toStartWith("multipart/form-data; boundary=");
    const speech = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: "x" });
    expect([...new Uint8Array(await speech.arrayBuffer())]).toEqual([0, 255, 1, 254]);
  });

  test("a provider's own errors keep their class", async () => {
    const wrong = await failureOf(make().chat.completions.create({ model: "no-key", messages }));
    expect(wrong).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(wrong).toMatchObject({ code: "invalid_api_key", status: 401 });
    const before = provider.seen.length;
    expect(await failureOf(make().chat.completions.create({ model: "busy", messages }))).toBeInstanceOf(
      OpenAI.RateLimitError,
    );
    expect(provider.seen.length).toBe(before + 3); // the library's own two retries came through
  });
});

describe("what the gateway itself refuses", () => {
  beforeAll(() => house.setGateway({ authentication: true }));

  test("a missing token is an AuthenticationError, not retried", async () => {
    const before = provider.seen.length;
    const client = new OpenAI({ apiKey: "sk-p", baseURL: `${house.base}/openai` });
    const refused = await failureOf(client.chat.completions.create({ model: "gpt-4o-mini", messages }));
    expect(refused).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(refused).toMatchObject({ message: '401 [{"code":2009,"message":"Unauthorized"}]' });
    expect(provider.seen.length).toBe(before);
  });

  test("an unreachable provider is a 5xx, which the library retries", async () => {
    await using gone = await startGatewayHouse("http://127.0.0.1:1");
    const client = new OpenAI({ apiKey: gone.runToken, baseURL: `${gone.base}/openai`, maxRetries: 1 });
    expect(await failureOf(client.models.list())).toBeInstanceOf(OpenAI.InternalServerError);
    expect((await gone.logs()).length).toBe(2);
  });
});
