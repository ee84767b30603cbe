// Where a request goes is decided by rows; whatever a caller writes in the path changes only the path.
import { describe, expect, test } from "bun:test";
import { PROVIDERS, providerTable, upstreamUrl } from "../../src/gateway/providers.ts";

const table = providerTable({
  nas: { base_url: "http://192.168.1.9:8080/api/v1/" },
  ollama: { base_url: "http://192.168.1.5:11434" },
  mistral: { base_url: "http://127.0.0.1:9" },
  groq: { base_url: "http://127.0.0.1:9/openai", version: "" },
  cerebras: { base_url: "http://127.0.0.1:9/v2" },
  fal: { enabled: false },
});
const go = (slug: string, path: string, query = "") => {
  const provider = table.get(slug);
  if (!provider) throw new Error(`no provider ${slug}`);
  return upstreamUrl(provider, path, query);
};

describe("refuses", () => {
  test.each([
    ["openai", "../admin"],
    ["openai", "v1/../../x"],
    ["openai", "v1/%2e%2e/x"],
    ["openai", "v1/.%2E%2fx"],
    ["openai", "v1//evil.example"],
    ["openai", "/evil.example"],
    ["openai", "@evil.example/x"],
    ["openai", "v1/x\\y"],
    ["openai", "v1/x%5Cy"],
    ["azure-openai", "evil.example/dep/chat/completions"],
    ["azure-openai", "evil.example%2F/dep/chat"],
    ["azure-openai", "res"],
    ["azure-openai", "res/a?b/chat"],
    ["aws-bedrock", "bedrock-runtime/eu-west-1.evil.example/model/x/invoke"],
    ["aws-bedrock", "s3/eu-west-1/bucket"],
    ["aws-bedrock", "constructor/eu-west-1/x"],
    ["google-vertex-ai", "v1/projects/p/locations/evil.example%23/publishers/google/models/m:predict"],
    ["google-vertex-ai", "v1/projects/p/models/m"],
    ["workers-ai", "home/@cf/meta/llama"],
    ["baseten", "model/evil.example%2F/predict"],
    ["baseten", "model/a.evil.example/predict"],
  ])("%s %s", (slug, path) => expect(go(slug, path)).toBeUndefined());

  test("a built-in provider the operator switched off", () => expect(table.has("fal")).toBe(false));
});

describe("joins", () => {
  test.each([
    ["openai", "chat/completions", "https://api.openai.com/v1/chat/completions"],
    ["openai", "v1/chat/completions", "https://api.openai.com/v1/chat/completions"],
    ["anthropic", "v1/messages", "https://api.anthropic.com/v1/messages"],
    [
      "google-ai-studio",
      "v1beta/models/g:generateContent",
      "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent",
    ],
    ["google", "v1/models", "https://generativelanguage.googleapis.com/v1/models"],
    ["fireworks", "chat/completions", "https://api.fireworks.ai/inference/v1/chat/completions"],
    ["mistral", "chat/completions", "http://127.0.0.1:9/v1/chat/completions"],
    ["groq", "chat/completions", "http://127.0.0.1:9/openai/chat/completions"],
    ["cerebras", "chat/completions", "http://127.0.0.1:9/v2/chat/completions"],
    ["openrouter", "v1/chat/completions", "https://openrouter.ai/api/v1/chat/completions"],
    ["openrouter", "chat/completions", "https://openrouter.ai/api/v1/chat/completions"],
    ["cohere", "v2/chat", "https://api.cohere.com/v2/chat"],
    ["deepseek", "chat/completions", "https://api.deepseek.com/chat/completions"],
    ["xai", "chat/completions", "https://api.x.ai/v1/chat/completions"],
    ["zai", "chat/completions", "https://api.z.ai/api/paas/v4/chat/completions"],
    [
      "azure-openai",
      "my-res/gpt-4o/chat/completions",
      "https://my-res.openai.azure.com/openai/deployments/gpt-4o/chat/completions",
    ],
    [
      "aws-bedrock",
      "bedrock-runtime/eu-west-1/model/a.b-v1:0/invoke",
      "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a.b-v1:0/invoke",
    ],
    [
      "google-vertex-ai",
      "v1/projects/p/locations/us-east5/publishers/anthropic/models/c@2:rawPredict",
      "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models/c@2:rawPredict",
    ],
    [
      "google-vertex-ai",
      "v1/projects/p/locations/global/x",
      "https://aiplatform.googleapis.com/v1/projects/p/locations/global/x",
    ],
    [
      "workers-ai",
      `${"a".repeat(32)}/@cf/meta/llama`,
      `https://api.cloudflare.com/client/v4/accounts/${"a".repeat(32)}/ai/run/@cf/meta/llama`,
    ],
    ["ollama", "chat/completions", "http://192.168.1.5:11434/v1/chat/completions"],
    ["ollama", "api/chat", "http://192.168.1.5:11434/api/chat"],
    ["llama-cpp", "health", "http://127.0.0.1:8080/health"],
    ["nas", "chat/completions", "http://192.168.1.9:8080/api/v1/chat/completions"],
    ["nas", "v1/chat/completions", "http://192.168.1.9:8080/api/v1/chat/completions"],
    ["nas", "v2/admin", "http://192.168.1.9:8080/api/v1/v2/admin"],
    ["nas", "v1beta/models", "http://192.168.1.9:8080/api/v1/v1beta/models"],
    ["openai", "v2/assistants", "https://api.openai.com/v2/assistants"],
    ["huggingface", "chat/completions", "https://router.huggingface.co/v1/chat/completions"],
    ["huggingface", "v1/chat/completions", "https://router.huggingface.co/v1/chat/completions"],
    ["huggingface", "bigcode/starcoder", "https://router.huggingface.co/hf-inference/models/bigcode/starcoder"],
    [
      "huggingface",
      "BAAI/bge-m3/pipeline/feature-extraction",
      "https://router.huggingface.co/hf-inference/models/BAAI/bge-m3/pipeline/feature-extraction",
    ],
    ["huggingface", "together/v1/images/generations", "https://router.huggingface.co/together/v1/images/generations"],
    ["baseten", "chat/completions", "https://inference.baseten.co/v1/chat/completions"],
    ["baseten", "v1/chat/completions", "https://inference.baseten.co/v1/chat/completions"],
    ["baseten", "model/abc123/production/predict", "https://model-abc123.api.baseten.co/production/predict"],
  ])("%s %s", (slug, path, url) => expect(go(slug, path)).toBe(url));

  test("keeps the query as it was written", () =>
    expect(go("openai", "files", "?a=%2F&a=+&b=%zz")).toBe("https://api.openai.com/v1/files?a=%2F&a=+&b=%zz"));
});

test("every row's address is an origin we would contact, without a trailing slash", () => {
  for (const [slug, { base, local }] of Object.entries(PROVIDERS)) {
    const url = new URL(base.replace(/\{\w+\}/g, "x"));
    expect([slug, url.protocol]).toEqual([slug, local ? "http:" : "https:"]);
    expect(base.endsWith("/")).toBe(false);
  }
});
