import { expect, test } from "bun:test";
import { createMetrics } from "../../src/platform/metrics.ts";
import { startHouse } from "../support/house.ts";

const linesOf = (text: string) => text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));

test("the two thousandth series of a family is kept, and one more is counted nowhere", () => {
  const metrics = createMetrics();
  const counter = metrics.counter("seen_total", "What somebody else chose");
  for (let n = 0; n < 2_001; n++) counter({ n }).add();
  counter({ n: 1_999 }).add(2);
  counter({ n: 2_000 }).add();
  const lines = linesOf(metrics.text());
  expect([lines.length, lines.at(-1)]).toEqual([2_000, 'seen_total{n="1999"} 3']);
});

test("a value at a bound belongs to it, each bucket holds those below, and the last holds all", () => {
  const metrics = createMetrics();
  const seconds = metrics.histogram("waited_seconds", "How long", [0.1, 1])({ group: "api" });
  for (const value of [0.1, 0.5, 1, 1.5]) seconds.observe(value);
  expect(linesOf(metrics.text())).toEqual([
    'waited_seconds_bucket{group="api",le="0.1"} 1',
    'waited_seconds_bucket{group="api",le="1"} 3',
    'waited_seconds_bucket{group="api",le="+Inf"} 4',
    'waited_seconds_sum{group="api"} 3.1',
    'waited_seconds_count{group="api"} 4',
  ]);
});

test("a gauge is read when somebody looks, and a total that is read so is a counter", () => {
  const metrics = createMetrics();
  let now = 1;
  metrics.gauge("rooms", "Rooms", () => now);
  metrics.gauge("doors_total", "Doors", () => [[{ of: 'a "b"\n\\' }, now]]);
  now = 2;
  expect(metrics.text()).toBe(
    [
      "# HELP rooms Rooms",
      "# TYPE rooms gauge",
      "rooms 2",
      "# HELP doors_total Doors",
      "# TYPE doors_total counter",
      'doors_total{of="a _b___"} 2',
      "",
    ].join("\n"),
  );
});

test("a server tells of itself under the names that dashboards know", async () => {
  await using house = await startHouse();
  const answer = await house.fetch("/metrics", { headers: { authorization: `Bearer ${house.adminToken}` } });
  const names = new Set(linesOf(await answer.text()).map((line) => line.split(/[ {]/)[0]));
  expect([...names]).toEqual(
    expect.arrayContaining([
      "process_resident_memory_bytes",
      "process_start_time_seconds",
      "process_cpu_seconds_total",
      "gatehouse_start_seconds",
      "gatehouse_tagged_resources",
      "gatehouse_tags",
      "gatehouse_agents_live",
      "gatehouse_database_bytes",
    ]),
  );
});
