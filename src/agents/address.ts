// What an agent's URL says, read from its raw text: a name is the segment as it was sent, never decoded. Pure.
import type { Access } from "../platform/access.ts";
import { isOurToken } from "./rights.ts";
import { isAgentName } from "./runtime/names.ts";
import type { Tickets } from "./tickets.ts";

export type Address = {
  className: string;
  name: string;
  /** The URL as the agent sees it: without our token. */
  url: string;
  queryToken: string | undefined;
  /** The client's own id for its connection. */
  connectionId: string;
  transport: string | undefined;
};

export function parseAddress(url: string): Address | undefined {
  const pathAt = url.indexOf("/", url.indexOf("//") + 2);
  const queryAt = url.indexOf("?", pathAt);
  const path = url.slice(pathAt, queryAt === -1 ? undefined : queryAt);
  const [, , className = "", name = ""] = path.split("/");
  if (className === "" || !isAgentName(name)) return undefined;
  const pairs = queryAt === -1 ? [] : url.slice(queryAt + 1).split("&");
  const kept = pairs.filter((pair) => !/^token(=|$)/.test(pair));
  const query = new URLSearchParams(queryAt === -1 ? "" : url.slice(queryAt + 1));
  return {
    className,
    name,
    url: `${url.slice(0, queryAt === -1 ? undefined : queryAt)}${kept.length > 0 ? `?${kept.join("&")}` : ""}`,
    queryToken: query.get("token") ?? undefined,
    connectionId: query.get("_pk") ?? "",
    transport: query.get("__agents_transport") ?? undefined,
  };
}

/** An agent sees a caller's headers, but never the credentials that are for us. */
export function toAgentHeaders(
  headers: Headers,
  { access, tickets, cookie }: { access: Access; tickets: Tickets; cookie: string },
): [string, string][] {
  return [...headers].flatMap(([name, value]): [string, string][] => {
    if (name === "authorization") {
      const token = value.replace(/^Bearer +/i, "").trim();
      return isOurToken(token, access, tickets) ? [] : [[name, value]];
    }
    if (name === "cookie") {
      const others = value.split(/;\s*/).filter((pair) => !pair.startsWith(`${cookie}=`));
      return others.length > 0 ? [[name, others.join("; ")]] : [];
    }
    return [[name, value]];
  });
}
