// The way of one request: gateway, token, provider, upstream, answer; the log hears of it afterwards.
import type { Access } from "../platform/access.ts";
import { AppError, type ErrorCode } from "../platform/errors.ts";
import type { Counter, Metrics } from "../platform/metrics.ts";
import type { OriginRule } from "../platform/origin.ts";
import { may, type Principal } from "../platform/permissions.ts";
import { requestIdOf } from "../platform/request.ts";
import type { AddressProblem, AddressRule } from "./addresses.ts";
import { createCapture, HEAD_BYTES_MAX, PACKED_HEAD_BYTES_MAX, TAIL_BYTES_MAX } from "./capture.ts";
import { offeredToken, withoutToken } from "./credential.ts";
import { toDownstream, toUpstream } from "./headers.ts";
import { asksForUsage } from "./include-usage.ts";
import { type Captured, CLIENT_LEFT, type LogRecord, type Outcome } from "./logs/protocol.ts";
import { type Head, mark, type Passage, toPassage, toRecord } from "./passage.ts";
import { type Provider, upstreamUrl } from "./providers.ts";
import { parseLine } from "./request-line.ts";
import { isSmall, keptOf, type Sent, streamOf } from "./sent.ts";
import type { LiveGateway } from "./settings.ts";
import { watchStream, withoutUsageChunk } from "./stream.ts";
import type { Exchange, Upstream } from "./upstream.ts";

/** A JSON answer of known length up to this is read whole: for small ones that is faster than a stream. */
const ANSWER_BYTES_MAX = 1024 * 1024;

type ProxyParts = {
  access: Pick<Access, "byToken">;
  origins: Pick<OriginRule, "requireOurs">;
  gateways: { find(key: string): LiveGateway | undefined };
  providers: { find(accountId: string, slug: string): Provider | undefined };
  addresses: Pick<AddressRule, "check">;
  upstream: Upstream;
  record: (record: LogRecord, captured: Captured) => void;
  metrics: Metrics;
  /** Lengths of the tokens that lack our prefix. */
  bareTokenChars: readonly number[];
};

export type Forward = (request: Request) => Promise<Response>;

