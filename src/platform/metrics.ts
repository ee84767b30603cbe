// Numbers about ourselves, in the text format that Prometheus reads.

type Labels = Record<string, string | number>;
type Family = { name: string; help: string; type: "counter" | "gauge" | "histogram"; lines(): string[] };

export type Counter = { add(by?: number): void };
export type Histogram = { observe(value: number): void };
type Buckets = { counts: number[]; sum: number; labels: Labels };

export type Metrics = ReturnType<typeof createMetrics>;

const SERIES_MAX = 2_000; // per family: a label somebody else can choose must not become a memory leak

export function createMetrics() {
  const families: Family[] = [];

  /** A caller on a hot path keeps the series it got, so that counting is one addition. */
  function counter(name: string, help: string): (labels?: Labels) => Counter {
    const series = new Map<string, Counter & { value: number }>();
    families.push({
      name,
      help,
      type: "counter",
      lines: () => Array.from(series, ([labels, { value }]) => `${name}${labels} ${value}`),
    });
    return (labels = {}) =>
      oneOf(series, toText(labels), () => ({
        value: 0,
        add(by = 1) {
          this.value += by;
        },
      }));
  }

  /** `read` runs only when somebody looks. A total that somebody else keeps is a counter read in this way. */
  function gauge(name: string, help: string, read: () => number | [Labels, number][]): void {
    families.push({
      name,
      help,
      type: name.endsWith("_total") ? "counter" : "gauge",
      lines() {
        const value = read();
        if (typeof value === "number") return [`${name} ${value}`];
        return value.map(([labels, one]) => `${name}${toText(labels)} ${one}`);
      },
    });
  }

  function histogram(name: string, help: string, bounds: readonly number[]): (labels?: Labels) => Histogram {
    const series = new Map<string, Histogram & Buckets>();
    families.push({
      name,
      help,
      type: "histogram",
      lines: () => [...series.values()].flatMap((one) => toLines(name, bounds, one)),
    });
    return (labels = {}) =>
      oneOf(series, toText(labels), () => ({
        labels,
        counts: new Array<number>(bounds.length + 1).fill(0),
        sum: 0,
        observe(value) {
          const above = bounds.findIndex((bound) => value <= bound);
          const bucket = above === -1 ? bounds.length : above;
          this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
          this.sum += value;
        },
      }));
  }

  function text(): string {
    return families
      .map(({ name, help, type, lines }) => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines()].join("\n"))
      .join("\n")
      .concat("\n");
  }

  return { counter, gauge, histogram, text };
}

function oneOf<T>(series: Map<string, T>, key: string, make: () => T): T {
  const found = series.get(key);
  if (found) return found;
  const made = make();
  if (series.size < SERIES_MAX) series.set(key, made); // past it the caller counts into the void
  return made;
}

function toLines(name: string, bounds: readonly number[], { counts, sum, labels }: Buckets): string[] {
  let running = 0;
  const buckets = counts.map((count, index) => {
    running += count;
    return `${name}_bucket${toText({ ...labels, le: bounds[index] ?? "+Inf" })} ${running}`;
  });
  return [...buckets, `${name}_sum${toText(labels)} ${sum}`, `${name}_count${toText(labels)} ${running}`];
}

function toText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${String(value).replace(/["\\\n]/g, "_")}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
