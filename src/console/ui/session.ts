// Who is signed in: the session cookie's face on the page. The cookie itself is out of a script's reach.
import { type Answer, call, isRecord } from "./api.ts";

export type Session = { name: string; permissions: string[]; expiresAt?: Date };
export type SignIn = { session: Session } | { problem: string };

const NOT_KEPT =
  "The token is valid, but the browser did not keep the session cookie. Open the console under its https address.";

export async function currentSession(): Promise<Session | undefined> {
  const answer = await call("GET", "/api/session");
  return answer.ok ? toSession(answer.result) : undefined;
}

export async function signIn(credential: { token: string } | { code: string }): Promise<SignIn> {
  const answer = await call("POST", "/api/session", credential);
  if (!answer.ok) return { problem: refusal(answer, "code" in credential) };
  // Asked anew: a browser drops a cookie that is for https when the page came over http.
  const session = await currentSession();
  return session ? { session } : { problem: NOT_KEPT };
}

/** Why it did not happen, if it did not: then the cookie is still good. */
export async function signOut(): Promise<string | undefined> {
  const answer = await call("DELETE", "/api/session");
  return answer.ok ? undefined : `This browser is still signed in. ${answer.message}`;
}

/** The code of a sign-in link `/#code=…`, taken out of the address so that it stays in no history. */
export function takeCode(location: Location, history: History): string | undefined {
  const code = /^#code=([\w.~-]+)$/.exec(location.hash)?.[1];
  if (code !== undefined) history.replaceState(null, "", location.pathname);
  return code;
}

function refusal(answer: Extract<Answer, { ok: false }>, byCode: boolean): string {
  if (answer.status !== 401 && answer.status !== 400) return answer.message;
  return byCode
    ? "This sign-in link was used already or is older than 15 minutes. Use a token instead."
    : "This token is not valid. It may have been revoked, or part of it is missing.";
}

function toSession(value: unknown): Session | undefined {
  if (!isRecord(value) || typeof value.name !== "string" || !Array.isArray(value.permissions)) return undefined;
  const { name, permissions, expires_at: expires } = value;
  return {
    name,
    permissions: permissions.filter((permission) => typeof permission === "string"),
    ...(typeof expires === "string" && { expiresAt: new Date(expires) }),
  };
}
