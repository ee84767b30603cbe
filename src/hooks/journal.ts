// The main thread's handle on the journal. While one commit is under way all that arrives waits for the next one,
// so an answer costs one flush however many deliveries share it.
import { AppError } from "../platform/errors.ts";
import type {
  Append,
  Appended,
  Batch,
  FromJournal,
  JournalLimits,
  Mark,
  Question,
  Questions,
  Rejection,
  ToJournal,
} from "./journal-schema.ts";
import { within } from "./within.ts";

export type Journal = ReturnType<typeof createJournal>;

type Waiting = { appends: Append[]; answer: PromiseWithResolvers<Appended[]> };

const WAITING_BYTES_MAX = 128 * 1024 * 1024; // in memory before the disk has it; past it senders are told to come back
const COMMIT_BYTES_MAX = 32 * 1024 * 1024; // one transaction; larger ones would make everybody wait
const COMMIT_ROWS_MAX = 1_000;
const REJECTIONS_WAITING_MAX = 1_000;
const ALONE_MS = 1_000; // how long an outcome or a refused request waits for a delivery to share its flush with
const REST_MS = 1_000;
const STOP_MS_MAX = 5_000;

/** The thread starts at the first use, and again after a failure: a commit that failed is not a reason to stop for good. */
export function createJournal(workerUrl: string | URL, path: string, limits: JournalLimits) {
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  let thread: { worker: Worker; closed: Promise<void> } | undefined;
  let queue: Waiting[] = [];
  let queuedBytes = 0;
  let marks = new Map<number, Mark>();
  let rejections: Rejection[] = [];
  let committing: Promise<void> | undefined;
  let resting: Timer | undefined;
  let tidying: Timer | undefined;
  let lastId = 0;
  let gone: AppError | undefined;

  function start() {
    const worker = new Worker(workerUrl, { env: {} });
    const closed = Promise.withResolvers<void>();
    const lost = (reason: string): void => {
      if (thread?.worker === worker) lose(reason); // the one after it has done nothing wrong
    };
    worker.onmessage = ({ data }: MessageEvent<FromJournal>) => {
      if (data.type === "unopened") lost(`${path}: ${data.message}`);
      else if (data.type === "done") settle(data.id)?.resolve(data.output);
      else if (data.type === "failed") settle(data.id)?.reject(toError(data.kind, data.message));
    };
    worker.onerror = (event) => lost(event.message);
    worker.addEventListener("close", () => {
      closed.resolve();
      lost("the thread ended");
    });
    worker.postMessage({ type: "open", path, limits } satisfies ToJournal);
    tidying ??= setInterval(() => {
      if (!committing && !resting) writeRest();
    }, ALONE_MS);
    return { worker, closed: closed.promise };
  }

  function settle(id: number): PromiseWithResolvers<unknown> | undefined {
    const answer = asked.get(id);
    asked.delete(id);
    return answer;
  }

  function lose(reason: string): void {
    const error = toError("failed", reason);
    thread?.worker.terminate();
    thread = undefined;
    failAll(error);
    rest();
  }

  function failAll(error: AppError): void {
    for (const answer of asked.values()) answer.reject(error);
    asked.clear();
    for (const { appends, answer } of queue.splice(0)) {
      queuedBytes -= bytesOf(appends);
      answer.reject(error);
    }
  }

  function send(message: (id: number) => ToJournal): Promise<unknown> {
    if (gone || (resting && !thread)) return Promise.reject(gone ?? toError("failed", "resting after a failure"));
    thread ??= start();
    const id = ++lastId;
    const answer = Promise.withResolvers<unknown>();
    asked.set(id, answer);
    thread.worker.postMessage(message(id));
    return answer.promise;
  }

  /** Resolves when they are on the disk, all of them or none. */
  function append(appends: Append[]): Promise<Appended[]> {
    if (gone) return Promise.reject(gone);
    const bytes = bytesOf(appends);
    if (queuedBytes + bytes > WAITING_BYTES_MAX)
      return Promise.reject(new AppError("hook.journal", { headers: RETRY }));
    queuedBytes += bytes;
    const answer = Promise.withResolvers<Appended[]>();
    queue.push({ appends, answer });
    pump();
    return answer.promise;
  }

  /**
   * Not awaited by anyone, and mostly in no hurry: an outcome that is lost in a crash means that the delivery is made
   * again, and its agent knows it.
   */
  function mark(one: Mark, when: "soon" | "now" = "soon"): void {
    marks.set(one.seq, one);
    if (when === "now" && !resting) writeRest();
  }

  function reject(one: Rejection): void {
    rejections.push(one);
    if (rejections.length > REJECTIONS_WAITING_MAX) rejections.shift();
  }

  function pump(): void {
    if (committing || gone || queue.length === 0) return;
    committing = commit().finally(() => {
      committing = undefined;
      pump();
    });
  }

  async function commit(): Promise<void> {
    const group = takeGroup();
    const appends = group.flatMap((waiting) => waiting.appends);
    try {
      const appended = await write(appends);
      let at = 0;
      for (const { appends: own, answer } of group) {
        answer.resolve(appended.slice(at, at + own.length));
        at += own.length;
      }
    } catch (error) {
      for (const { answer } of group) answer.reject(error);
    } finally {
      queuedBytes -= bytesOf(appends);
    }
  }

  /** These deliveries, and every outcome and rejection known by now, in one transaction. */
  async function write(appends: Append[]): Promise<Appended[]> {
    const batch: Batch = { appends, marks: [...marks.values()], rejections };
    marks = new Map();
    rejections = [];
    try {
      return (await send((id) => ({ type: "commit", id, batch }))) as Appended[]; // our own thread's answer
    } catch (error) {
      keep(batch.marks);
      rest();
      throw error;
    }
  }

  /** A full disk does not get better by asking it all the time. */
  function rest(): void {
    if (resting) return;
    resting = setTimeout(() => {
      resting = undefined;
      pump();
    }, REST_MS);
  }

  /** Outcomes that could not be written go along with the next commit, unless a newer one took their place. */
  function keep(unwritten: readonly Mark[]): void {
    for (const one of unwritten) if (!marks.has(one.seq)) marks.set(one.seq, one);
  }

  function takeGroup(): Waiting[] {
    let rows = 0;
    let bytes = 0;
    const past = queue.findIndex(({ appends }, index) => {
      rows += appends.length;
      bytes += bytesOf(appends);
      return index > 0 && (rows > COMMIT_ROWS_MAX || bytes > COMMIT_BYTES_MAX);
    });
    const group = past === -1 ? queue : queue.slice(0, past);
    queue = past === -1 ? [] : queue.slice(past);
    return group;
  }

  /** Outcomes and rejections that no delivery took along. */
  function writeRest(): void {
    if (marks.size > 0 || rejections.length > 0) write([]).catch(ignored);
  }

  /** Sees every outcome and rejection that was reported before it was asked. */
  async function ask<Name extends Question>(question: Name, input: Questions[Name][0]): Promise<Questions[Name][1]> {
    writeRest();
    return (await send((id) => ({ type: "ask", id, question, input }))) as Questions[Name][1]; // typed by `Questions`
  }

  /** A thread that is stuck in the disk cannot be ended; nobody waits for it for ever. */
  async function stop(): Promise<void> {
    await within(STOP_MS_MAX, finish());
    gone = new AppError("server.stopping");
    clearInterval(tidying);
    clearTimeout(resting);
    const last = thread;
    thread = undefined;
    if (last) {
      last.worker.postMessage({ type: "stop" } satisfies ToJournal);
      await within(STOP_MS_MAX, last.closed);
      last.worker.terminate();
    }
    failAll(gone);
  }

  async function finish(): Promise<void> {
    while (committing) await committing;
    if (thread && (marks.size > 0 || rejections.length > 0)) await write([]).catch(ignored);
  }

  return { append, mark, reject, ask, stop, isUp: () => gone === undefined && (thread !== undefined || !resting) };
}

/** Outcomes stay queued, and an outcome or rejection that is lost in the end loses no delivery. */
const ignored = (): void => {};

const RETRY = { "retry-after": "30" };

function toError(kind: "full" | "failed", message: string): AppError {
  const detail = { headers: RETRY, cause: new Error(message) };
  // Full is for the operator to know, once a minute and not once a delivery: intake says it.
  return kind === "full"
    ? new AppError("hook.full", { ...detail, expected: true })
    : new AppError("hook.journal", detail);
}

function bytesOf(appends: readonly Append[]): number {
  return appends.reduce((sum, { body }) => sum + body.byteLength, 0);
}
