// The main thread's line to one log thread: questions with answers, none of which outlives the thread.
import { AppError } from "../../platform/errors.ts";
import type { Answer, FromThread, ToReader, ToWriter } from "./protocol.ts";

type Question = ToWriter | ToReader;
type Unnumbered<T> = T extends { id: number } ? Omit<T, "id"> : never;
type Waiting = { settle(message: FromThread): void; reject(error: Error): void };
type LineLimits = { waitingMax: number; answerMsMax: number };

export type Line = ReturnType<typeof startLine>;

export function startLine(
  threadUrl: string,
  note: (event: string, fields: Record<string, unknown>) => void,
  ended: () => void,
  { waitingMax, answerMsMax }: LineLimits,
) {
  const worker = new Worker(threadUrl, { env: {}, smol: true }); // nobody waits for it; 12 MB less is worth more
  const waiting = new Map<number, Waiting>();
  const closed = Promise.withResolvers<void>();
  let lastId = 0;
  let gone: Error | undefined;

  worker.onmessage = ({ data }: MessageEvent<FromThread>) => {
    if (data.type === "note") return note(data.event, data.fields);
    const it = waiting.get(data.id);
    waiting.delete(data.id);
    it?.settle(data);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    note("gateway.logs.thread_failed", { message: event.message });
  };
  worker.addEventListener("close", () => {
    gone = new AppError("gateway.logs_down");
    for (const { reject } of waiting.values()) reject(gone);
    waiting.clear();
    closed.resolve();
    ended();
  });

  /** `expected` names the kind of answer; anything else is a failure. */
  function ask<T extends Answer["type"]>(
    question: Unnumbered<Question>,
    expected: T,
    transfer: ArrayBuffer[] = [],
  ): Promise<Extract<Answer, { type: T }>> {
    const answer = Promise.withResolvers<Extract<Answer, { type: T }>>();
    if (gone || waiting.size >= waitingMax) return Promise.reject(gone ?? new AppError("gateway.logs_busy"));
    const id = ++lastId;
    worker.postMessage({ ...question, id }, transfer);
    const timer = setTimeout(() => answer.reject(new AppError("gateway.logs_busy")), answerMsMax);
    waiting.set(id, {
      settle: (message) => (isOf(message, expected) ? answer.resolve(message) : answer.reject(toError(message))),
      reject: answer.reject,
    });
    return answer.promise.finally(() => clearTimeout(timer));
  }

  /** A thread inside one long statement cannot be ended; then we leave without it. */
  async function stop(msMax: number): Promise<void> {
    if (gone) return;
    ask({ type: "stop" }, "done").catch(() => {}); // `closed` below is the answer that counts
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      worker.terminate();
      late.resolve();
    }, msMax);
    await Promise.race([closed.promise, late.promise]);
    clearTimeout(timer);
  }

  return { ask, stop };
}

function isOf<T extends Answer["type"]>(message: FromThread, type: T): message is Extract<FromThread, { type: T }> {
  return message.type === type;
}

function toError(message: FromThread): Error {
  if (message.type !== "failed") return new Error(`unexpected answer ${message.type}`);
  const full = message.code === "SQLITE_FULL";
  return new AppError(full ? "storage.full" : "internal", { cause: new Error(`${message.code}: ${message.message}`) });
}
