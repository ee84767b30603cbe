// Bodies are the providers' own documented examples, shortened; each is read whole and as its stream.
import { describe, expect, test } from "bun:test";
import { readAnswer } from "../../src/gateway/usage.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const read = (text: string) => readAnswer({ head: bytes(text) });
const sse = (...events: unknown[]) =>
  events.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`).join("");

describe("knows nothing", () => {
  test.each([
    "",
    "<html>",
    "null",
    "[]",
    '{"usage":null}',
    '{"usage":{}}',
    '{"usage":{"prompt_tokens":"9"}}',
    sse("[DONE]"),
  ])("from %p", (text) => expect(read(text)).toMatchObject({ usage: {}, final: false }));

  test.each(["-1", "1e999", "1e300", "12.5"])("from a count of %s", (count) =>
    expect(read(`{"usage":{"prompt_tokens":${count},"completion_tokens":${count}}}`).usage).toEqual({}),
  );

  test("from a price that is none", () =>
    expect(read('{"usage":{"prompt_tokens":1,"cost":1e300}}').usage).toEqual({ tokensIn: 1 }));

  test("of a model whose name is a text of its own", () =>
    expect([200, 201].map((chars) => read(`{"model":"${"m".repeat(chars)}"}`).model?.length)).toEqual([
      200,
      undefined,
    ]));
});

describe("OpenAI chat", () => {
  const usage = {
    prompt_tokens: 19,
    completion_tokens: 10,
    prompt_tokens_details: { cached_tokens: 8 },
    completion_tokens_details: { reasoning_tokens: 3 },
  };
  const expected = { tokensIn: 19, tokensOut: 10, cachedIn: 8, reasoningOut: 3 };

  test("whole", () =>
    expect(read(JSON.stringify({ model: "gpt-4o-mini-2024-07-18", choices: [], usage }))).toEqual({
      usage: expected,
      model: "gpt-4o-mini-2024-07-18",
      final: true,
    }));

  test("streamed, with the extra last chunk", () => {
    const chunk = { model: "gpt-4o-mini", choices: [{ delta: { content: "hé" } }], usage: null };
    expect(read(sse(chunk, chunk, { model: "gpt-4o-mini", choices: [], usage }, "[DONE]"))).toEqual({
      usage: expected,
      model: "gpt-4o-mini",
      final: true,
    });
  });

  test("streamed without usage: the model is known, the counts are not", () =>
    expect(read(sse({ model: "m", choices: [{ delta: { content: "x" } }] }, "[DONE]"))).toEqual({
      usage: {},
      model: "m",
      final: false,
    }));

  test("an explicit zero is a count", () =>
    expect(read('{"usage":{"prompt_tokens":4,"completion_tokens":0}}').usage).toEqual({ tokensIn: 4, tokensOut: 0 }));

  test("embeddings have a prompt alone", () =>
    expect(read('{"object":"list","data":[],"model":"e","usage":{"prompt_tokens":5,"total_tokens":5}}').usage).toEqual({
      tokensIn: 5,
    }));

  test("a seller's own price is kept", () =>
    expect(read('{"usage":{"prompt_tokens":4,"completion_tokens":1,"cost":0.0015}}').usage.cost).toBe(0.0015));

  test("and so is the sum of one that is told in parts", () =>
    expect(read('{"usage":{"input_tokens":4,"output_tokens":1,"cost":{"total_cost":0.006}}}').usage.cost).toBe(0.006));

  test("reasoning that is counted beside the answer, as xAI does, is generated all the same", () =>
    expect(
      read(
        '{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}',
      ).usage,
    ).toEqual({ tokensIn: 32, tokensOut: 103, reasoningOut: 94 }));

  test("Groq's stream puts it under x_groq", () =>
    expect(read(sse({ model: "m" }, { x_groq: { usage: { prompt_tokens: 1, completion_tokens: 2 } } })).usage).toEqual({
      tokensIn: 1,
      tokensOut: 2,
    }));
});

describe("OpenAI responses", () => {
  const response = {
    model: "gpt-4.1",
    usage: {
      input_tokens: 36,
      input_tokens_details: { cached_tokens: 30 },
      output_tokens: 87,
      output_tokens_details: { reasoning_tokens: 64 },
    },
  };
  const expected = {
    usage: { tokensIn: 36, cachedIn: 30, tokensOut: 87, reasoningOut: 64 },
    model: "gpt-4.1",
    final: true,
  };

  test("whole: cached tokens are part of the prompt", () => expect(read(JSON.stringify(response))).toEqual(expected));

  test("streamed", () =>
    expect(
      read(
        `event: response.created\ndata: {"type":"response.created","response":{"model":"gpt-4.1","usage":null}}\n\n` +
          `event: response.completed\ndata: ${JSON.stringify({ type: "response.completed", response })}\n\n`,
      ),
    ).toEqual(expected));
});

describe("Anthropic messages", () => {
  const start = {
    type: "message_start",
    message: {
      model: "claude-sonnet-4-5",
      usage: { input_tokens: 25, cache_read_input_tokens: 100, cache_creation_input_tokens: 7, output_tokens: 1 },
    },
  };
  const delta = { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 15 } };

  test("whole: cached tokens are added to the prompt", () =>
    expect(
      read(
        '{"type":"message","model":"c","usage":{"input_tokens":25,"cache_read_input_tokens":100,"output_tokens":15}}',
      ).usage,
    ).toEqual({ tokensIn: 125, cachedIn: 100, tokensOut: 15 }));

  test("streamed: the prompt from the first event, the answer from the last", () =>
    expect(read(sse(start, { type: "ping" }, delta, { type: "message_stop" }))).toEqual({
      usage: { tokensIn: 132, cachedIn: 100, cacheWriteIn: 7, tokensOut: 15 },
      model: "claude-sonnet-4-5",
      final: true,
    }));

  test("cut after the first event: the opening figure is not the last word", () => {
    const reading = read(sse(start, { type: "ping" }));
    expect(reading.final).toBe(false);
    expect(reading.usage.tokensIn).toBe(132);
  });
});

describe("Gemini", () => {
  const usageMetadata = {
    promptTokenCount: 8,
    cachedContentTokenCount: 4,
    candidatesTokenCount: 20,
    thoughtsTokenCount: 5,
    totalTokenCount: 33,
  };
  const expected = { tokensIn: 8, cachedIn: 4, tokensOut: 25, reasoningOut: 5 };
  const early = { usageMetadata: { promptTokenCount: 8, totalTokenCount: 8 }, modelVersion: "gemini-2.5-flash" };

  test("whole", () => {
    const { usage, model } = read(JSON.stringify({ usageMetadata, modelVersion: "gemini-2.5-flash" }));
    expect({ usage, model }).toEqual({ usage: expected, model: "gemini-2.5-flash" });
  });
  test("streamed as events, the last count wins", () =>
    expect(read(sse(early, { usageMetadata })).usage).toEqual(expected));
  test("streamed as one array", () => expect(read(JSON.stringify([early, { usageMetadata }])).usage).toEqual(expected));
  test("streamed as an array that was cut", () =>
    expect(read(`[${JSON.stringify(early)},\n${JSON.stringify({ usageMetadata })},\n{"cand`).usage).toEqual(expected));
});

