// Provider rows: a name in a gateway's path becomes one upstream address. Pure, and the only place that joins addresses.

export type ProviderRow = {
  /** Origin and fixed path, without a trailing slash. `{region}` and the like are filled by `place`. */
  base: string;
  /** The version segment callers may write or leave out; it reaches upstream exactly once. */
  version?: string;
  /** The version is part of an operator's own address: a caller may repeat it, but not put another in its place. */
  versionFixed?: true;
  /** Which bare paths get the version. Absent: all. Home servers have paths of their own beside it. */
  versioned?: RegExp;
  /** Takes the parts of the host out of the path. Absent: the path is appended as it is. */
  place?: (path: string) => Placed | undefined;
  /** `@` is part of this provider's own paths. */
  at?: true;
  /** Header in which its credential travels. */
  key: string;
  /** Its name in the price table. */
  price?: string;
  /** Runs on the operator's own machine. */
  local?: true;
};
type Placed = { host: Record<string, string>; path: string };

/** A row made ready for requests. */
export type Provider = ProviderRow & {
  slug: string;
  /** Sent on every request; an operator's own provider may have some. */
  headers?: Record<string, string>;
  /** An admin allowed its address to be a private one. */
  privateAllowed?: boolean;
};

/** The part of a host that a caller writes. Nothing else can change where a request goes. */
const HOST_LABEL = /^[a-z0-9-]{1,63}$/;
const VERSION_SEGMENT = /^v\d+(?:(?:alpha|beta)\d*)?(?=\/|$)/;
/** Dots or slashes that an upstream might fold, written plainly or escaped. */
const UNSAFE_PATH = /(?:\.|%2e){2}|\/\/|^\/|\\|%5c/i;
const OPENAI_PATH =
  /^(?:chat|completions|responses|embeddings|models|audio|images|files|batches|moderations|messages|rerank|realtime|uploads|fine_tuning|vector_stores)(?:\/|$)/;

const bearer = "authorization";
const openaiLike = (base: string, price?: string): ProviderRow => ({
  base,
  version: "v1",
  key: bearer,
  ...(price ? { price } : {}),
});
const home = (base: string): ProviderRow => ({
  base,
  version: "v1",
  versioned: OPENAI_PATH,
  key: bearer,
  local: true,
});
const plain = (base: string, key = bearer): ProviderRow => ({ base, key });

