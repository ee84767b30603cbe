// Logs as the rest of the gateway sees them: record and forget, ask and wait. Recording never waits and never throws.
import type { Log } from "../../platform/log.ts";
import type { Metrics } from "../../platform/metrics.ts";
import { createBatch } from "./batch.ts";
import { type Line, startLine } from "./line.ts";
import type {
  Captured,
  Feedback,
  GatewayCap,
  ListQuery,
  LogRecord,
  Removal,
  Selection,
  StatsQuery,
  WriterSetup,
} from "./protocol.ts";

type StoreParts = { threadUrl: string; setup: WriterSetup; log: Log; metrics: Metrics };

const FLUSH_MS = 50; // how old a row may be before it is on its way to the disk
const FLUSH_ROWS = 200; // few enough that writing them is no long piece of work beside a request
const FLUSH_BYTES = 1024 * 1024;
/** Handed over and not yet written. Past the first bound rows go without bodies, past the others not at all. */
const WAITING_BODY_BYTES_MAX = 16 * 1024 * 1024;
const WAITING_ROWS_MAX = 20_000;
const WAITING_CHARS_MAX = 32 * 1024 * 1024; // a row has some 600; a caller's own headers and path may have thousands
const WRITER_LIMITS = { waitingMax: 10_000, answerMsMax: 120_000 }; // a slow card may take its time; rows are bounded above
const READER_LIMITS = { waitingMax: 64, answerMsMax: 60_000 };
const SETTLE_MS_MAX = 2_000; // a question waits this long for what was recorded before it
const READER_IDLE_MS = 60_000; // an unused reader gives its memory back
const STOP_MS_MAX = 5_000;
const RESTART_MS = 5_000; // a thread that died, or a database that would not open, is tried again

export type LogStore = ReturnType<typeof startLogs>;

export function startLogs({ threadUrl, setup, log, metrics }: StoreParts) {
  const dropped = metrics.counter(
    "gatehouse_gateway_logs_dropped_total",
    "Log rows or bodies given up to stay bounded",
  );
  const droppedRows = dropped({ what: "row" });
  const droppedBodies = dropped({ what: "body" });
  const batch = createBatch();
  const caps = new Map(setup.caps.map((cap) => [cap.gateway, cap]));
  let waitingBytes = 0;
  let waitingRows = 0;
  let waitingChars = 0;
  let timer: Timer | undefined;
  let stopping = false;
  let isOpen = false;
  let lastWritten: Promise<unknown> = Promise.resolve();
  let writer = startWriter();
  let reader: { line: Line; idle: Timer } | undefined;
  metrics.gauge("gatehouse_gateway_logs_waiting_rows", "Log rows not yet written", () => waitingRows + batch.count);

  function note(event: string, fields: Record<string, unknown>): void {
    log.warn(event, fields);
  }

  function startWriter(): Line {
    const line = startLine(threadUrl, note, closed, WRITER_LIMITS);
    line.ask({ type: "open", setup: { ...setup, caps: [...caps.values()] } }, "done").then(
      () => {
        isOpen = true;
      },
      (error: unknown) => {
        log.error("gateway.logs.open_failed", { path: setup.path, error });
        return line.stop(STOP_MS_MAX);
      },
    );
    return line;
  }

  function closed(): void {
    isOpen = false;
    if (stopping) return;
    setTimeout(() => {
      if (!stopping) writer = startWriter();
    }, RESTART_MS).unref();
  }

  function record(it: LogRecord, captured: Captured): void {
    if (waitingRows + batch.count >= WAITING_ROWS_MAX || waitingChars >= WAITING_CHARS_MAX) {
      droppedRows.add();
      return;
    }
    const crowded = waitingBytes + batch.byteLength >= WAITING_BODY_BYTES_MAX;
    if (crowded) droppedBodies.add();
    batch.add(it, crowded ? {} : captured);
    if (batch.count >= FLUSH_ROWS || batch.byteLength >= FLUSH_BYTES) flush();
    else timer ??= setTimeout(flush, FLUSH_MS);
  }

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (batch.count === 0) return;
    const { text, bytes, count } = batch.take();
    const { byteLength } = bytes; // the buffer is handed over, and empty here afterwards
    waitingBytes += byteLength;
    waitingRows += count;
    waitingChars += text.length;
    lastWritten = writer
      .ask({ type: "batch", text, bytes }, "count", [bytes.buffer])
      .catch((error: unknown) => {
        droppedRows.add(count);
        log.warn("gateway.logs.batch_lost", { rows: count, error });
      })
      .finally(() => {
        waitingBytes -= byteLength;
        waitingRows -= count;
        waitingChars -= text.length;
      });
  }

  /** So that who asks sees what they just did. */
  async function settled(): Promise<void> {
    flush();
    const late = Promise.withResolvers<void>();
    const limit = setTimeout(late.resolve, SETTLE_MS_MAX);
    await Promise.race([lastWritten, late.promise]);
    clearTimeout(limit);
  }

  /** Started by the first question, ended after a quiet minute: most of the time nobody asks. */
  async function readerLine(): Promise<Line> {
    await settled();
    if (reader) {
      reader.idle.refresh();
      return reader.line;
    }
    const line = startLine(threadUrl, note, () => void (reader?.line === line && endReader()), READER_LIMITS);
    const idle = setTimeout(() => endReader(), READER_IDLE_MS);
    idle.unref();
    reader = { line, idle };
    try {
      await line.ask({ type: "read", path: setup.path }, "done");
    } catch (error) {
      if (reader?.line === line) endReader(); // it would answer nobody; the next question starts another
      throw error;
    }
    return line;
  }

  function endReader(): Promise<void> | undefined {
    clearTimeout(reader?.idle);
    const ended = reader?.line.stop(STOP_MS_MAX);
    reader = undefined;
    return ended;
  }

  return {
    record,
    settled,
    isOpen: () => isOpen,
    async list(query: ListQuery) {
      return (await (await readerLine()).ask({ type: "list", query }, "page")).page;
    },
    async get(gateway: string, logId: string) {
      return (await (await readerLine()).ask({ type: "get", gateway, logId }, "detail")).detail;
    },
    async body(gateway: string, logId: string, side: "request" | "response") {
      return (await (await readerLine()).ask({ type: "body", gateway, logId, side }, "body")).body;
    },
    async stats(query: StatsQuery) {
      return (await (await readerLine()).ask({ type: "stats", query }, "stats")).stats;
    },
    async remove(selection: Selection, removal: Removal = {}) {
      flush();
      return (await writer.ask({ type: "delete", selection, removal }, "count")).count;
    },
    async setFeedback(gateway: string, logId: string, feedback: Feedback) {
      flush();
      return (await writer.ask({ type: "feedback", gateway, logId, feedback }, "found")).found;
    },
    setCap(cap: GatewayCap) {
      caps.set(cap.gateway, cap);
      writer.ask({ type: "cap", cap }, "done").catch((error: unknown) => log.warn("gateway.logs.cap_lost", { error }));
    },
    async stop() {
      stopping = true;
      await settled();
      await Promise.all([endReader(), writer.stop(STOP_MS_MAX)]);
    },
  };
}
