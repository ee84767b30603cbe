// Structured log lines: JSON for machines, one readable line on a terminal, credentials never.

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export type Fields = Record<string, unknown>;
export type Log = Record<Exclude<LogLevel, "silent">, (event: string, fields?: Fields) => void>;

type Sink = { level: LogLevel; pretty: boolean; now: () => number; write: (line: string) => void };

export function createLog({ level, pretty, now, write }: Sink): Log {
  const from = LOG_LEVELS.indexOf(level);
  const at =
    (name: Exclude<LogLevel, "silent">) =>
    (event: string, fields: Fields = {}): void => {
      if (LOG_LEVELS.indexOf(name) < from) return;
      const time = new Date(now()).toISOString();
      const clean = redact(fields);
      write(
        pretty ? toPretty(time, name, event, clean) : `${JSON.stringify({ time, level: name, event, ...clean })}\n`,
      );
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Header and field names whose value is a credential, whoever sends it. */
const SECRET_NAME =
  /^(proxy-)?authorization$|^(gw|cf)-aig-authorization$|cookie$|api-?key$|^x-auth-key$|^x-(hub-|slack-|gitlab-|line-)?signature|^x-gitlab-token$|secret|password|^token$|^x-.*-token$|^webhook-signature$/i;
const TOKEN_VALUE = /\bgh_[A-Za-z0-9_-]{8,}/g;
const TOKEN_QUERY = /([?&#](?:token|code|key|api_key|access_token|secret)=)[^&#\s"']+/gi;
const CREDENTIAL = /\b(Bearer|Basic) +[\w.~+/=-]{8,}/gi; // shorter ones are words of a sentence
const USER_INFO = /(\/\/[^/\s:@]*:)[^/\s@]+@/g;
const DEPTH_MAX = 6; // deeper than any field we log; a cycle ends here too

/** A copy of `value` that is safe to write down. */
export function redact<T>(value: T, depth?: number): T;
export function redact(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (value === null || typeof value !== "object") return value;
  if (depth >= DEPTH_MAX) return "[…]";
  if (value instanceof Error) return { ...redact(toPlain(value), depth + 1) };
  if (value instanceof Headers) return redact(Object.fromEntries(value), depth + 1);
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      SECRET_NAME.test(name) ? "[redacted]" : redact(item, depth + 1),
    ]),
  );
}

export function redactText(text: string): string {
  return text
    .replace(TOKEN_QUERY, "$1[redacted]")
    .replace(TOKEN_VALUE, "gh_[redacted]")
    .replace(CREDENTIAL, "$1 [redacted]")
    .replace(USER_INFO, "$1[redacted]@");
}

function toPlain(error: Error): Fields {
  const code = "code" in error ? { code: error.code } : {};
  const cause = error.cause === undefined ? {} : { cause: error.cause };
  return { name: error.name, message: error.message, ...code, stack: error.stack, ...cause };
}

const COLORS = { debug: 90, info: 36, warn: 33, error: 31 } as const;

function toPretty(time: string, level: keyof typeof COLORS, event: string, fields: Fields): string {
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${toShort(value)}`);
  return `\x1b[90m${time.slice(11, 19)}\x1b[0m \x1b[${COLORS[level]}m${level.padEnd(5)}\x1b[0m ${[event, ...rest].join(" ")}\n`;
}

function toShort(value: unknown): string {
  if (typeof value === "string") return /[\s"\p{Cc}]/u.test(value) ? JSON.stringify(value) : value;
  if (value && typeof value === "object" && "stack" in value && typeof value.stack === "string")
    return `\n${value.stack}`;
  return JSON.stringify(value);
}
