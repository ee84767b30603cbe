// The live tail as server-sent events. A watcher that reads too slowly loses events, not the server its memory.
import { AppError } from "../platform/errors.ts";
import type { Tail } from "./tail.ts";

const BEHIND_MAX = 1_000; // events waiting for one watcher; further ones are dropped until it has caught up
const BEAT_MS = 15_000; // proxies cut what is silent

export function tailStream(tail: Tail, source: string | undefined): Response {
  const encoder = new TextEncoder();
  let stop: (() => void) | undefined;
  let beat: Timer | undefined;
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const put = (text: string): void => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(text));
        };
        stop = tail.watch({
          see(event) {
            if (source === undefined || event.source === source) put(`data: ${JSON.stringify(event)}\n\n`);
          },
          end() {
            clearInterval(beat);
            controller.close();
          },
        });
        if (!stop) throw new AppError("access.slow_down", { say: "Too many are watching already" });
        put(": watching\n\n");
        beat = setInterval(() => put(": still here\n\n"), BEAT_MS);
      },
      cancel() {
        stop?.();
        clearInterval(beat);
      },
    },
    { highWaterMark: BEHIND_MAX },
  );
  return new Response(stream, { headers: { "content-type": "text/event-stream", "cache-control": "no-store" } });
}
