// Thread entry: becomes the log writer or the log reader by the first thing it is told.
import { setPriority } from "node:os";
import { openDatabase } from "../../platform/sqlite.ts";
import { createPricing } from "../pricing.ts";
import type { Answer, FromThread, PackedRecord, ToReader, ToWriter } from "./protocol.ts";
import { createLogReader } from "./reader.ts";
import { LOG_MIGRATIONS } from "./schema.ts";
import { createLogWriter } from "./writer.ts";

declare const self: Worker;

const SWEEP_MS = 60_000;
const WAL_BYTES_MAX = 64 * 1024 * 1024; // a long read holds the WAL back; afterwards the file shrinks to this again

const NICE = 10; // a tenth of a request's weight: enough to yield, not enough to starve while rows pile up in memory
const CHECKPOINT_PAGES = 4_000; // a page that fills over several batches is then copied once, not once a batch

type Message = ToWriter | ToReader;
type Ask = (message: Message) => Answer | Promise<Answer>;
let answer: Ask = become;

// Messages are taken as they come, also between the slices of a long deletion: a batch never waits for a chore.
self.onmessage = async ({ data }: MessageEvent<Message>) => {
  try {
    say({ ...(await answer(data)), id: data.id });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "internal";
    say({ type: "failed", id: data.id, code, message: error instanceof Error ? error.message : "unknown" });
  }
  if (data.type === "stop") process.exit(0);
};

standBack();

/** Whoever waits for an answer goes first. Linux alone: there a priority belongs to the thread that sets it. */
function standBack(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(0, NICE);
  } catch {
    // a confined service may not change priorities; then logs compete with requests, and that is all
  }
}

function say(message: FromThread): void {
  self.postMessage(message);
}

function become(message: Message): Answer {
  if (message.type === "open") answer = asWriter(message);
  else if (message.type === "read") answer = asReader(message.path);
  return { type: "done" };
}

function asWriter({ setup }: Extract<ToWriter, { type: "open" }>): Ask {
  const db = openDatabase(setup.path, LOG_MIGRATIONS, "NORMAL");
  db.run(`pragma journal_size_limit = ${WAL_BYTES_MAX}`);
  db.run(`pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  const pricing = createPricing(setup.prices);
  const pause = () => new Promise<void>((go) => setImmediate(go));
  const writer = createLogWriter({ ...setup, db, pricing, now: Date.now, pause });
  let chores: Promise<unknown> = Promise.resolve(); // one deletion at a time, whoever asked for it
  let writing: Promise<unknown> = chores;

  function chore<T>(work: () => Promise<T>): Promise<T> {
    const done = chores.then(work);
    chores = done.catch(() => {}); // whoever asked hears of it; the next chore starts all the same
    return done;
  }
  const sweep = (): void => {
    chore(writer.sweep).catch((error: unknown) => {
      say({ type: "note", event: "gateway.logs.sweep_failed", fields: { message: String(error) } });
    });
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_MS);

  return async (message) => {
    switch (message.type) {
      case "batch": {
        const records: PackedRecord[] = JSON.parse(message.text);
        const written = writing.then(() => writer.write(records, message.bytes));
        writing = written.catch(() => {}); // the batch's own answer says that it failed
        return { type: "count", count: await written };
      }
      case "cap":
        writer.setCap(message.cap);
        return { type: "done" };
      case "delete": // waits, as the next, for what was recorded before it
        await writing;
        return { type: "count", count: await chore(() => writer.remove(message.selection, message.removal)) };
      case "feedback":
        await writing;
        return { type: "found", found: writer.setFeedback(message.gateway, message.logId, message.feedback) };
      case "stop":
        clearInterval(timer);
        await writing;
        db.close();
        return { type: "done" };
      default:
        return { type: "done" };
    }
  };
}

function asReader(path: string): Ask {
  const db = openDatabase(path, LOG_MIGRATIONS, "NORMAL");
  const reader = createLogReader(db);
  return (message) => {
    switch (message.type) {
      case "list":
        return { type: "page", page: reader.list(message.query) };
      case "get":
        return { type: "detail", detail: reader.get(message.gateway, message.logId) };
      case "body":
        return { type: "body", body: reader.body(message.gateway, message.logId, message.side) };
      case "stats":
        return { type: "stats", stats: reader.stats(message.query) };
      case "stop":
        db.close();
        return { type: "done" };
      default:
        return { type: "done" };
    }
  };
}
