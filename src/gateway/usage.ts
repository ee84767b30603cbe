// Token counts from what a provider answered, by the shape of the answer. Pure.

export type Usage = {
  /** All prompt tokens, cached ones included, whatever the provider's own habit is. */
  tokensIn?: number;
  /** All generated tokens, reasoning included. */
  tokensOut?: number;
  cachedIn?: number;
  cacheWriteIn?: number;
  cacheWriteHourIn?: number;
  reasoningOut?: number;
  /** What the provider itself says it charged, in dollars. */
  cost?: number;
};

/** What was learnt from an answer. `final`: the counts are the last word, not an opening figure. */
export type Reading = { usage: Usage; model?: string; final: boolean };

const MODEL_CHARS_MAX = 200; // what is longer is no name, and would be kept in every row and price
const DOLLARS_MAX = 1e9; // of one request; more is a slip, and sums of it would end at infinity

export type Capture = {
  /** The answer from its start, decoded from its content encoding. */
  head: Uint8Array;
  /** Its last bytes, when it was longer than the head that was kept. */
  tail?: Uint8Array;
};

type Tree = Record<string, unknown>;

/** Answers come as one JSON value, as events (`data:` lines), or as one JSON value a line. */
export function readAnswer({ head, tail }: Capture): Reading {
  const text = toText(head);
  const reading: Reading = { usage: {}, final: false };
  if (tail === undefined) {
    const whole = parseJson(text);
    if (whole !== undefined) {
      for (const part of Array.isArray(whole) ? whole : [whole]) learn(reading, part);
      return reading;
    }
  }
  readLines(reading, text);
  if (!reading.final && text.startsWith("\0")) salvage(reading, text); // Bedrock's frames: a length, headers, then JSON
  if (tail !== undefined) {
    const end = toText(tail);
    readLines(reading, end.slice(end.indexOf("\n") + 1));
    // One last line may be longer than the tail that was kept: its counts stand near its end.
    if (!reading.final) salvage(reading, end);
  }
  return reading;
}

/** Only lines that can hold counts are parsed, so that a long stream costs a scan and not a thousand parses. */
const COUNTS = /"usage(?:Metadata)?"\s*:\s*\{|"(?:prompt_)?eval_count"|"billed_units"|"tokens_evaluated"/;

function readLines(reading: Reading, text: string): void {
  let start = 0;
  while (start < text.length) {
    const newline = text.indexOf("\n", start);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(start, end);
    start = end + 1;
    const json = line.startsWith("data:") ? line.slice(5).trim() : line.trim();
    if (!(json.startsWith("{") || json.startsWith("["))) continue;
    if (reading.model !== undefined && !COUNTS.test(json)) continue;
    const value = parseJson(json.replace(/,$/, ""));
    if (value !== undefined) learn(reading, value);
  }
}

function salvage(reading: Reading, text: string): void {
  const at = Math.max(text.lastIndexOf('"usage":'), text.lastIndexOf('"usageMetadata":'));
  const block = at === -1 ? undefined : parseJson(balanced(text, text.indexOf("{", at)));
  if (isTree(block)) {
    Object.assign(reading.usage, fromBlock(block));
    reading.final = true;
  }
  const counts = /"prompt_eval_count":(\d+).*?"eval_count":(\d+)/.exec(text.slice(-4_096));
  if (counts) {
    Object.assign(reading.usage, { tokensIn: Number(counts[1]), tokensOut: Number(counts[2]) });
    reading.final = true;
  }
}

function balanced(text: string, from: number): string {
  let depth = 0;
  for (let index = from; index >= 0 && index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 123) depth++;
    else if (code === 125 && --depth === 0) return text.slice(from, index + 1);
  }
  return "";
}

/** Where counts stand in an answer or in one event of it. */
function learn(reading: Reading, value: unknown): void {
  if (!isTree(value)) return;
  const message = treeOf(value.message); // Anthropic's first event
  const response = treeOf(value.response); // the Responses API's events, and Cohere's v1 stream
  const delta = treeOf(value.delta); // Cohere's v2 stream
  const model = value.model ?? value.modelVersion ?? message?.model ?? response?.model;
  if (reading.model === undefined && typeof model === "string" && model !== "" && model.length <= MODEL_CHARS_MAX)
    reading.model = model;
  const blocks = [
    message?.usage,
    treeOf(value.result)?.usage,
    treeOf(value.x_groq)?.usage,
    response?.usage,
    response?.meta,
    delta?.usage,
    value.meta,
    value.usageMetadata,
    value.usage,
    typeof value.eval_count === "number" || typeof value.prompt_eval_count === "number" ? value : undefined,
    typeof value.tokens_evaluated === "number" ? value : undefined,
  ];
  for (const block of blocks) {
    if (!isTree(block)) continue;
    const usage = fromBlock(block);
    if (Object.keys(usage).length === 0) continue;
    // Anthropic opens with a count of one generated token and counts on; everything else speaks once it knows.
    Object.assign(reading.usage, usage);
    reading.final = block !== message?.usage;
  }
}

