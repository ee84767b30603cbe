// The journal's thread: opens the file, commits what it is sent, answers questions. A slow disk stalls this thread alone.
import { type Answers, createAnswers } from "./journal-queries.ts";
import { isFull } from "./journal-retention.ts";
import type { FromJournal, Question, ToJournal } from "./journal-schema.ts";
import { JournalFull, type JournalStore, openJournalStore } from "./journal-store.ts";

declare const self: Worker;

const SWEEP_MS = 60_000; // old rows are in nobody's way, so once a minute is often enough

let store: JournalStore | undefined;
let answers: Answers | undefined;

const say = (message: FromJournal): void => self.postMessage(message);

self.onmessage = ({ data }: MessageEvent<ToJournal>) => {
  if (data.type === "open") open(data);
  else if (data.type === "stop") stop();
  else reply(data);
};

function open({ path, limits }: Extract<ToJournal, { type: "open" }>): void {
  try {
    store = openJournalStore(path, limits);
    answers = createAnswers(store);
    setInterval(sweep, SWEEP_MS);
  } catch (error) {
    say({ type: "unopened", message: error instanceof Error ? error.message : "unreadable" });
  }
}

function reply(message: Extract<ToJournal, { id: number }>): void {
  try {
    if (!store || !answers) throw new Error("the journal is not open");
    const output =
      message.type === "commit" ? store.commit(message.batch) : ask(answers, message.question, message.input);
    say({ type: "done", id: message.id, output });
  } catch (error) {
    const kind = error instanceof JournalFull || isFull(error) ? "full" : "failed";
    say({ type: "failed", id: message.id, kind, message: error instanceof Error ? error.message : "unknown" });
  }
}

function ask<Name extends Question>(all: Answers, question: Name, input: unknown): unknown {
  const answer: (input: never) => unknown = all[question];
  return answer(input as never); // both ends of this channel are ours, and `Questions` types the other end
}

function sweep(): void {
  try {
    store?.retention.sweep(Date.now());
  } catch (error) {
    if (!isFull(error)) throw error; // a full disk is met again, and answered, by the next commit
  }
}

function stop(): void {
  store?.close();
  process.exit(0);
}
