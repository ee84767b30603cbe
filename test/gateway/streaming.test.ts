// Streams over real sockets: not a byte more or less, no waiting for each other's end, and leaving means leaving.
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { Elysia } from "elysia";
import { gatewayRoutes } from "../../src/gateway/routes.ts";
import { createUpstream } from "../../src/gateway/upstream.ts";
import { edge } from "../../src/platform/edge.ts";
import {
  CHAT,
  closeAll,
  type GatewayHouse,
  type RawProvider,
  startOpenHouse,
  startProvider,
  startRawProvider,
  streamOf,
  until,
} from "./support/provider.ts";

/** What the raw provider does next; each test sets it. */
let serve: (socket: Socket, head: string) => void = () => {};
let provider: RawProvider;
let house: GatewayHouse;
beforeAll(async () => {
  provider = await startRawProvider((socket, head) => serve(socket, head));
  house = await startOpenHouse(provider.url, { upstream_idle_ms: 1_000 });
});
afterAll(() => closeAll(house, provider));

const EVENTS =
  "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const chunked = (bytes: string | Uint8Array): Buffer => {
  const body = Buffer.from(bytes);
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n")]);
};
const END = "0\r\n\r\n";
const OK = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
/** The provider answers with a stream that goes on after this; resolves with its socket. */
const goesOnAfter = (piece: string): Promise<Socket> => {
  const arrived = Promise.withResolvers<Socket>();
  serve = (socket) => {
    socket.write(EVENTS);
    socket.write(chunked(piece));
    arrived.resolve(socket);
  };
  return arrived.promise;
};
const port = () => Number(new URL(house.url).port);
const chat = (init: BunFetchRequestInit = {}) =>
  fetch(`${house.base}/openai/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"model":"gpt-4o-mini","stream":true,"messages":[{"role":"user","content":"Hello there"}]}',
    ...init,
  });
const lastLog = async (answer: Response) => {
  const id = answer.headers.get("gw-aig-log-id");
  let row: Record<string, unknown> | undefined;
  await until(async () => {
    row = (await house.logs()).find((one) => one.id === id);
    return row !== undefined;
  });
  return row ?? {};
};
const closed = (socket: Socket) =>
  new Promise<void>((done) => (socket.destroyed ? done() : socket.once("close", () => done())));

describe("leaving", () => {
  test("before the first byte ends the call to the provider, and is logged as such", async () => {
    const arrived = Promise.withResolvers<Socket>();
    serve = (socket) => arrived.resolve(socket);
    const controller = new AbortController();
    const answer = chat({ signal: controller.signal }).catch((error: unknown) => error);
    const socket = await arrived.promise;
    controller.abort();
    await closed(socket);
    expect(await answer).toBeInstanceOf(Error);
    await until(
      async () => (await house.logs("?filters.key=outcome&filters.operator=eq&filters.value=client_left")).length > 0,
    );
    const [row] = await house.logs();
    expect(row).toMatchObject({ status_code: 499, success: false, outcome: "client_left", estimated: true });
    expect(row?.tokens_in).toBeGreaterThan(0);
  });

  test("in mid-stream ends the call too", async () => {
    const arrived = goesOnAfter('data: {"choices":[{"delta":{"content":"first"}}]}\n\n');
    const controller = new AbortController();
    const answer = await chat({ signal: controller.signal });
    const reader = answer.body?.getReader();
    expect(new TextDecoder().decode((await reader?.read())?.value)).toContain("first");
    controller.abort();
    await closed(await arrived);
    expect(await lastLog(answer)).toMatchObject({
      status_code: 200,
      success: false,
      outcome: "client_left",
      estimated: true,
    });
  });

  test("by the socket alone, without a goodbye", async () => {
    const arrived = goesOnAfter("data: 1\n\n");
    const client = connect(port(), "127.0.0.1");
    client.write("GET /v1/home/default/openai/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await new Promise((read) => client.once("data", read));
    client.destroy();
    await closed(await arrived);
  });
});

test("a client that stalls and then leaves is in the log as one that left", async () => {
  const body = Buffer.alloc(64 * 1024 * 1024, 120);
  serve = (socket) => {
    socket.write(OK.replace("2\r\n\r\nok", `${body.length}\r\n\r\n`));
    socket.write(body);
  };
  const client = connect(port(), "127.0.0.1");
  client.pause();
  client.write("GET /v1/home/default/openai/stalls HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await until(() => house.parts.gateway.inFlight() > 0);
  await Bun.sleep(300); // until what the sockets hold is full: nobody reads from here on
  client.destroy();
  await until(() => house.parts.gateway.inFlight() === 0);
  const [row] = await house.logs("?search=stalls");
  expect(row).toMatchObject({ outcome: "client_left", success: false });
});

test("for a client that was gone before the call, none is made", async () => {
  const upstream = createUpstream({ idleMsMax: 1_000, now: () => performance.now() });
  serve = (socket) => void socket.end(OK);
  const call = { url: provider.url, method: "GET", headers: new Headers(), body: null, firstByteMsMax: undefined };
  const it = upstream.send({ ...call, signal: AbortSignal.abort() });
  await expect(it.response).rejects.toThrow();
  expect(it.cutBy).toBe("client_left");
  it.close();
  expect(upstream.count()).toBe(0);
  upstream.stop();
});

test("150 clients that leave, before and in mid-stream, leave nothing behind and disturb nobody", async () => {
  await using fake = startProvider(async (request) => {
    const kind = new URL(request.url).searchParams.get("kind");
    if (kind === "slow") await new Promise((gone) => request.signal.addEventListener("abort", gone));
    return streamOf(async function* () {
      yield "data: 1\n\n";
      if (kind === "endless") await new Promise((gone) => request.signal.addEventListener("abort", gone));
      await Bun.sleep(20);
      yield "data: 2\n\n";
    });
  });
  await using open = await startOpenHouse(fake.url);
  const leave = async (kind: string): Promise<void> => {
    const controller = new AbortController();
    const answer = fetch(`${open.base}/openai/x?kind=${kind}`, { signal: controller.signal });
    if (kind === "endless") await (await answer).body?.getReader().read();
    else await until(() => open.parts.gateway.inFlight() > 0);
    controller.abort();
    await answer.catch(() => {});
  };
  const stay = async (): Promise<string> => (await fetch(`${open.base}/openai/x?kind=whole`)).text();
  for (let round = 0; round < 15; round++) {
    const leaving = Array.from({ length: 10 }, (_, index) => leave(index % 2 === 0 ? "endless" : "slow"));
    const staying = Array.from({ length: 5 }, stay);
    await Promise.all(leaving);
    expect(await Promise.all(staying)).toEqual(Array.from({ length: 5 }, () => "data: 1\n\ndata: 2\n\n"));
  }
  await until(() => open.parts.gateway.inFlight() === 0);
}, 20_000);

test("a client that stalls makes the provider stall; nothing piles up in between", async () => {
  const TOTAL = 256 * 1024 * 1024;
  const piece = Buffer.alloc(256 * 1024, 120);
  let written = 0;
  let blocked = false;
  serve = (socket) => {
    socket.write(
      `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/octet-stream\r\ncontent-length: ${TOTAL}\r\n\r\n`,
    );
    const more = (): void => {
      blocked = false;
      while (written < TOTAL) {
        written += piece.length;
        if (!socket.write(piece)) {
          blocked = true;
          socket.once("drain", more);
          return;
        }
      }
    };
    more();
  };
  const client = connect(port(), "127.0.0.1");
  client.pause();
  client.write("GET /v1/home/default/openai/big HTTP/1.1\r\nHost: localhost\r\n\r\n");
  // Stalled: the provider is blocked and its count no longer moves.
  let before = -1;
  await until(async () => {
    const still = blocked && written === before && written > 0;
    before = written;
    if (!still) await Bun.sleep(200);
    return still;
  }, 20_000);
  expect(written).toBeLessThan(48 * 1024 * 1024);
  let received = 0;
  client.on("data", (chunk) => {
    received += chunk.length;
  });
  client.resume();
  await until(() => received >= TOTAL, 20_000);
  client.destroy();
});

test("every chunk goes on at once, comments and odd line ends included, a character split in two included", async () => {
  const text = ': ping\n\ndata: {"choices":[{"delta":{"content":"приве́т 🦊"}}]}\r\n\r\nevent: x\ndata:no space\n\n';
  const whole = Buffer.from(
    text +
      'data: {"model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\ndata: [DONE]\n\n',
  );
  const go: (() => void)[] = [];
  serve = (socket) => {
    socket.write(EVENTS);
    const cuts = [...Array.from(whole.keys()).filter((at) => at % 37 === 0), whole.length];
    cuts.slice(1).forEach((to, index) => {
      go.push(() => socket.write(chunked(whole.subarray(cuts[index] ?? 0, to))));
    });
    go.push(() => socket.write(END));
    go.shift()?.();
  };
  const answer = await chat();
  const got: Uint8Array[] = [];
  for await (const chunk of answer.body ?? []) {
    got.push(chunk);
    go.shift()?.(); // the next piece is sent only after the last one arrived: anything that gathers would hang here
    if (go.length === 1) go.shift()?.();
  }
  expect(Buffer.concat(got).equals(whole)).toBe(true);
  expect(answer.headers.get("x-accel-buffering")).toBe("no");
  expect(answer.headers.get("cache-control")).toBe("no-cache");
  expect(await lastLog(answer)).toMatchObject({ tokens_in: 5, tokens_out: 7, estimated: false, success: true });
});

describe("a provider that dies", () => {
  test("in mid-stream resets the client: no end is invented", async () => {
    serve = (socket) => {
      socket.write(EVENTS);
      socket.write(chunked('data: {"choices":[{"delta":{"content":"half"}}]}\n\n'));
      setTimeout(() => socket.destroy(), 20);
    };
    const answer = await chat();
    let text = "";
    const decoder = new TextDecoder();
    const read = async (): Promise<void> => {
      for await (const chunk of answer.body ?? []) text += decoder.decode(chunk);
    };
    await expect(read()).rejects.toThrow();
    expect(text).toContain("half");
    expect(text).not.toContain("[DONE]");
    expect(await lastLog(answer)).toMatchObject({ success: false, outcome: "stream_cut", estimated: true });
  });

  test("in mid-answer, while the answer is still held, is a 502 that libraries retry", async () => {
    serve = (socket) => {
      socket.write(
        'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"half":',
      );
      setTimeout(() => socket.destroy(), 20);
    };
    const answer = await chat();
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ error: [{ code: 2005 }] });
    expect(await lastLog(answer)).toMatchObject({ status_code: 502, outcome: "upstream_failed", success: false });
  });

  test("without an answer is a 502", async () => {
    serve = (socket) => void socket.destroy();
    expect((await chat()).status).toBe(502);
  });

  test("or says what is no HTTP is a 502", async () => {
    serve = (socket) => void socket.end("hello\r\n\r\n");
    expect((await chat()).status).toBe(502);
  });

  test("or answers with what is no status is a 502, and its stream is ended", async () => {
    const arrived = Promise.withResolvers<Socket>();
    serve = (socket) => {
      socket.write(EVENTS.replace("200 OK", "600 Odd"));
      socket.write(chunked("data: 1\n\n"));
      arrived.resolve(socket);
    };
    expect((await chat()).status).toBe(502);
    await closed(await arrived.promise);
  });

  test("or was never there is a 502, logged", async () => {
    await using gone = await startOpenHouse("http://127.0.0.1:1");
    const answer = await fetch(`${gone.base}/openai/models`);
    expect(answer.status).toBe(502);
    expect((await gone.logs())[0]).toMatchObject({ id: answer.headers.get("gw-aig-log-id"), status_code: 502 });
  });
});

test("a stop in mid-stream ends the call to the provider and keeps its row", async () => {
  const arrived = goesOnAfter("data: 1\n\n");
  const stopped = await startOpenHouse(provider.url, {}, { stop_ms: 50 });
  const answer = await fetch(`${stopped.base}/openai/x`);
  await stopped.stop();
  await closed(await arrived);
  await expect(answer.text()).rejects.toThrow();
  const db = new Database(join(stopped.folder, "data", "logs.db"), { readonly: true });
  expect(db.query("select id, outcome from logs").all()).toEqual([
    { id: answer.headers.get("gw-aig-log-id"), outcome: "client_left" },
  ]);
  db.close();
  rmSync(stopped.folder, { recursive: true });
});

describe("a provider that is silent", () => {
  test("before its answer is given up: 504", async () => {
    serve = () => {};
    const answer = await chat();
    expect(answer.status).toBe(504);
    expect(await answer.json()).toMatchObject({ error: [{ code: 2005 }], httpCode: 504 });
    expect(await lastLog(answer)).toMatchObject({ outcome: "upstream_silent", status_code: 504 });
  });

  test("in the middle of an answer that is held is given up: 504", async () => {
    serve = (socket) => void socket.write(OK.replace("2\r\n", "9\r\ncontent-type: application/json\r\n"));
    const answer = await chat();
    expect(answer.status).toBe(504);
    expect(await lastLog(answer)).toMatchObject({ outcome: "upstream_silent", status_code: 504 });
  });

  test("in mid-stream is cut, and the call to it ended", async () => {
    const arrived = goesOnAfter("data: 1\n\n");
    const answer = await chat();
    await expect(answer.text()).rejects.toThrow();
    await closed(await arrived);
    expect(await lastLog(answer)).toMatchObject({ outcome: "upstream_silent", success: false });
  });

  test("longer than the caller wants to wait: gw-aig-request-timeout, in either spelling", async () => {
    for (const name of ["gw-aig-request-timeout", "cf-aig-request-timeout"]) {
      const arrived = Promise.withResolvers<Socket>();
      serve = (socket) => arrived.resolve(socket);
      const answer = await chat({ headers: { [name]: "50" } });
      expect(answer.status).toBe(504);
      await closed(await arrived.promise);
      expect(await lastLog(answer)).toMatchObject({ outcome: "timeout" });
      // Ours is the time before the provider was asked; the wait for it is not.
      expect(Number(/^gateway;dur=(.*)$/.exec(answer.headers.get("server-timing") ?? "")?.[1])).toBeLessThan(50);
    }
  });

  test("for no longer than that: a limit that is met says nothing of the rest, and one that makes no sense is none", async () => {
    for (const limit of ["300", "0", "-1", "1.5", "soon"]) {
      serve = (socket) => {
        setTimeout(() => socket.write(Buffer.concat([Buffer.from(EVENTS), chunked("data: 1\n\n")])), 20);
        setTimeout(() => socket.end(Buffer.concat([chunked("data: 2\n\n"), Buffer.from(END)])), 400);
      };
      const answer = await chat({ headers: { "gw-aig-request-timeout": limit } });
      expect([answer.status, await answer.text()]).toEqual([200, "data: 1\n\ndata: 2\n\n"]);
    }
  });

  test("only towards us: a client that reads slowly is not silence", async () => {
    const body = Buffer.alloc(64 * 1024 * 1024, 120);
    serve = (socket) => {
      socket.write(
        `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/octet-stream\r\ncontent-length: ${body.length}\r\n\r\n`,
      );
      socket.write(body);
    };
    const answer = await fetch(`${house.base}/openai/big`);
    const reader = answer.body?.getReader();
    await reader?.read();
    await Bun.sleep(2_000); // the condition is the time itself: twice the limit, with nobody reading
    let total = 0;
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) total += part.value.length;
    expect(total).toBeGreaterThan(body.length / 2);
  });
});

test("an answer longer than a log keeps is counted by its end", async () => {
  const body = JSON.stringify({ data: "x".repeat(400_000), usage: { prompt_tokens: 5, completion_tokens: 7 } });
  const json = "content-type: application/json\r\n";
  for (const known of [true, false]) {
    serve = (socket) => {
      const length = known ? `content-length: ${body.length}` : "transfer-encoding: chunked";
      socket.write(`HTTP/1.1 200 OK\r\nconnection: close\r\n${json}${length}\r\n\r\n`);
      socket.end(known ? body : Buffer.concat([chunked(body), Buffer.from(END)]));
    };
    const answer = await chat();
    expect(await answer.text()).toBe(body);
    const { id, ...row } = await lastLog(answer);
    expect(row).toMatchObject({ tokens_in: 5, tokens_out: 7, response_size: body.length });
    const kept = await house.fetch(`/api/accounts/home/ai-gateway/gateways/default/logs/${id}/response`, {
      headers: { authorization: `Bearer ${house.adminToken}` },
    });
    expect(kept.headers.get("content-type")).toBe("text/plain; charset=utf-8"); // half an object is no JSON
    expect(kept.headers.get("content-security-policy")).toBe("sandbox");
    expect(await kept.text()).toBe(body.slice(0, 256 * 1024));
  }
});

test("a header that the provider's Connection names goes no further", async () => {
  serve = (socket) =>
    void socket.end(OK.replace("close", "close, X-Hop").replace("\r\n", "\r\nx-hop: 1\r\nx-kept: 1\r\n"));
  const { headers } = await chat();
  expect([headers.has("x-hop"), headers.has("x-kept")]).toEqual([false, true]);
});

test("a quiet stream outlives the server's own idle limit", async () => {
  // The house listens with an idle limit of a minute; here it is a second, and the provider is quiet for nine.
  serve = (socket) => {
    socket.write(EVENTS);
    socket.write(chunked("data: 1\n\n"));
    setTimeout(() => socket.write(Buffer.concat([chunked("data: 2\n\n"), Buffer.from(END)])), 9_000);
  };
  await using quiet = await startOpenHouse(provider.url);
  const { parts } = quiet;
  const app = new Elysia()
    .use(edge({ ...parts, trustedProxies: [], trace: false, routes: () => [] }))
    .use(gatewayRoutes(parts.gateway.forward))
    .listen({ port: 0, hostname: "127.0.0.1", idleTimeout: 1 });
  const answer = await fetch(`http://127.0.0.1:${app.server?.port}/v1/home/default/openai/x`);
  expect(await answer.text()).toBe("data: 1\n\ndata: 2\n\n");
  await app.stop(true);
}, 20_000);