function fromBlock(block: Tree): Usage {
  const billed = treeOf(block.billed_units) ?? treeOf(block.tokens);
  if (billed) return pick({ tokensIn: num(billed.input_tokens), tokensOut: num(billed.output_tokens) });
  for (const read of READERS) {
    const usage = read(block);
    if (usage) return pick({ ...usage, cost: dollarsOf(block.cost) ?? dollarsOf(treeOf(block.cost)?.total_cost) });
  }
  return {};
}

type Loose = { [Key in keyof Usage]: number | undefined };

const READERS: ReadonlyArray<(block: Tree) => Loose | undefined> = [
  // Gemini
  (block) => {
    if (num(block.promptTokenCount) === undefined && num(block.totalTokenCount) === undefined) return undefined;
    const thoughts = num(block.thoughtsTokenCount);
    return {
      tokensIn: sum(num(block.promptTokenCount), num(block.toolUsePromptTokenCount)),
      tokensOut: sum(num(block.candidatesTokenCount), thoughts),
      cachedIn: num(block.cachedContentTokenCount),
      reasoningOut: thoughts,
    };
  },
  // OpenAI chat, completions, embeddings, and everyone who speaks like them
  (block) => {
    if (num(block.prompt_tokens) === undefined && num(block.completion_tokens) === undefined) return undefined;
    return {
      tokensIn: num(block.prompt_tokens),
      tokensOut: generatedOf(block),
      cachedIn: num(treeOf(block.prompt_tokens_details)?.cached_tokens) ?? num(block.prompt_cache_hit_tokens),
      cacheWriteIn: num(treeOf(block.prompt_tokens_details)?.cache_write_tokens),
      reasoningOut: num(treeOf(block.completion_tokens_details)?.reasoning_tokens),
    };
  },
  // OpenAI Responses: the prompt count includes what was cached
  (block) => {
    const details = treeOf(block.input_tokens_details);
    if (details === undefined && treeOf(block.output_tokens_details) === undefined) return undefined;
    return {
      tokensIn: num(block.input_tokens),
      tokensOut: num(block.output_tokens),
      cachedIn: num(details?.cached_tokens),
      reasoningOut: num(treeOf(block.output_tokens_details)?.reasoning_tokens),
    };
  },
  // Anthropic messages: the prompt count leaves out what was cached
  (block) => {
    if (num(block.input_tokens) === undefined && num(block.output_tokens) === undefined) return undefined;
    const fresh = num(block.input_tokens);
    const read = num(block.cache_read_input_tokens);
    const written = num(block.cache_creation_input_tokens);
    return {
      tokensIn: fresh === undefined ? undefined : sum(fresh, read, written), // a later event may repeat only the output
      tokensOut: num(block.output_tokens),
      cachedIn: read,
      cacheWriteIn: written,
      cacheWriteHourIn: num(treeOf(block.cache_creation)?.ephemeral_1h_input_tokens),
    };
  },
  // Bedrock Converse
  (block) => {
    if (num(block.inputTokens) === undefined) return undefined;
    const read = num(block.cacheReadInputTokens);
    const written = num(block.cacheWriteInputTokens);
    return {
      tokensIn: sum(num(block.inputTokens), read, written),
      tokensOut: num(block.outputTokens),
      cachedIn: read,
      cacheWriteIn: written,
    };
  },
  // Ollama's own interface
  (block) => {
    if (num(block.prompt_eval_count) === undefined && num(block.eval_count) === undefined) return undefined;
    return { tokensIn: num(block.prompt_eval_count), tokensOut: num(block.eval_count) };
  },
  // llama.cpp's own interface
  (block) => {
    if (num(block.tokens_evaluated) === undefined) return undefined;
    return { tokensIn: num(block.tokens_evaluated), tokensOut: num(block.tokens_predicted) };
  },
];

/** Some count reasoning beside the answer and not in it (xAI; Gemini in OpenAI's format): then the total is larger. */
function generatedOf(block: Tree): number | undefined {
  const [prompt, answer, total] = [num(block.prompt_tokens), num(block.completion_tokens), num(block.total_tokens)];
  if (prompt === undefined || answer === undefined || total === undefined) return answer;
  return Math.max(answer, total - prompt);
}

/** A count that is missing stays missing; a zero that was said is kept. */
function pick(loose: Loose): Usage {
  const usage: Usage = {};
  for (const name of COUNTS_OF) {
    const count = loose[name];
    if (count !== undefined) usage[name] = count;
  }
  return usage;
}

const COUNTS_OF = [
  "tokensIn",
  "tokensOut",
  "cachedIn",
  "cacheWriteIn",
  "cacheWriteHourIn",
  "reasoningOut",
  "cost",
] as const satisfies readonly (keyof Usage)[];

function sum(...counts: (number | undefined)[]): number | undefined {
  const known = counts.filter((count) => count !== undefined);
  return known.length === 0 ? undefined : known.reduce((total, count) => total + count, 0);
}

function num(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

export function dollarsOf(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= DOLLARS_MAX ? value : undefined;
}

function treeOf(value: unknown): Tree | undefined {
  return isTree(value) ? value : undefined;
}

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a cut or foreign line is no answer we can read
  }
}

const decoder = new TextDecoder();

/** Decoded in one piece, so a character split over two chunks of the stream is whole again here. */
export function toText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