export function createProxy(parts: ProxyParts): Forward {
  const { access, origins, gateways, providers, addresses, upstream, record, metrics, bareTokenChars } = parts;
  const refused = metrics.counter("gatehouse_gateway_refused_total", "Gateway requests refused before any provider");
  const counted = countRequests(metrics);

  const refuse = (code: ErrorCode): AppError => {
    refused({ reason: code }).add();
    return new AppError(code);
  };

  /** Before the body is read, and before the provider is even looked at. */
  function admit(request: Request, gateway: LiveGateway): Principal | undefined {
    if (!gateway.authentication) {
      try {
        origins.requireOurs(request);
      } catch (error) {
        if (error instanceof AppError) refused({ reason: error.code }).add();
        throw error;
      }
      return undefined;
    }
    const token = offeredToken(request.headers);
    const principal = token === undefined ? undefined : access.byToken(token);
    if (!principal || !may(principal, "run", gateway.scope)) throw refuse("gateway.unauthorized");
    return principal;
  }

  /** Only addresses an operator chose are looked up: the built-in ones are public by what they are. */
  function requireReach(provider: Provider, problem: AddressProblem | undefined): void {
    const allowed = problem === undefined || (problem === "private" && (provider.privateAllowed || provider.local));
    if (!allowed) throw refuse("gateway.address");
  }

  async function proxy(request: Request): Promise<Response> {
    const startMs = performance.now();
    const line = parseLine(request.url);
    const gateway = gateways.find(line.gateway);
    if (!gateway) throw refuse("gateway.unknown");
    const principal = admit(request, gateway);
    const provider = providers.find(gateway.scope.accountId, line.provider);
    if (!provider) throw refuse("gateway.provider");
    if (provider.local || provider.privateAllowed !== undefined) {
      const problem = addresses.check(provider.base);
      requireReach(provider, problem instanceof Promise ? await problem : problem);
    }
    const url = upstreamUrl(provider, line.path, withoutToken(line.query));
    if (url === undefined) throw refuse("gateway.path");

    const { method, headers: given } = request;
    const { headers, asks } = toUpstream(given, isToken);
    for (const name in provider.headers) if (!headers.has(name)) headers.set(name, provider.headers[name] ?? "");
    const id = requestIdOf(request);
    const { path, query } = line;
    const passage = toPassage({ id, startMs, gateway, provider, principal, method, path, query, given }, asks);
    // One function with three waits, and no helper that waits: each of those would cost more than what it does.
    const sent: Sent = isSmall(request) ? { bytes: await request.bytes() } : streamOf(request);
    const asked = sent.bytes && gateway.includeUsage ? asksForUsage(line.path, headers, sent.bytes) : undefined;
    if (sent.bytes) headers.delete("content-length"); // made anew from the bytes
    if (asked) headers.set("accept-encoding", "identity"); // what we asked for is to be found and taken out again
    const overheadMs = performance.now() - startMs;
    const body = asked ?? sent.bytes ?? sent.stream ?? null;
    const { signal } = request;
    const it = upstream.send({ url, method, headers, body, signal, firstByteMsMax: passage.firstByteMsMax });
    if (sent.stream) sent.moved = () => it.sending();
    try {
      const response = await it.response;
      it.heard();
      const head = toHead(response, passage);
      const fits = method !== "HEAD" && isSmallJson(response, head);
      toDownstream(response.headers);
      mark(response.headers, passage, overheadMs, isEvents(head.responseType));
      if (fits) {
        it.waiting();
        const bytes = await response.bytes();
        it.close();
        logged(passage, sent, head, "answered", endsOf(bytes), bytes.byteLength);
        return new Response(bytes, response);
      }
      return streamed(it, response, passage, sent, head, asked !== undefined);
    } catch (error) {
      const outcome = it.cutBy ?? "upstream_failed";
      it.cut(outcome); // whatever is still to come, nobody will read it
      it.close();
      throw failed(passage, error, sent, outcome, overheadMs);
    }
  }

  /** Only a value that could be one of them is hashed: every provider key would be otherwise. */
  const isToken = (value: string): boolean =>
    bareTokenChars.includes(value.length) && access.byToken(value) !== undefined;

  /** Deleted while this was under way: its logs went with it, and one made since under its name has no part in this. */
  const isGone = ({ gateway }: Passage): boolean => gateways.find(gateway.key)?.createdMs !== gateway.createdMs;

  function streamed(it: Exchange, response: Response, passage: Passage, sent: Sent, head: Head, strip: boolean) {
    const packed = head.responseEncoding !== undefined;
    const capture = createCapture(packed ? PACKED_HEAD_BYTES_MAX : HEAD_BYTES_MAX, packed ? 0 : TAIL_BYTES_MAX);
    const { status, headers, body } = response;
    let ended = false;
    const end = (outcome: Outcome): void => {
      if (ended) return;
      ended = true;
      it.close();
      const tail = capture.tail();
      logged(passage, sent, head, outcome, { head: capture.head(), ...(tail && { tail }) }, capture.total);
    };
    if (!body || passage.method === "HEAD" || status === 204 || status === 304) {
      end("answered");
      return new Response(null, { status, headers });
    }
    it.whenCut = () => end(it.cutBy ?? "stream_cut");
    const shortened = strip && isEvents(head.responseType) && !packed;
    if (shortened) headers.delete("content-length");
    const source = shortened ? withoutUsageChunk(body, capture.add) : body;
    const watched = watchStream(source, {
      waiting: () => it.waiting(),
      chunk(bytes) {
        it.heard();
        capture.add(bytes);
      },
      end: (how) => end(how === "done" ? "answered" : how === "cancelled" ? "client_left" : (it.cutBy ?? "stream_cut")),
    });
    return new Response(watched, { status, headers });
  }

  function logged(
    passage: Passage,
    sent: Sent,
    head: Head,
    outcome: Outcome,
    captured: Captured,
    responseBytes: number,
  ): void {
    counted(passage, head.status);
    if (!passage.collect || isGone(passage)) return;
    captured.request = keptOf(sent);
    record(toRecord(passage, sent, head, outcome, responseBytes), captured);
  }

  /** What the caller is told of it, after it was counted and logged. */
  function failed(passage: Passage, error: unknown, sent: Sent, outcome: Outcome, overheadMs: number): AppError {
    const code = outcome === "timeout" || outcome === "upstream_silent" ? "gateway.timeout" : "gateway.upstream";
    const headers = new Headers();
    mark(headers, passage, overheadMs, false);
    const said = new AppError(code, { headers: headers.toJSON(), cause: error });
    const status = outcome === "client_left" ? CLIENT_LEFT : said.status;
    const none: Head = { status, firstByteMs: undefined, responseType: undefined, responseEncoding: undefined };
    logged(passage, sent, none, outcome, {}, 0);
    return said;
  }

  return proxy;
}

function toHead({ status, headers }: Response, { startMs }: Passage): Head {
  if (status < 200 || status > 599) throw new Error("the provider's status is no status");
  return {
    status,
    firstByteMs: performance.now() - startMs,
    responseType: headers.get("content-type") ?? undefined,
    responseEncoding: headers.get("content-encoding") ?? undefined,
  };
}

function isSmallJson({ status, headers }: Response, { responseType }: Head): boolean {
  const length = headers.get("content-length");
  return (
    length !== null && Number(length) <= ANSWER_BYTES_MAX && isJson(responseType) && status !== 204 && status !== 304
  );
}

function isEvents(type: string | undefined): boolean {
  return type?.startsWith("text/event-stream") === true;
}

function isJson(type: string | undefined): boolean {
  return (
    type?.startsWith("application/json") === true || (type !== undefined && /^application\/[\w.+-]*json/i.test(type))
  );
}

function endsOf(bytes: Uint8Array): Captured {
  if (bytes.byteLength <= HEAD_BYTES_MAX) return { head: bytes };
  return { head: bytes.subarray(0, HEAD_BYTES_MAX), tail: bytes.subarray(-TAIL_BYTES_MAX) };
}

function countRequests(metrics: Metrics): (passage: Passage, status: number) => void {
  const requests = metrics.counter(
    "gatehouse_gateway_requests_total",
    "Gateway requests by gateway, provider and status",
  );
  const known = new Map<string, Counter>();
  return ({ gateway, provider }, status) => {
    const key = `${gateway.key} ${provider.slug} ${status}`;
    const series = known.get(key) ?? requests({ gateway: gateway.key, provider: provider.slug, status });
    if (known.size < 1_000) known.set(key, series);
    series.add();
  };
}
