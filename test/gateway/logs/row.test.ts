// From a request's facts and bounded captures to a row: what is read, what is estimated, what stays unknown.
import { describe, expect, test } from "bun:test";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Captured, LogRecord } from "../../../src/gateway/logs/protocol.ts";
import { toRow } from "../../../src/gateway/logs/row.ts";
import { createPricing } from "../../../src/gateway/pricing.ts";
import { bytes, CHAT_ANSWER, CHAT_REQUEST, recordOf } from "../support/records.ts";

const pricing = createPricing({});
const row = async (change: Partial<LogRecord>, captured: Captured) => {
  await pricing.load();
  return toRow(
    recordOf({
      requestBytes: captured.request?.byteLength ?? 0,
      responseBytes: captured.head?.byteLength ?? 0,
      ...change,
    }),
    captured,
    pricing,
  );
};
const chat = { request: bytes(CHAT_REQUEST), head: bytes(CHAT_ANSWER) };
const EVENTS = 'data: {"model":"gpt-4o-mini","choices":[{"delta":{"content":"Fine, thank you very much"}}]}\n\n';
const streamed = { responseType: "text/event-stream" };

test("reads model, counts and cost of a whole answer", async () => {
  const it = await row({}, chat);
  expect(it).toMatchObject({
    model: "gpt-4o-mini",
    modelType: "chat",
    success: true,
    estimated: false,
    customCost: false,
  });
  expect(it.usage).toEqual({ tokensIn: 1000, tokensOut: 100 });
  expect(it.cost).toBeCloseTo(0.00021, 9);
  expect(it.createdMs).toBeCloseTo(Date.now(), -4);
});

describe("estimates", () => {
  test("a stream without counts, and says so", async () => {
    const it = await row(streamed, { request: chat.request, head: bytes(`${EVENTS}data: [DONE]\n\n`) });
    expect(it.estimated).toBe(true);
    expect(it.usage.tokensIn).toBeGreaterThan(3);
    expect(it.usage.tokensOut).toBeGreaterThan(2);
    expect(it.cost).toBeGreaterThan(0);
  });

  test("the prompt of a client that left before any output", async () => {
    const it = await row({ status: 499, responseType: undefined, outcome: "client_left" }, { request: chat.request });
    expect(it).toMatchObject({ estimated: true, success: false });
    expect(it.usage.tokensIn).toBeGreaterThan(3);
  });

  test("the output of a cut stream, never below what was counted", async () => {
    const start =
      'data: {"type":"message_start","message":{"model":"claude-sonnet-4-5","usage":{"input_tokens":25,"output_tokens":1}}}\n\n';
    const text =
      'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"A fairly long answer, it was."}}\n\n';
    const it = await row(
      { ...streamed, outcome: "stream_cut", path: "v1/messages" },
      { request: chat.request, head: bytes(start + text) },
    );
    expect(it.estimated).toBe(true);
    expect(it.usage.tokensIn).toBe(25);
    expect(it.usage.tokensOut).toBeGreaterThan(5);
    const counted = await row(
      { ...streamed, outcome: "stream_cut", path: "v1/messages" },
      { request: chat.request, head: bytes(start.replace('"output_tokens":1', '"output_tokens":500') + text) },
    );
    expect(counted.usage.tokensOut).toBe(500);
  });

  test("no output of embeddings, whatever their answer says", async () => {
    const it = await row({ path: "embeddings" }, { request: chat.request, head: bytes('{"text":"Hello there"}') });
    expect([it.estimated, it.usage.tokensOut]).toEqual([true, undefined]);
  });

  test("not the letters of an image, nor what lies deeper than anybody nests", async () => {
    const promptOf = async (content: unknown) => {
      const request = bytes(JSON.stringify({ messages: [{ role: "user", content }] }));
      return (await row({}, { request, head: bytes("{}") })).usage.tokensIn;
    };
    const words = await promptOf([{ text: "Look" }]);
    expect(words).toBeGreaterThan(0);
    expect(await promptOf([{ text: "Look" }, { text: `data:image/png;base64,${"A".repeat(4_000)}` }])).toBe(words);
    const nested = (depth: number): unknown => (depth === 0 ? { text: "Look" } : [nested(depth - 1)]);
    expect([await promptOf(nested(8)), await promptOf(nested(9))]).toEqual([words, undefined]);
  });

  test("a body of which only a part was kept, in proportion", async () => {
    const part = await row(streamed, { request: chat.request, head: bytes(EVENTS) });
    const head = bytes(EVENTS);
    const all = await row({ ...streamed, responseBytes: head.byteLength * 10 }, { request: chat.request, head });
    expect(all.usage.tokensOut).toBe((part.usage.tokensOut ?? 0) * 10);
  });

  test("nothing for a list of models, an error, or an upload", async () => {
    const list = await row(
      { method: "GET", path: "models", requestType: undefined },
      { head: bytes('{"data":[{"id":"text"}]}') },
    );
    const error = await row({ status: 400 }, { request: chat.request, head: bytes('{"error":{"message":"no"}}') });
    const upload = await row(
      { requestType: "multipart/form-data; boundary=x" },
      { request: bytes("--x"), head: bytes("{}") },
    );
    const left = await row(
      { status: 429, outcome: "client_left" },
      { request: chat.request, head: bytes('{"error":{"mess') },
    );
    for (const it of [list, error, upload, left]) expect([it.usage, it.estimated, it.cost]).toEqual([{}, false, null]);
  });
});

