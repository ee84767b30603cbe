// The console's start: asks who is signed in, then shows the way in or the shell.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { currentSession, type Session, signIn, signOut, takeCode } from "./session.ts";
import { Shell } from "./shell.tsx";
import { SignInPage } from "./sign-in.tsx";

type State = { at: "asking" } | { at: "out"; problem?: string } | { at: "in"; session: Session };

function App() {
  const [state, setState] = useState<State>({ at: "asking" });
  useEffect(() => {
    const enter = () => open().then(setState);
    enter();
    // A sign-in link opened in a tab that already shows the console changes only the part after `#`.
    const follow = () => location.hash.startsWith("#code=") && enter();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  if (state.at === "asking") return null;
  if (state.at === "out") {
    return <SignInPage problem={state.problem} onSession={(session) => setState({ at: "in", session })} />;
  }
  const leave = async () => {
    const problem = await signOut();
    setState({ at: "out", ...(problem !== undefined && { problem }) });
  };
  return <Shell session={state.session} onSignOut={leave} />;
}

async function open(): Promise<State> {
  const code = takeCode(location, history);
  if (code !== undefined) {
    const answer = await signIn({ code });
    if ("session" in answer) return { at: "in", session: answer.session };
    const session = await currentSession();
    return session ? { at: "in", session } : { at: "out", problem: answer.problem };
  }
  const session = await currentSession();
  return session ? { at: "in", session } : { at: "out" };
}

const root = document.getElementById("app");
if (root) render(<App />, root);
