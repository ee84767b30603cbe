// The files that `gatehouse init` writes: an example that works, and what an editor needs to understand it.
import { DECLARATIONS } from "./sdk/declarations.ts";

const EXAMPLE = `// An example agent: a counter that everyone connected to it sees. Change it, save, and it runs.
import { Agent, callable, type Connection } from "gatehouse";

type State = { count: number; lastChange: string | null };

export class Counter extends Agent<Record<string, string>, State> {
  initialState: State = { count: 0, lastChange: null };

  override onStart() {
    this.sql\`create table if not exists history (id integer primary key, count integer, at text)\`;
  }

  @callable({ description: "add to the counter" })
  add(by = 1): number {
    const count = this.state.count + by;
    const lastChange = new Date().toISOString();
    this.sql\`insert into history (count, at) values (\${count}, \${lastChange})\`;
    this.setState({ count, lastChange }); // stored, and sent to every client
    return count;
  }

  @callable({ description: "the latest changes, newest first" })
  history(limit = 10) {
    return this.sql<{ count: number; at: string }>\`select count, at from history order by id desc limit \${limit}\`;
  }

  @callable({ description: "set the counter back, some seconds from now" })
  async resetIn(seconds: number): Promise<string> {
    const { id } = await this.schedule(seconds, "reset");
    return id;
  }

  reset(): void {
    this.setState({ count: 0, lastChange: new Date().toISOString() });
  }

  override onRequest(): Response {
    return Response.json({ name: this.name, ...this.state });
  }

  override onMessage(connection: Connection, message: string | ArrayBuffer): void {
    if (typeof message === "string") connection.send(\`you said: \${message}\`);
  }
}
`;

const TSCONFIG = `{
  "compilerOptions": {
    "target": "ESNext",
    "module": "Preserve",
    "moduleResolution": "bundler",
    "lib": ["ESNext", "DOM", "DOM.Iterable"],
    "types": [],
    "strict": true,
    "skipLibCheck": true,
    "allowImportingTsExtensions": true,
    "resolveJsonModule": true,
    "noEmit": true
  },
  "include": ["."]
}
`;

/** Paths inside the agents folder. Types go one level down, where files are helpers and never agents. */
export const SCAFFOLD: Record<string, string> = {
  "counter.ts": EXAMPLE,
  "tsconfig.json": TSCONFIG,
  "types/gatehouse.d.ts": DECLARATIONS,
};
