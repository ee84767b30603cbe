// Calls from the page to the server it came from. Answers are checked, since a proxy may have answered instead.

export type Answer = { ok: true; result: unknown } | { ok: false; status: number; message: string };

/** `status` 0 means that no server answered at all. */
export async function call(method: string, path: string, body?: unknown): Promise<Answer> {
  try {
    const response = await fetch(path, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    const reply: unknown = await response.json().catch(() => undefined);
    if (response.ok) return { ok: true, result: isRecord(reply) && "result" in reply ? reply.result : reply };
    return {
      ok: false,
      status: response.status,
      message: messageOf(reply) ?? `The server answered ${response.status}.`,
    };
  } catch {
    return { ok: false, status: 0, message: "The server does not answer. Is it running?" };
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function messageOf(reply: unknown): string | undefined {
  const first: unknown = isRecord(reply) && Array.isArray(reply.errors) ? reply.errors[0] : undefined;
  return isRecord(first) && typeof first.message === "string" ? `${first.message}.` : undefined;
}