describe("Cohere", () => {
  const usage = {
    billed_units: { input_tokens: 5, output_tokens: 418 },
    tokens: { input_tokens: 71, output_tokens: 418 },
  };
  const expected = { tokensIn: 5, tokensOut: 418 };
  test("v2 whole: what is billed", () => expect(read(JSON.stringify({ id: "c", usage })).usage).toEqual(expected));
  test("v2 streamed", () =>
    expect(read(sse({ type: "message-end", delta: { finish_reason: "COMPLETE", usage } })).usage).toEqual(expected));
  test("v1 whole", () => expect(read(JSON.stringify({ text: "x", meta: usage })).usage).toEqual(expected));
  test("v1 streamed as lines", () =>
    expect(
      read(
        `{"event_type":"stream-start"}\n${JSON.stringify({ event_type: "stream-end", response: { meta: usage } })}\n`,
      ).usage,
    ).toEqual(expected));
});

describe("Ollama's own interface", () => {
  const last = { model: "llama3.2", done: true, prompt_eval_count: 26, eval_count: 298 };
  const expected = { tokensIn: 26, tokensOut: 298 };
  test("whole", () => expect(read(JSON.stringify(last)).usage).toEqual(expected));
  test("streamed as lines", () => {
    const lines = [{ model: "llama3.2", message: { content: "x" }, done: false }, last];
    expect(read(lines.map((line) => `${JSON.stringify(line)}\n`).join(""))).toEqual({
      usage: expected,
      model: "llama3.2",
      final: true,
    });
  });
});

test("Bedrock Converse, streamed: its counts stand in a binary frame", () => {
  const frame = (json: string) => `\0\0\0\x90\0\0\0P:event-type\x07\0\x08metadata${json}\x01\x02\x03\x04`;
  const stream = frame('{"delta":{"text":"hi"}}') + frame('{"metrics":{},"usage":{"inputTokens":21,"outputTokens":9}}');
  expect(read(stream)).toMatchObject({ usage: { tokensIn: 21, tokensOut: 9 }, final: true });
});

test("Bedrock Converse and llama.cpp spell their counts their own way", () => {
  expect(read('{"usage":{"inputTokens":3,"outputTokens":4,"cacheReadInputTokens":10}}').usage).toEqual({
    tokensIn: 13,
    tokensOut: 4,
    cachedIn: 10,
  });
  expect(read('{"content":"x","tokens_evaluated":7,"tokens_predicted":2}').usage).toEqual({
    tokensIn: 7,
    tokensOut: 2,
  });
});

describe("a stream longer than what is kept", () => {
  const cut = (text: string, keep: number) => {
    const all = bytes(text);
    return readAnswer({ head: all.slice(0, keep), tail: all.slice(-keep) });
  };
  const filler = sse(...Array.from({ length: 200 }, () => ({ model: "m", choices: [{ delta: { content: "ё" } }] })));

  test("is read from its two ends, wherever the cut falls in a character", () => {
    const text =
      filler + sse({ model: "m", choices: [], usage: { prompt_tokens: 1, completion_tokens: 200 } }, "[DONE]");
    for (let keep = 300; keep < 320; keep++) {
      expect(cut(text, keep)).toEqual({ usage: { tokensIn: 1, tokensOut: 200 }, model: "m", final: true });
    }
  });

  test("gives its counts even when its last event alone is longer", () => {
    const output = "x".repeat(5_000);
    const usage = { input_tokens: 9, input_tokens_details: { cached_tokens: 0 }, output_tokens: 2_000 };
    const text = filler + sse({ type: "response.completed", response: { model: "m", output, usage, user: null } });
    expect(cut(text, 400).usage).toEqual({ tokensIn: 9, cachedIn: 0, tokensOut: 2_000 });
    const generate = { done: true, context: output, prompt_eval_count: 3, eval_count: 4 };
    expect(cut(`${filler}${JSON.stringify(generate)}\n`, 400).usage).toEqual({ tokensIn: 3, tokensOut: 4 });
  });
});

test("events are read with CRLF, comments, event names and no space after the colon", () =>
  expect(
    read(`: ping\n\r\nevent: x\r\ndata:{"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2}}\r\n\r\n`).usage,
  ).toEqual({ tokensIn: 1, tokensOut: 2 }));
