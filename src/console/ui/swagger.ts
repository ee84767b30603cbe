// The Swagger page: gets the API document with the session or a token, then hands over to Swagger UI.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import { isRecord } from "./api.ts";

/** Where Swagger UI itself remembers what was entered under "Authorize". */
const REMEMBERED = "authorized";

// Swagger UI brings its dark colours along, but leaves it to the page to ask for them.
document.documentElement.classList.toggle("dark-mode", matchMedia("(prefers-color-scheme: dark)").matches);

const door = find("door", HTMLFormElement);
const field = find("door-token", HTMLInputElement);
const problem = find("door-problem", HTMLElement);

door.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  const token = field.value.trim();
  const answer = await load(token);
  if ("spec" in answer) show(answer.spec, token);
  else problem.textContent = answer.problem;
});

const remembered = rememberedToken();
let first = await load();
if ("denied" in first && remembered !== undefined) first = await load(remembered);
if ("spec" in first) show(first.spec);
else {
  door.hidden = false;
  field.focus();
  if (!("denied" in first)) problem.textContent = first.problem;
}

type Answer = { spec: Record<string, unknown> } | { problem: string; denied?: true };

async function load(token?: string): Promise<Answer> {
  try {
    const headers: HeadersInit = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch("/swagger/json", { headers });
    if (response.status === 401 || response.status === 403)
      return { problem: "This token is not valid.", denied: true };
    const spec: unknown = response.ok ? await response.json() : undefined;
    return isRecord(spec) ? { spec } : { problem: `The server answered ${response.status}.` };
  } catch {
    return { problem: "The server did not answer, or the token holds a character that a header cannot carry." };
  }
}

function show(spec: Record<string, unknown>, token?: string): void {
  door.hidden = true;
  // Out of what was loaded: a plain link would be asked for without the token.
  const link = find("document", HTMLAnchorElement);
  link.href = URL.createObjectURL(new Blob([JSON.stringify(spec, null, 2)], { type: "application/json" }));
  link.hidden = false;
  const ui = SwaggerUI({
    spec,
    dom_id: "#swagger",
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    persistAuthorization: true,
    tagsSorter: "alpha",
    validatorUrl: null, // the default sends the document's address to a validator on the internet
    onComplete: () => {
      // The token that opened the door is also what "Try it out" should send.
      const scheme = bearerScheme(spec);
      if (token === undefined || scheme === undefined) return;
      const [name, schema] = scheme;
      ui.authActions.authorizeWithPersistOption({ [name]: { name, schema, value: token } });
    },
  });
}

function bearerScheme(spec: Record<string, unknown>): [string, unknown] | undefined {
  const schemes = isRecord(spec.components) ? spec.components.securitySchemes : undefined;
  const entries = isRecord(schemes) ? Object.entries(schemes) : [];
  return entries.find(([, scheme]) => isRecord(scheme) && scheme.type === "http" && scheme.scheme === "bearer");
}

function rememberedToken(): string | undefined {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(REMEMBERED) ?? "{}");
    const values = isRecord(kept)
      ? Object.values(kept).map((entry) => (isRecord(entry) ? entry.value : undefined))
      : [];
    return values.find((value) => typeof value === "string");
  } catch {
    return undefined; // storage is off or holds something else: then nothing is remembered
  }
}

function find<T extends HTMLElement>(id: string, kind: new () => T): T {
  const element = document.getElementById(id);
  if (element instanceof kind) return element;
  throw new Error(`the page has no #${id}`);
}