test.each([
  ["v1/messages/count_tokens", '{"input_tokens":14}'],
  ["v1beta/models/gemini-2.5-flash:countTokens", '{"totalTokens":31}'],
  ["responses/input_tokens", '{"object":"response.input_tokens","input_tokens":11}'],
  ["v1/tokenize", '{"tokens":[1,2],"text":"Hello"}'],
  ["moderations", '{"id":"m","results":[]}'],
])("a question about a prompt costs nothing: %s", async (path, answer) => {
  const it = await row({ path }, { request: bytes(CHAT_REQUEST), head: bytes(answer) });
  expect([it.usage, it.estimated, it.cost]).toEqual([{}, false, null]);
});

describe("compressed answers are read", () => {
  test.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
  ] as const)("%s", async (responseEncoding, compress) => {
    const it = await row({ responseEncoding }, { request: chat.request, head: compress(bytes(CHAT_ANSWER)) });
    expect(it.usage).toEqual({ tokensIn: 1000, tokensOut: 100 });
  });

  test("gzip whose end is missing, as far as it goes", async () => {
    const whole = gzipSync(bytes(EVENTS.repeat(50)));
    const it = await row(
      { ...streamed, responseEncoding: "gzip" },
      { request: chat.request, head: whole.subarray(0, whole.length - 12) },
    );
    expect(it.usage.tokensOut).toBeGreaterThan(5);
  });

  test("a bomb, an unknown encoding and garbage are left alone", async () => {
    const bomb = gzipSync(new Uint8Array(32 * 1024 * 1024));
    for (const [responseEncoding, head] of [
      ["gzip", bomb],
      ["aes128gcm", bytes("x")],
      ["gzip", bytes("no gzip")],
    ] as const) {
      expect((await row({ responseEncoding, requestType: "text/plain" }, { head })).usage).toEqual({});
    }
  });

  test("so is a compressed request, for its model", async () => {
    const it = await row(
      { requestEncoding: "zstd" },
      { request: zstdCompressSync(bytes(CHAT_REQUEST)), head: chat.head },
    );
    expect(it.model).toBe("gpt-4o-mini");
  });
});

test.each([
  ["v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash"],
  ["bedrock-runtime/eu-west-1/model/anthropic.claude-3%3A0/invoke", "anthropic.claude-3:0"],
])("takes the model out of the path %s", async (path, model) => expect((await row({ path }, {})).model).toBe(model));

test("takes the model out of a form", async () => {
  const form = '--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--x--';
  expect(
    (
      await row(
        { path: "audio/transcriptions", requestType: "multipart/form-data; boundary=x" },
        { request: bytes(form) },
      )
    ).model,
  ).toBe("whisper-1");
});

test("a model by a name the table does not know costs what it was asked for as", async () => {
  const head = bytes(CHAT_ANSWER.replace("gpt-4o-mini-2024-07-18", "served-by-somebody"));
  expect((await row({}, { request: chat.request, head })).cost).toBeCloseTo(0.00021, 9);
});

test("a quoted model inside a message is not the model", async () => {
  const body = JSON.stringify({ messages: [{ content: '{"model":"evil"}' }], model: "good" });
  expect((await row({}, { request: bytes(body) })).model).toBe("good");
});

describe("metadata", () => {
  const metadata = async (text: string) => (await row({ metadata: text }, {})).metadata;
  test.each([
    "",
    "no json",
    "[]",
    "null",
    "{}",
    '{"a":null}',
    '{"a":{}}',
    '{"a":"x","b":[1]}',
    `{"a":"${"x".repeat(1_025)}"}`,
  ])("discards %p", async (text) => expect(await metadata(text)).toBeUndefined());

  test("is read as UTF-8 where it is, since headers come byte by byte", async () => {
    const sent = Buffer.from('{"user":"Zoë 日本"}').toString("latin1");
    expect(await metadata(sent)).toBe('{"user":"Zoë 日本"}');
    expect(await metadata('{"user":"Zo\xeb"}')).toBe('{"user":"Zoë"}');
  });

  test("keeps the first five", async () =>
    expect(await metadata('{"a":1,"b":"2","c":true,"d":4,"e":5,"f":6}')).toBe('{"a":1,"b":"2","c":true,"d":4,"e":5}'));
});

test("a caller's own cost wins and is marked; a broken one is ignored", async () => {
  const own = await row({ customCost: '{"per_token_in":0.001,"per_token_out":0.01}' }, chat);
  expect([own.cost, own.customCost]).toEqual([2, true]);
  for (const rate of ["-1", "1e308", '"1"', "null"]) {
    const broken = await row({ customCost: `{"per_token_in":${rate}}` }, chat);
    expect(broken.customCost).toBe(false);
    expect(broken.cost).toBeCloseTo(0.00021, 9);
  }
});