export const PROVIDERS: Readonly<Record<string, ProviderRow>> = {
  openai: openaiLike("https://api.openai.com", "openai"),
  anthropic: { base: "https://api.anthropic.com", version: "v1", key: "x-api-key", price: "anthropic" },
  "google-ai-studio": { base: "https://generativelanguage.googleapis.com", key: "x-goog-api-key", price: "google" },
  "google-vertex-ai": {
    base: "https://{region}aiplatform.googleapis.com",
    place: vertexPlace,
    at: true,
    key: bearer,
    price: "google",
  },
  "azure-openai": {
    base: "https://{resource}.openai.azure.com/openai/deployments/{deployment}",
    place: azurePlace,
    key: "api-key",
    price: "azure",
  },
  "aws-bedrock": { base: "https://{service}.{region}.{domain}", place: bedrockPlace, key: bearer, price: "aws" },
  "workers-ai": {
    base: "https://api.cloudflare.com/client/v4/accounts/{account}/ai",
    place: workersPlace,
    at: true,
    key: bearer,
    price: "cloudflare",
  },
  groq: openaiLike("https://api.groq.com/openai", "groq"),
  mistral: openaiLike("https://api.mistral.ai", "mistral"),
  cohere: { base: "https://api.cohere.com", key: bearer, price: "cohere" },
  deepseek: { base: "https://api.deepseek.com", key: bearer, price: "deepseek" },
  grok: openaiLike("https://api.x.ai", "x-ai"),
  "perplexity-ai": { base: "https://api.perplexity.ai", key: bearer, price: "perplexity" },
  openrouter: openaiLike("https://openrouter.ai/api", "openrouter"),
  cerebras: openaiLike("https://api.cerebras.ai", "cerebras"),
  huggingface: { ...openaiLike("https://router.huggingface.co"), place: huggingfacePlace },
  replicate: openaiLike("https://api.replicate.com"),
  fireworks: openaiLike("https://api.fireworks.ai/inference", "fireworks"),
  baseten: { ...openaiLike("https://{host}.baseten.co", "baseten"), place: basetenPlace },
  parallel: plain("https://api.parallel.ai", "x-api-key"),
  fal: plain("https://fal.run"),
  cartesia: plain("https://api.cartesia.ai", "x-api-key"),
  deepgram: plain("https://api.deepgram.com"),
  elevenlabs: plain("https://api.elevenlabs.io", "xi-api-key"),
  ideogram: plain("https://api.ideogram.ai", "api-key"),
  together: openaiLike("https://api.together.xyz", "together"),
  nvidia: openaiLike("https://integrate.api.nvidia.com"),
  moonshot: openaiLike("https://api.moonshot.ai", "moonshotai"),
  zai: { base: "https://api.z.ai/api/paas", version: "v4", key: bearer, price: "zai" },
  "ollama-cloud": { base: "https://ollama.com", version: "v1", versioned: OPENAI_PATH, key: bearer },
  ollama: home("http://127.0.0.1:11434"),
  "llama-cpp": home("http://127.0.0.1:8080"),
  "lm-studio": home("http://127.0.0.1:1234"),
  llamafile: home("http://127.0.0.1:8080"),
  vllm: home("http://127.0.0.1:8000"),
  localai: home("http://127.0.0.1:8080"),
  sglang: home("http://127.0.0.1:30000"),
  tgi: home("http://127.0.0.1:3000"),
  "text-generation-webui": home("http://127.0.0.1:5000"),
  koboldcpp: home("http://127.0.0.1:5001"),
  tabbyapi: home("http://127.0.0.1:5000"),
  jan: home("http://127.0.0.1:1337"),
  gpt4all: home("http://127.0.0.1:4891"),
  mlx: home("http://127.0.0.1:8080"),
  "docker-model-runner": home("http://127.0.0.1:12434/engines"),
  xinference: home("http://127.0.0.1:9997"),
  litellm: home("http://127.0.0.1:4000"),
};

/** Other names for the same row. */
export const ALIASES: Readonly<Record<string, string>> = {
  xai: "grok",
  google: "google-ai-studio",
  "google-vertex": "google-vertex-ai",
  bedrock: "aws-bedrock",
  azure: "azure-openai",
  perplexity: "perplexity-ai",
  llamacpp: "llama-cpp",
  lmstudio: "lm-studio",
  "z-ai": "zai",
};

/** What the operator writes under `[gateway.providers.NAME]`. */
export type ProviderSetting = { base_url?: string; version?: string; enabled?: boolean };

/** The table as one machine has it: built-in rows, changed or joined by the operator's. */
export function providerTable(settings: Readonly<Record<string, ProviderSetting>>): Map<string, Provider> {
  const table = new Map<string, Provider>(Object.entries(PROVIDERS).map(([slug, row]) => [slug, { ...row, slug }]));
  for (const [slug, { base_url, version, enabled = true }] of Object.entries(settings)) {
    const name = ALIASES[slug] ?? slug;
    const row = table.get(name);
    if (!enabled) table.delete(name);
    else if (base_url !== undefined)
      table.set(name, { ...ownRow(name, base_url, row), ...(version === undefined ? {} : { version }) });
  }
  for (const [alias, slug] of Object.entries(ALIASES)) {
    const row = table.get(slug);
    if (row && !table.has(alias)) table.set(alias, row);
  }
  return table;
}

/**
 * An operator's own address. A version at its end may be repeated by the caller, as with the built-in rows; without
 * one, a built-in row keeps its own version and any other address is joined literally.
 */
