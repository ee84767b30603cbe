// Every failure a caller can see. No Elysia in here, so that agent threads may import it.

/** status, the sentence a caller reads, and the number `/api` and `/v1` clients switch on. */
type Row = readonly [status: number, sentence: string, number: number];

export const ERRORS = {
  // House
  internal: [500, "Something failed on our side", 7000],
  "storage.full": [507, "The disk is full; nothing was stored", 7000],
  "input.invalid": [400, "Invalid input", 7001],
  "input.malformed": [400, "The body is not valid JSON", 7001],
  "input.media_type": [415, "The body must be sent as application/json", 7001],
  "input.too_large": [413, "The body is too large", 7001],
  "host.invalid": [400, "Invalid Host header", 7001],
  "route.unknown": [404, "No route for the URI", 7003],
  "route.method": [405, "This method is not supported here", 7001],
  "thing.unknown": [404, "Not found", 7002],
  "thing.exists": [409, "Already exists", 7001],
  "access.missing": [401, "A valid token is required", 1005],
  "access.denied": [403, "This token may not do that", 1005],
  "access.origin": [403, "Requests from this origin are refused", 1005],
  "access.host": [403, "This host name is not one of ours; add it to allowed_hosts", 1005],
  "access.slow_down": [429, "Too many failed attempts; try again later", 1005],
  "server.stopping": [503, "The server is stopping", 7000],
  // Webhooks
  "hook.rejected": [401, "The delivery could not be verified", 1005],
  "hook.unknown": [404, "No route matches", 7003],
  "hook.payload": [400, "The payload is invalid", 7001],
  "hook.entity": [400, "The entity identifier is missing or invalid", 7001],
  "hook.full": [503, "No room for more deliveries; try again later", 7000],
  "hook.journal": [503, "The delivery could not be stored; try again later", 7000],
  // Gateway
  "gateway.unknown": [400, "Please configure AI Gateway: there is no such gateway", 2001],
  "gateway.provider": [400, "Invalid provider", 2008],
  "gateway.path": [400, "This path cannot be forwarded", 2008],
  "gateway.unauthorized": [401, "Unauthorized", 2009],
  "gateway.address": [400, "The provider's address may not be contacted", 2008],
  "gateway.upstream": [502, "Failed to get response from provider", 2005],
  "gateway.timeout": [504, "The provider did not answer in time", 2005],
  "gateway.logs_busy": [503, "The logs are busy; try again later", 7000],
  "gateway.logs_down": [503, "The logs are not available right now", 7000],
  // Agents
  "agent.class": [404, "There is no agent class of this name", 7002],
  "agent.unknown": [404, "There is no such agent", 7002],
  "agent.name": [400, "That is no name for an agent", 7001],
  "agent.method": [404, "The agent has no callable method of this name", 7002],
  "agent.call_failed": [422, "The agent's method failed", 7001],
  "agent.failed": [500, "The agent failed to answer", 7000],
  "agent.busy": [503, "The agent, or every thread, is busy; try again", 7000],
  "agent.broken": [503, "The agent's code does not load", 7000],
  "agent.resting": [503, "The agent crashed repeatedly and is resting", 7000],
  "agent.gone": [504, "The agent's thread ended before it answered", 7000],
  "agent.slow": [504, "The agent did not answer in time", 7000],
  "agent.stuck": [504, "The agent's thread is stuck in a call that cannot be ended", 7000],
  "agent.destroyed": [410, "The agent was destroyed", 7002],

  // Tags: the numbers 1002 to 1015 and their sentences are the interface's own; 1001, 1004 and 1008 are ours
  "tags.missing": [500, "resource not found", 1001],
  "tags.missing_later": [404, "resource not found", 1001],
  "tags.set_payload": [400, "Invalid set payload", 1002],
  "tags.reference": [400, "resource_type and resource_id are required", 1003],
  "tags.precondition": [412, "If-Match does not match: the tags have changed since", 1004],
  "tags.type": [400, "Invalid resource type", 1006],
  "tags.filter": [
    400,
    "tag parameter must be in format key, key=value, key=value1,value2, !key, key!=value or key!=value1,value2",
    1007,
  ],
  "tags.account_full": [400, "This account is at its tag limit", 1008],
  "tags.key_missing": [400, "tag_key is required", 1009],
  "tags.filters_max": [400, "too many tag filters (maximum 20)", 1010],
  "tags.key_long": [400, "tag key too long (maximum 256 characters)", 1011],
  "tags.value_long": [400, "tag value too long (maximum 1024 characters)", 1012],
  "tags.values_max": [400, "too many OR values in tag filter (maximum 10)", 1013],
  "tags.key": [400, "Invalid tag key", 1014],
  "tags.delete_payload": [400, "Invalid delete payload", 1015],
} as const satisfies Record<string, Row>;

export type ErrorCode = keyof typeof ERRORS;

type Detail = {
  /** Replaces the table's sentence; the caller reads it, so it never holds a rejected value or a secret. */
  say?: string;
  /** Response headers that belong to this failure (`Allow`, `Retry-After`). */
  headers?: Record<string, string>;
  /** The answer waits this long: the price of a wrong guess. */
  delayMs?: number;
  /** An answer that the interface prescribes, whatever its status: nothing failed, so nothing is logged. */
  expected?: boolean;
  /** For the log alone. */
  cause?: unknown;
};

export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly headers: Record<string, string>;
  readonly delayMs: number;
  readonly expected: boolean;

  constructor(code: ErrorCode, { say, headers = {}, delayMs = 0, expected = false, cause }: Detail = {}) {
    super(say ?? ERRORS[code][1], { cause });
    this.code = code;
    this.headers = headers;
    this.delayMs = delayMs;
    this.expected = expected;
  }

  get status(): number {
    return ERRORS[this.code][0];
  }

  get number(): number {
    return ERRORS[this.code][2];
  }
}

/** What the caller is told of any throw: an AppError as it is, a full disk as such, and `internal` for the rest. */
export function toAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  const full =
    thrown instanceof Error && "code" in thrown && (thrown.code === "SQLITE_FULL" || thrown.code === "ENOSPC");
  return new AppError(full ? "storage.full" : "internal", { cause: thrown });
}