describe("compressed answers pass as they are", () => {
  const json = Buffer.from(JSON.stringify(CHAT));
  const events = Buffer.from(
    'data: {"model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'.repeat(3),
  );
  const packings = { gzip: gzipSync, br: brotliCompressSync, zstd: zstdCompressSync };
  test.each(Object.keys(packings) as (keyof typeof packings)[])("%s, whole and streamed", async (encoding) => {
    for (const [type, plain] of [
      ["application/json", json],
      ["text/event-stream", events],
    ] as const) {
      const packed = packings[encoding](plain);
      serve = (socket) => {
        const length = type === "application/json" ? `content-length: ${packed.length}` : "transfer-encoding: chunked";
        socket.write(
          `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: ${type}\r\ncontent-encoding: ${encoding}\r\n${length}\r\n\r\n`,
        );
        if (type === "application/json") socket.write(packed);
        else
          socket.write(Buffer.concat([chunked(packed.subarray(0, 9)), chunked(packed.subarray(9)), Buffer.from(END)]));
      };
      const answer = await chat({
        decompress: false,
        headers: { "accept-encoding": encoding, "content-type": "application/json" },
      });
      expect(answer.headers.get("content-encoding")).toBe(encoding);
      expect(Buffer.from(await answer.bytes()).equals(packed)).toBe(true);
      expect((await lastLog(answer)).tokens_out).toBe(type === "application/json" ? 10 : 4);
    }
  });

  test("and are read to their end where that is within a mebibyte", async () => {
    const noise = Array.from(
      { length: 40 },
      () => `data: {"model":"m","x":"${randomBytes(9_000).toString("hex")}"}\n\n`,
    );
    const packed = gzipSync(Buffer.concat([Buffer.from(noise.join("")), events]));
    expect(packed.length).toBeGreaterThan(256 * 1024);
    serve = (socket) => {
      socket.write(EVENTS.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n"));
      socket.end(Buffer.concat([chunked(packed), Buffer.from(END)]));
    };
    const answer = await chat({ headers: { "accept-encoding": "gzip", "content-type": "application/json" } });
    expect((await answer.text()).endsWith(events.toString())).toBe(true);
    expect(await lastLog(answer)).toMatchObject({ tokens_in: 3, tokens_out: 4, estimated: false });
  });

  test("and a client that asked for none gets none", async () => {
    let asked = "";
    serve = (socket, head) => {
      asked = head;
      socket.end(OK);
    };
    const client = connect(port(), "127.0.0.1");
    client.write("GET /v1/home/default/openai/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    await closed(client.resume());
    expect(asked).toMatch(/accept-encoding: identity/i);
    expect(asked).toMatch(/user-agent: gatehouse/i); // it named none, and what our HTTP client is called is nobody's business
  });
});

describe("requests", () => {
  test("a compressed body arrives as it was sent", async () => {
    await using fake = startProvider();
    await using open = await startOpenHouse(fake.url);
    const body = zstdCompressSync('{"model":"gpt-4o-mini","messages":[]}');
    await fetch(`${open.base}/openai/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "content-encoding": "zstd" },
      body,
    });
    expect(fake.seen[0]?.headers.get("content-encoding")).toBe("zstd");
    expect(Buffer.from(fake.seen[0]?.body ?? []).equals(body)).toBe(true);
    expect((await open.logs())[0]?.model).toBe("gpt-4o-mini");
  });

  test("Expect: 100-continue is answered here and not passed on", async () => {
    let asked = "";
    serve = (socket, head) => {
      asked = head;
      socket.end(OK);
    };
    const client = connect(port(), "127.0.0.1");
    let got = "";
    client.on("data", (chunk) => {
      got += chunk.toString();
      if (got === "HTTP/1.1 100 Continue\r\n\r\n") client.write("{}");
    });
    client.write(
      "POST /v1/home/default/openai/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n",
    );
    await until(() => got.includes("200 OK"));
    expect(got).toStartWith("HTTP/1.1 100 Continue\r\n\r\n");
    expect(asked.toLowerCase()).not.toContain("expect:");
    client.destroy();
  });

  test("a large upload streams: chunked stays chunked, a length stays a length, every byte arrives", async () => {
    const piece = Buffer.alloc(1024 * 1024, "0123456789abcdef");
    const count = 64;
    const expected = createHash("sha256");
    for (let index = 0; index < count; index++) expected.update(piece);
    const digest = expected.digest("hex");
    for (const length of [true, false]) {
      let head = "";
      const hash = createHash("sha256");
      let received = 0;
      const done = Promise.withResolvers<void>();
      serve = (socket, first) => {
        const at = first.indexOf("\r\n\r\n") + 4;
        head = first.slice(0, at);
        let rest = Buffer.from(first.slice(at), "latin1");
        const take = (chunk: Buffer): void => {
          if (length) {
            hash.update(chunk);
            received += chunk.length;
          } else {
            rest = Buffer.concat([rest, chunk]);
            for (let line = rest.indexOf("\r\n"); line !== -1; line = rest.indexOf("\r\n")) {
              const size = Number.parseInt(rest.subarray(0, line).toString(), 16);
              if (rest.length < line + 2 + size + 2) break;
              hash.update(rest.subarray(line + 2, line + 2 + size));
              received += size;
              rest = rest.subarray(line + 2 + size + 2);
            }
          }
          if (received === piece.length * count) {
            socket.end(OK);
            done.resolve();
          }
        };
        if (length && rest.length > 0) take(rest);
        socket.on("data", take);
      };
      const pieces = async function* () {
        for (let index = 0; index < count; index++) yield piece;
      };
      const upload = fetch(`${house.base}/openai/files`, {
        method: "POST",
        body: pieces() as never,
        headers: {
          "content-type": "application/octet-stream",
          ...(length && { "content-length": String(piece.length * count) }),
        },
      });
      await done.promise;
      expect((await upload).status).toBe(200);
      expect(hash.digest("hex")).toBe(digest);
      expect(head.toLowerCase()).toContain(
        length ? `content-length: ${piece.length * count}` : "transfer-encoding: chunked",
      );
      await upload;
    }
  }, 30_000);

  test("an upload that takes longer than a provider may be silent is no silence", async () => {
    serve = (socket) => {
      socket.on("data", (chunk) => {
        if (chunk.includes(END)) socket.end(OK);
      });
    };
    const pieces = async function* () {
      for (let index = 0; index < 20; index++) {
        await Bun.sleep(100); // the condition is the time itself: twice the limit
        yield new Uint8Array(1_000);
      }
    };
    const answer = await fetch(`${house.base}/openai/files`, { method: "POST", body: pieces() as never });
    expect([answer.status, await answer.text()]).toEqual([200, "ok"]);
  });

  test("an answer that comes before the upload is through reaches the client", async () => {
    serve = (socket) => {
      socket.write(
        "HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
      );
    };
    const slow = new ReadableStream({
      pull: (controller) => void controller.enqueue(new Uint8Array(300_000)),
    });
    const answer = await fetch(`${house.base}/openai/files`, { method: "POST", body: slow });
    expect(answer.status).toBe(413);
    await answer.body?.cancel();
  });
});

describe("asking for usage", () => {
  const extra = 'data: {"model":"m","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":22}}\n\n';
  const first = 'data: {"model":"m","choices":[{"delta":{"content":"x"}}]}\n\n';
  const answerWith = (...parts: string[]) => {
    let asked = "";
    serve = (socket, head) => {
      asked = head;
      socket.write(EVENTS);
      for (const part of parts) socket.write(chunked(part));
      socket.write(END);
    };
    return () => asked;
  };

  test("is off by default: the request is not touched and the client gets every event", async () => {
    const asked = answerWith(first, extra);
    expect(await (await chat()).text()).toBe(first + extra);
    expect(asked()).not.toContain("include_usage");
  });

  test("when set, asks for it and keeps the extra chunk from a client that did not ask", async () => {
    await house.setGateway({ authentication: false, include_usage: true });
    const asked = answerWith(`${first}${extra.slice(0, 20)}`, `${extra.slice(20)}data: [DO`, "NE]\n\n");
    const answer = await chat();
    expect(await answer.text()).toBe(`${first}data: [DONE]\n\n`);
    expect(asked()).toContain('"stream_options":{"include_usage":true}');
    expect(asked()).toMatch(/accept-encoding: identity/i); // in a compressed stream the chunk could not be found
    expect(await lastLog(answer)).toMatchObject({ tokens_in: 11, tokens_out: 22, estimated: false });
  });

  test("whichever line ends the provider writes", async () => {
    const crlf = (text: string) => text.replaceAll("\n", "\r\n");
    answerWith(crlf(first), crlf(extra), crlf("data: [DONE]\n\n"));
    expect(await (await chat()).text()).toBe(crlf(`${first}data: [DONE]\n\n`));
  });

  test("and holds back no event that is longer than a mebibyte, nor the end of one that has none", async () => {
    const long = `data: ${"x".repeat(1_100_000)}`;
    const go = goesOnAfter(long);
    const answer = await chat();
    const reader = answer.body?.getReader();
    const read = async () => (await reader?.read())?.value?.byteLength ?? 0;
    let got = 0;
    while (got < 1024 * 1024) got += await read();
    (await go).end(Buffer.concat([chunked("the end"), Buffer.from(END)]));
    for (let more = await read(); more > 0; more = await read()) got += more;
    expect(got).toBe(long.length + "the end".length);
  });

  test("from a stream of known length too, whose length is then another", async () => {
    const [head] = EVENTS.split("transfer-encoding");
    serve = (socket) =>
      void socket.end(`${head}content-length: ${first.length + extra.length}\r\n\r\n${first}${extra}`);
    expect(await (await chat()).text()).toBe(first);
  });

  test("of a chat alone, that is to be streamed", async () => {
    for (const [path, stream] of [
      ["responses", true],
      ["chat/completions", false],
    ] as const) {
      const asked = answerWith(first);
      const body = JSON.stringify({ model: "m", stream });
      const headers = { "content-type": "application/json" };
      await (await fetch(`${house.base}/openai/${path}`, { method: "POST", headers, body })).text();
      expect(asked()).toEndWith(body);
    }
  });

  test("changes nothing else: a number too large for JavaScript arrives as it was written", async () => {
    const asked = answerWith(first, extra);
    await (await chat({ body: '{"seed":9223372036854775807,"stream":true}' })).text();
    expect(asked()).toEndWith('{"stream_options":{"include_usage":true},"seed":9223372036854775807,"stream":true}');
  });

  test("leaves a client alone that has said what it wants", async () => {
    for (const include_usage of [true, false]) {
      const asked = answerWith(first, extra);
      const body = JSON.stringify({ model: "m", stream: true, stream_options: { include_usage }, messages: [] });
      expect(await (await chat({ body })).text()).toBe(first + extra);
      expect(asked()).toContain(body);
    }
    await house.setGateway({ authentication: false });
  });
});
