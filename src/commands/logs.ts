// gatehouse logs: watch requests as they come, and sum up what was spent.
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { type Command, type CommandContext, CommandError, noWords, plain } from "./command.ts";

const Row = t.Object({
  id: t.String(),
  created_at: t.String(),
  provider: t.String(),
  model: t.String(),
  path: t.String(),
  status_code: t.Integer(),
  outcome: t.String(),
  duration: t.Number(),
  tokens_in: t.Union([t.Integer(), t.Null()]),
  tokens_out: t.Union([t.Integer(), t.Null()]),
  estimated: t.Boolean(),
  cost: t.Union([t.Number(), t.Null()]),
});
type Row = (typeof Row)["static"];
const Sums = {
  requests: t.Integer(),
  failed: t.Integer(),
  tokens_in: t.Integer(),
  tokens_out: t.Integer(),
  cost: t.Union([t.Number(), t.Null()]),
  unpriced: t.Integer(),
  average_ms: t.Union([t.Number(), t.Null()]),
};
const Stats = t.Object({
  totals: t.Object(Sums),
  models: t.Array(t.Object({ provider: t.String(), model: t.Union([t.String(), t.Null()]), ...Sums })),
  prices: t.Object({ source: t.String(), version: t.String(), date: t.String() }),
});

const POLL_MS = 500; // rows reach the disk within 100 ms; a person does not read faster than this
const SHOWN_FIRST = 10;
const PER_POLL = 200;

export const logs: Command = {
  summary: "watch gateway requests live, or sum them up",
  usage: ["logs tail [GATEWAY] [--account ID] [--once]", "logs stats [GATEWAY] [--account ID] [--days N]"],
  options: { account: { type: "string" }, days: { type: "string" }, once: { type: "boolean" } },
  async run(context) {
    const [verb, gateway = "default", ...rest] = context.args;
    noWords(rest);
    if (gateway === "") throw new CommandError("the gateway's id is empty", 2);
    if (verb === "tail") return tail(context, gateway);
    if (verb === "stats") return stats(context, gateway);
    throw new CommandError("say tail or stats", 2);
  },
};

function base({ options }: CommandContext, gateway: string): string {
  const account = typeof options.account === "string" ? options.account : "home";
  return `/api/accounts/${encodeURIComponent(account)}/ai-gateway/gateways/${encodeURIComponent(gateway)}/logs`;
}

async function tail(context: CommandContext, gateway: string): Promise<number> {
  const path = base(context, gateway);
  const ask = async (query: string) => Value.Parse(t.Array(Row), await context.api.call("GET", `${path}?${query}`));
  const first = (await ask(`order_by=written&per_page=${SHOWN_FIRST}`)).reverse();
  for (const row of first) context.out(toLine(row));
  if (context.options.once === true) return 0;
  // Or it would wait for ever, and with the folder's lock in its hand keep the server from starting.
  if (!(await context.api.isServed()))
    throw new CommandError("no server runs on this data folder, so no more will come");
  for (let last = first.at(-1)?.id; ; ) {
    await Bun.sleep(POLL_MS);
    const cursor = last === undefined ? "" : `&cursor=${last}`;
    const fresh = await ask(`order_by=written&order_by_direction=asc&per_page=${PER_POLL}${cursor}`);
    for (const row of fresh) context.out(toLine(row));
    last = fresh.at(-1)?.id ?? last;
  }
}

function toLine(row: Row): string {
  const counted = row.tokens_in !== null || row.tokens_out !== null;
  const tokens = counted ? `${row.tokens_in ?? 0}+${row.tokens_out ?? 0}${row.estimated ? "~" : ""}` : "-";
  const how = row.outcome === "answered" ? "" : `  ${row.outcome}`;
  const what = plain(row.model === "" ? row.path : row.model);
  const ms = `${Math.round(row.duration)} ms`;
  return `${row.created_at.slice(11, 23)}  ${row.status_code}  ${row.provider}  ${what}  ${ms}  ${tokens}  ${toDollars(row.cost)}${how}`;
}

function toDollars(cost: number | null): string {
  return cost === null ? "-" : `$${cost.toFixed(6)}`;
}

async function stats(context: CommandContext, gateway: string): Promise<number> {
  const days = context.options.days ?? "30";
  if (!(Number(days) > 0)) throw new CommandError("--days is a number of days above 0", 2);
  const answer = await context.api.call(
    "GET",
    `${base(context, gateway)}/stats?days=${encodeURIComponent(String(days))}`,
  );
  const { totals, models, prices } = Value.Parse(Stats, answer);
  const lines = [
    ["provider", "model", "requests", "failed", "tokens in", "tokens out", "cost", "mean ms"],
    ...models.map((one) => [one.provider, plain(one.model ?? "-"), ...figures(one)]),
    ["total", "", ...figures(totals)],
  ];
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  for (const line of lines) {
    context.out(
      line
        .map((text, column) => (column < 2 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0)))
        .join("  ")
        .trimEnd(),
    );
  }
  if (totals.unpriced > 0) context.out(`requests without a known price, not in the cost: ${totals.unpriced}`);
  context.out(`last ${String(days)} days; prices: ${prices.source} ${prices.version} of ${prices.date}`);
  return 0;
}

function figures(sums: {
  requests: number;
  failed: number;
  tokens_in: number;
  tokens_out: number;
  cost: number | null;
  average_ms: number | null;
}): string[] {
  const { requests, failed, tokens_in, tokens_out, cost, average_ms } = sums;
  const mean = average_ms === null ? "-" : String(Math.round(average_ms));
  return [...[requests, failed, tokens_in, tokens_out].map(String), toDollars(cost), mean];
}
