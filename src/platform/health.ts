// Is it alive, is it ready, how is it doing: three routes for machines that watch us.
import { readFileSync } from "node:fs";
import { Elysia } from "elysia";
import type { Access } from "./access.ts";
import type { Metrics } from "./metrics.ts";
import type { OriginRule } from "./origin.ts";

type HealthParts = {
  access: Access;
  origins: OriginRule;
  metrics: Metrics;
  metricsOpen: boolean;
  /** Name of a part -> can it serve right now. */
  checks: () => Record<string, boolean>;
};

const TEXT = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };

export function healthRoutes({ access, origins, metrics, metricsOpen, checks }: HealthParts) {
  return new Elysia({ name: "health", tags: ["Health"] })
    .get("/healthz", () => ({ status: "ok" }), {
      detail: { summary: "The process is alive", description: "Open to everybody; says nothing about its parts." },
    })
    .get(
      "/readyz",
      () => {
        const parts = checks();
        const ready = Object.values(parts).every(Boolean);
        return Response.json({ status: ready ? "ready" : "not ready", parts }, { status: ready ? 200 : 503 });
      },
      {
        detail: { summary: "Every part can serve", description: "Open to everybody; 503 while starting or stopping." },
      },
    )
    .get(
      "/metrics",
      ({ request }) => {
        if (!metricsOpen) access.identify(request);
        else if (!access.ofRequest(request)) origins.requireOurs(request);
        return new Response(metrics.text(), { headers: TEXT });
      },
      {
        detail: {
          summary: "Numbers for Prometheus",
          description: "Needs any valid token, unless the setting metrics_open is on.",
          security: [{ token: [] }],
        },
      },
    );
}

/** What the operating system knows of us. */
export function processMetrics(metrics: Metrics, startedAtMs: number): void {
  metrics.gauge("process_resident_memory_bytes", "Resident memory", () => process.memoryUsage.rss());
  metrics.gauge("process_start_time_seconds", "When the process started", () => startedAtMs / 1000);
  if (process.platform === "linux") metrics.gauge("process_threads", "Threads of the process", threadCount);
  metrics.gauge("process_cpu_seconds_total", "CPU time used, user and system", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
}

function threadCount(): number {
  return Number(/^Threads:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? 0);
}
