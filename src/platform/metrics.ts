// Numbers about ourselves, in the text format that Prometheus reads.

type Labels = Record<string, string | number>;
type Family = { name: string; help: string; type: "counter" | "gauge" | "histogram"; lines(): string[] };

export type Metrics = ReturnType<typeof createMetrics>;

const SERIES_MAX = 2_000; // per family: a label somebody else can choose must not become a memory leak

export function createMetrics() {
  const families: Family[] = [];

  function counter(name: string, help: string): (labels?: Labels, by?: number) => void {
    const series = new Map<string, number>();
    families.push({
      name,
      help,
      type: "counter",
      lines: () => Array.from(series, ([labels, value]) => `${name}${labels} ${value}`),
    });
    return (labels = {}, by = 1) => {
      const key = toText(labels);
      const before = series.get(key);
      if (before !== undefined || series.size < SERIES_MAX) series.set(key, (before ?? 0) + by);
    };
  }

  /** `read` runs only when somebody looks. */
  function gauge(name: string, help: string, read: () => number | [Labels, number][]): void {
    families.push({
      name,
      help,
      type: "gauge",
      lines() {
        const value = read();
        if (typeof value === "number") return [`${name} ${value}`];
        return value.map(([labels, one]) => `${name}${toText(labels)} ${one}`);
      },
    });
  }

  function histogram(name: string, help: string, bounds: readonly number[]): (label: Labels, value: number) => void {
    type Series = { counts: Uint32Array; sum: number; labels: Labels };
    const series = new Map<string, Series>();
    families.push({
      name,
      help,
      type: "histogram",
      lines: () => [...series.values()].flatMap((one) => toBuckets(name, bounds, one)),
    });
    return (labels, value) => {
      const key = toText(labels);
      let one = series.get(key);
      if (!one) {
        if (series.size >= SERIES_MAX) return;
        one = { counts: new Uint32Array(bounds.length + 1), sum: 0, labels };
        series.set(key, one);
      }
      const above = bounds.findIndex((bound) => value <= bound);
      const bucket = above === -1 ? bounds.length : above;
      one.counts[bucket] = (one.counts[bucket] ?? 0) + 1;
      one.sum += value;
    };
  }

  function text(): string {
    return families
      .map(({ name, help, type, lines }) => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines()].join("\n"))
      .join("\n")
      .concat("\n");
  }

  return { counter, gauge, histogram, text };
}

function toBuckets(
  name: string,
  bounds: readonly number[],
  { counts, sum, labels }: { counts: Uint32Array; sum: number; labels: Labels },
): string[] {
  let running = 0;
  const buckets = Array.from(counts, (count, index) => {
    running += count;
    return `${name}_bucket${toText({ ...labels, le: bounds[index] ?? "+Inf" })} ${running}`;
  });
  return [...buckets, `${name}_sum${toText(labels)} ${sum}`, `${name}_count${toText(labels)} ${running}`];
}

function toText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${String(value).replace(/["\\\n]/g, "_")}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
