// A log record as the proxy would make it, for tests that say only what differs.
import type { LogRecord } from "../../../src/gateway/logs/protocol.ts";

export function recordOf(change: Partial<LogRecord> = {}): LogRecord {
  return {
    id: Bun.randomUUIDv7(),
    gateway: "home/default",
    provider: "openai",
    price: "openai",
    base: "https://api.openai.com",
    method: "POST",
    path: "chat/completions",
    status: 200,
    outcome: "answered",
    durationMs: 12.5,
    firstByteMs: 10,
    tokenId: "t1",
    tokenName: "laptop",
    authentication: true,
    requestType: "application/json",
    requestEncoding: undefined,
    requestBytes: 0,
    responseType: "application/json",
    responseEncoding: undefined,
    responseBytes: 0,
    userAgent: "test",
    eventId: undefined,
    metadata: undefined,
    customCost: undefined,
    payload: true,
    keys: [],
    ...change,
  };
}

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export const CHAT_REQUEST =
  '{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hello there, how are you?"}]}';
export const CHAT_ANSWER =
  '{"id":"c","model":"gpt-4o-mini-2024-07-18","choices":[{"message":{"content":"Fine."}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}';