export function ownRow(slug: string, baseUrl: string, row?: ProviderRow): Provider {
  const trimmed = baseUrl.replace(/\/+$/, "");
  const [, base = trimmed, written] = /^(.*)\/(v\d+(?:(?:alpha|beta)\d*)?)$/.exec(trimmed) ?? [];
  const version = written ?? row?.version;
  const { place: _, versioned, versionFixed: __, ...kept } = row ?? { base, key: bearer };
  return {
    ...kept,
    slug,
    base,
    privateAllowed: true,
    ...(version ? { version } : {}),
    ...(written ? { versionFixed: true as const } : {}),
    ...(versioned && !written ? { versioned } : {}),
  };
}

/** The upstream address for what follows the provider's name, or undefined when the path may not be forwarded. */
export function upstreamUrl(provider: Provider, path: string, query: string): string | undefined {
  if (UNSAFE_PATH.test(path) || (provider.at === undefined && path.includes("@"))) return undefined;
  if (provider.place === undefined) return `${provider.base}/${withVersion(provider, path)}${query}`;
  const placed = provider.place(path);
  if (!placed) return undefined;
  const base = provider.base.replace(/\{(\w+)\}/g, (_, name: string) => placed.host[name] ?? "");
  return `${base}/${placed.path}${query}`;
}

function withVersion({ version, versionFixed, versioned }: ProviderRow, path: string): string {
  if (!version) return path;
  const written = VERSION_SEGMENT.exec(path)?.[0];
  if (written !== undefined && (!versionFixed || written === version)) return path; // what the caller writes wins
  return versioned === undefined || versioned.test(path) ? `${version}/${path}` : path;
}

function vertexPlace(path: string): Placed | undefined {
  const region = /(?:^|\/)locations\/([^/]+)/.exec(path)?.[1];
  if (region === undefined || !HOST_LABEL.test(region)) return undefined;
  return { host: { region: region === "global" ? "" : `${region}-` }, path };
}

function azurePlace(path: string): Placed | undefined {
  const [resource = "", deployment = "", ...rest] = path.split("/");
  if (!HOST_LABEL.test(resource) || !/^[\w.-]{1,64}$/.test(deployment)) return undefined;
  return { host: { resource, deployment }, path: rest.join("/") };
}

const BEDROCK_DOMAINS: Readonly<Record<string, string>> = {
  "bedrock-runtime": "amazonaws.com",
  "bedrock-mantle": "api.aws",
};

function bedrockPlace(path: string): Placed | undefined {
  const [service = "", region = "", ...rest] = path.split("/");
  const domain = Object.hasOwn(BEDROCK_DOMAINS, service) ? BEDROCK_DOMAINS[service] : undefined;
  if (domain === undefined || !HOST_LABEL.test(region)) return undefined;
  return { host: { service, region, domain }, path: rest.join("/") };
}

/** A model's own name is served below `hf-inference`; what OpenAI's clients ask for is served under the version. */
function huggingfacePlace(path: string): Placed {
  if (OPENAI_PATH.test(path)) return { host: {}, path: `v1/${path}` };
  const isModel = /^[^/]+\/[^/]+(?:\/pipeline\/[^/]+)?$/.test(path) && !VERSION_SEGMENT.test(path);
  return { host: {}, path: isModel ? `hf-inference/models/${path}` : path };
}

/** `model/{id}/…` is a deployment with a host of its own. */
function basetenPlace(path: string): Placed | undefined {
  const [first, id = "", ...rest] = path.split("/");
  if (first !== "model") return { host: { host: "inference" }, path: VERSION_SEGMENT.test(path) ? path : `v1/${path}` };
  return HOST_LABEL.test(id) ? { host: { host: `model-${id}.api` }, path: rest.join("/") } : undefined;
}

/** `{account}/v1/chat/completions`, `{account}/@cf/…`: the account there is the provider's, not ours. */
function workersPlace(path: string): Placed | undefined {
  const [account = "", ...rest] = path.split("/");
  if (!/^[0-9a-f]{32}$/.test(account)) return undefined;
  const tail = rest.join("/");
  return { host: { account }, path: tail.startsWith("@") ? `run/${tail}` : tail };
}
