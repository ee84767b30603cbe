// The way in: a token, or the link that the first start printed.
import { useState } from "preact/hooks";
import { Mark } from "./icon.tsx";
import { type Session, signIn } from "./session.ts";

type Props = { problem?: string | undefined; onSession(session: Session): void };

export function SignInPage({ problem: before, onSession }: Props) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(before);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    const answer = await signIn({ token: token.trim() });
    setBusy(false);
    if ("session" in answer) onSession(answer.session);
    else setProblem(answer.problem);
  };
  return (
    <main class="door">
      <form class="card" onSubmit={submit}>
        <Mark />
        <h1>Sign in to Gatehouse</h1>
        {/* Password managers file a password under a name; every token gets the same one. */}
        <input type="text" autocomplete="username" value="token" readOnly hidden />
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          placeholder="gh_…"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p class="problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
        <p class="hint">
          The first start shows an admin token and a sign-in link. Neither at hand? On the host, run{" "}
          <code>gatehouse token create --admin</code>.
        </p>
      </form>
    </main>
  );
}
