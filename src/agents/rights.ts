// What this caller may do with this agent: by token, ticket, console session, or because the class is open to all.
import type { Access } from "../platform/access.ts";
import { AppError } from "../platform/errors.ts";
import type { OriginRule } from "../platform/origin.ts";
import { may } from "../platform/permissions.ts";
import type { AgentClassEntry } from "./catalog.ts";
import type { Tickets } from "./tickets.ts";

export type Rights = { mayEdit: boolean; mayWriteState: boolean; mayCreate: boolean; tokenId: string | undefined };
export type RightsParts = { access: Access; origins: OriginRule; tickets: Tickets };

/** Throws `access.missing` or `access.denied`. `entry` is undefined for a class that does not exist. */
export function rightsOf(
  request: Request,
  target: { className: string; name: string; queryToken: string | undefined },
  entry: AgentClassEntry | undefined,
  { access, origins, tickets }: RightsParts,
): Rights {
  const { className, name, queryToken } = target;
  if (queryToken !== undefined && tickets.isTicket(queryToken)) {
    const ticket = tickets.read(queryToken);
    if (ticket && ticket.className === className && ticket.name === name)
      return ofToken(ticket.mayEdit, ticket.tokenId);
  } else {
    const principal = queryToken === undefined ? access.ofRequest(request) : access.byToken(queryToken);
    const scope = { agentClass: className, agentName: name };
    if (principal && may(principal, "agents:edit", scope)) return ofToken(true, principal.tokenId);
    if (principal && may(principal, "agents:read", scope)) return ofToken(false, principal.tokenId);
    if (principal && !entry?.options.public) throw new AppError("access.denied");
  }
  const open = entry?.options.public;
  if (!open) throw refusal(request, queryToken, access);
  // No credential protects this: a page elsewhere must not use a visitor's browser as its tool.
  origins.requireOurs(request);
  const mayEdit = open === true;
  const mayWriteState = mayEdit && entry.options.clientState === true;
  return { mayEdit, mayWriteState, mayCreate: true, tokenId: undefined };
}

function ofToken(mayEdit: boolean, tokenId: string): Rights {
  return { mayEdit, mayWriteState: mayEdit, mayCreate: mayEdit, tokenId };
}

/** A wrong value is a guess and is slowed down; a missing one is not. */
function refusal(request: Request, queryToken: string | undefined, access: Access): AppError {
  const guessed = queryToken !== undefined || request.headers.has("authorization");
  return guessed ? access.refused(request) : new AppError("access.missing");
}

/** Is this value one of ours? Then the agent must not see it. */
export const isOurToken = (value: string, access: Access, tickets: Tickets): boolean =>
  tickets.isTicket(value) || /^gh_/.test(value) || access.byToken(value) !== undefined;
