// Tags as lines of JSON, in and out: any number of them, a bounded number in memory.
import { AppError } from "../platform/errors.ts";
import { toLine } from "./model.ts";
import type { Payloads } from "./payload.ts";
import type { Position } from "./position.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { Query } from "./search.ts";
import type { TagStore, Write } from "./store.ts";

const EXPORT_ROWS = 500; // read and sent at a time
const IMPORT_ROWS = 500; // lines of one transaction: one flush to disk for all, and short enough for others to get a turn
const LINE_BYTES_MAX = 1_048_576; // as much as a single set may send
const NEWLINE = 10;

/** Not a snapshot: what is written while it runs is in it or not, as with pages. `admit` throws when the caller is out. */
export function exportLines(tags: TagStore, types: ResourceTypes, account: string, query: Query, admit: () => void) {
  let after: Position | undefined;
  let ended = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (ended) return controller.close();
        admit();
        const { items, more } = await tags.find(account, query, after, EXPORT_ROWS);
        after = items.at(-1);
        ended = !more;
        if (items.length > 0) controller.enqueue(Buffer.from(items.map((item) => toLine(item, types)).join("")));
        if (ended) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}

/** Stores line after line and says how many. At the first bad line it stops; what came before it stays stored. */
export async function importLines(
  tags: TagStore,
  payloads: Payloads,
  account: string,
  body: ReadableStream<Uint8Array> | null,
  admit: () => void,
): Promise<number> {
  let stored = 0;
  let batch: Write[] = [];
  const put = (writes: Write[]): void => {
    admit();
    tags.replaceAll(account, writes);
    stored += writes.length;
  };
  const store = async (): Promise<void> => {
    const writes = batch;
    batch = []; // first: a batch that is refused must not be tried again
    try {
      put(writes);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      // One is refused, and with it all: those before it are stored one at a time, until it is met again.
      for (const write of writes) {
        put([write]);
        await new Promise(setImmediate);
      }
    }
  };
  try {
    for await (const { number, text } of linesOf(body)) {
      batch.push(payloads.item(parse(number, text), `line ${number}`));
      if (batch.length < IMPORT_ROWS) continue;
      await store();
      await new Promise(setImmediate);
    }
    await store();
    return stored;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    await store();
    throw new AppError(error.code, {
      say: `${error.message}; ${stored} resources before it were stored`,
      cause: error,
    });
  }
}

function parse(number: number, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new AppError("tags.set_payload", { say: `line ${number}: not valid JSON`, cause });
  }
}

async function* linesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<{ number: number; text: string }> {
  const utf8 = new TextDecoder("utf-8", { fatal: true });
  let number = 0;
  let rest: Uint8Array[] = [];
  let restBytes = 0;
  const finish = (end: Uint8Array): string => {
    number += 1;
    const bytes = rest.length === 0 ? end : Buffer.concat([...rest, end]);
    rest = [];
    restBytes = 0;
    if (bytes.byteLength > LINE_BYTES_MAX) throw tooLong(number);
    try {
      return utf8.decode(bytes).trim();
    } catch (cause) {
      throw new AppError("tags.set_payload", { say: `line ${number}: not valid UTF-8`, cause });
    }
  };
  for await (const chunk of body ?? []) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const text = finish(chunk.subarray(start, end));
      start = end + 1;
      if (text !== "") yield { number, text };
    }
    const left = chunk.subarray(start);
    restBytes += left.byteLength;
    if (restBytes > LINE_BYTES_MAX) throw tooLong(number + 1);
    if (left.byteLength > 0) rest.push(left);
  }
  const text = finish(new Uint8Array(0));
  if (text !== "") yield { number, text };
}

function tooLong(number: number): AppError {
  return new AppError("input.too_large", { say: `line ${number} is too large (maximum ${LINE_BYTES_MAX} bytes)` });
}
