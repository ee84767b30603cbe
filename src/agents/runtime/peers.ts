// Other agents, reached by class and name through the main thread.
import type { Ask, CallOutcome, FromAgent } from "../protocol.ts";

export type Peers = ReturnType<typeof createPeers>;

const ASKS_MAX = 1_000; // asks of one agent under way at once; past it the code asks in a loop without awaiting

export function createPeers(put: (message: FromAgent) => void) {
  const waiting = new Map<number, (outcome: CallOutcome) => void>();
  let lastId = 0;

  async function ask(className: string, name: string, what: Ask): Promise<unknown> {
    if (waiting.size >= ASKS_MAX) throw new Error(`At most ${ASKS_MAX} calls to other agents may be under way at once`);
    const id = ++lastId;
    const answer = Promise.withResolvers<CallOutcome>();
    waiting.set(id, answer.resolve); // the main thread always answers: its own calls have a deadline
    put({ type: "ask", id, className, name, what });
    const outcome = await answer.promise;
    if (outcome.ok) return outcome.output;
    throw new Error(outcome.message ?? `${className}/${name}: ${outcome.code}`);
  }

  return {
    ask,
    answered(id: number, outcome: CallOutcome): void {
      waiting.get(id)?.(outcome);
      waiting.delete(id);
    },
    /** Resolves once the other agent has started; `props` count only if it had not. */
    start: (className: string, name: string, props: string) => ask(className, name, { verb: "start", props }),
    call: (className: string, name: string, method: string, args: unknown[]) =>
      ask(className, name, { verb: "call", method, args: structuredClone(args) }),
    async fetch(className: string, name: string, request: Request): Promise<Response> {
      const body = request.body ? await request.bytes() : null;
      const head = { method: request.method, url: request.url, headers: [...request.headers] };
      return toResponse(await ask(className, name, { verb: "fetch", ...head, body }));
    },
  };
}

function toResponse(answer: unknown): Response {
  if (
    typeof answer !== "object" ||
    answer === null ||
    !("status" in answer && "headers" in answer && "body" in answer)
  ) {
    throw new Error("The answer of the other agent is not a response");
  }
  const { status, headers, body } = answer as {
    status: number;
    headers: [string, string][];
    body: Uint8Array<ArrayBuffer>;
  };
  return new Response(body.length > 0 ? body : null, { status, headers });
}
