// Tickets: a value for `?token=` that opens one agent for a minute, so that no lasting token stands in a URL.
import { createHash, randomBytes } from "node:crypto";

export type Tickets = ReturnType<typeof createTickets>;
export type Ticket = { className: string; name: string; mayEdit: boolean; tokenId: string };

export const TICKET_MS = 60_000;
const TICKETS_MAX = 10_000; // per minute; past it the oldest go, and a page asks for another
const PREFIX = "gt_";

export function createTickets(now: () => number) {
  const open = new Map<string, Ticket & { untilMs: number }>();

  function sweep(): void {
    for (const [key, { untilMs }] of open) {
      if (untilMs > now() && open.size < TICKETS_MAX) break; // in order of issue, so the rest is younger
      open.delete(key);
    }
  }

  return {
    issue(ticket: Ticket): { value: string; expiresMs: number } {
      sweep();
      const value = `${PREFIX}${randomBytes(32).toString("base64url")}`;
      const expiresMs = now() + TICKET_MS;
      open.set(digest(value), { ...ticket, untilMs: expiresMs });
      return { value, expiresMs };
    },
    isTicket: (value: string): boolean => value.startsWith(PREFIX),
    /** Good for any number of connections within its minute: a page reconnects. */
    read(value: string): Ticket | undefined {
      const ticket = open.get(digest(value));
      return ticket && ticket.untilMs > now() ? ticket : undefined;
    },
    revoke(tokenId: string): void {
      for (const [key, ticket] of open) if (ticket.tokenId === tokenId) open.delete(key);
    },
  };
}

/** Looked up by digest, so that how long a look-up takes says nothing about a value. */
const digest = (value: string): string => createHash("sha256").update(value).digest("base64");
