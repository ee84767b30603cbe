// What this host is reached under, each address with something to paste that uses it. Data; the page draws it.

export type Sample = { title: string; text: string };
/** `url` is complete and worth copying; `rest` is what the client adds to it. */
export type Address = { title: string; says: string; url: string; rest: string; samples: Sample[] };

/** `origin` is `http://pi:8787`: the scheme and host under which clients reach us. */
export function addressesOf(origin: string): Address[] {
  const gateway = `${origin}/v1/home/default`;
  return [
    {
      title: "Gateway",
      says: "Clients change their base address to this and a provider's name, and carry a token of the gateway's.",
      url: gateway,
      rest: "/{provider}",
      samples: [
        { title: "curl", text: gatewayCurl(gateway) },
        { title: "Python", text: gatewayPython(gateway) },
        { title: "TypeScript", text: gatewayTypeScript(gateway) },
      ],
    },
    {
      title: "Webhooks",
      says: "Senders post here. What does not carry a valid signature is refused before anything is stored.",
      url: `${origin}/webhooks`,
      rest: "/{source}/{entity}",
      samples: [
        { title: "Signed curl", text: webhookCurl(origin) },
        { title: "GitHub", text: webhookGitHub(origin) },
      ],
    },
    {
      title: "Agents",
      says: "One stateful agent per entity: HTTP, or a WebSocket with its live state.",
      url: `${origin}/agents`,
      rest: "/{class}/{name}",
      samples: [
        { title: "TypeScript", text: agentTypeScript(origin) },
        { title: "React", text: agentReact(origin) },
      ],
    },
    {
      title: "API",
      says: "Tags and everything that manages this host. Every operation is in the API reference.",
      url: `${origin}/api`,
      rest: "",
      samples: [
        { title: "Set tags", text: tagsSet(origin) },
        { title: "Find by tag", text: tagsFind(origin) },
      ],
    },
  ];
}

const gatewayCurl = (gateway: string) => `curl ${gateway}/openai/chat/completions \\
  -H "gw-aig-authorization: Bearer $GATEHOUSE_TOKEN" \\
  -H "Authorization: Bearer $OPENAI_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "gpt-5-mini",
       "messages": [{"role": "user", "content": "Hello"}]}'`;

const gatewayPython = (gateway: string) => `import os
from openai import OpenAI

client = OpenAI(
    base_url="${gateway}/openai",
    api_key=os.environ["OPENAI_API_KEY"],
    default_headers={"gw-aig-authorization": "Bearer " + os.environ["GATEHOUSE_TOKEN"]},
)
answer = client.chat.completions.create(
    model="gpt-5-mini", messages=[{"role": "user", "content": "Hello"}]
)
print(answer.choices[0].message.content)`;

const gatewayTypeScript = (gateway: string) => `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: "${gateway}/openai",
  apiKey: process.env.OPENAI_API_KEY,
  defaultHeaders: { "gw-aig-authorization": \`Bearer \${process.env.GATEHOUSE_TOKEN}\` },
});
const answer = await client.chat.completions.create({
  model: "gpt-5-mini",
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0]?.message.content);`;

const webhookCurl = (origin: string) => `# WEBHOOK_SECRET is the secret of the source "generic"
body='{"temperature": 21.5}'
digest=$(printf %s "$body" |
  openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" | sed 's/.*= *//')
curl ${origin}/webhooks/generic/greenhouse \\
  -H "Content-Type: application/json" \\
  -H "X-Event-Type: reading" \\
  -H "X-Hub-Signature-256: sha256=$digest" \\
  --data-binary "$body"`;

const webhookGitHub = (origin: string) => `# Repository > Settings > Webhooks > Add webhook
Payload URL    ${origin}/webhooks/github
Content type   application/json
Secret         the value of GITHUB_WEBHOOK_SECRET on this host`;

const agentTypeScript = (origin: string) => `import { AgentClient } from "agents/client";

const client = new AgentClient({
  host: "${host(origin)}",
  protocol: "${socket(origin)}",
  agent: "webhook-agent",
  name: "greenhouse",
  query: { token: process.env.GATEHOUSE_TOKEN },
  onStateUpdate: (state) => console.log(state),
});
console.log(await client.call("getEvents", [20]));`;

const agentReact = (origin: string) => `import { useAgent } from "agents/react";

const agent = useAgent({
  host: "${host(origin)}",
  protocol: "${socket(origin)}",
  agent: "webhook-agent",
  name: "greenhouse",
  query: { token: ticket }, // from POST /api/agents/webhook-agent/greenhouse/ticket
  onStateUpdate: (state) => setState(state),
});`;

const tagsSet = (origin: string) => `curl -X PUT ${origin}/api/accounts/home/tags \\
  -H "Authorization: Bearer $GATEHOUSE_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"resource_type": "agent",
       "resource_id": "webhook-agent/greenhouse",
       "tags": {"room": "garden"}}'`;

const tagsFind = (origin: string) => `curl "${origin}/api/accounts/home/tags/resources?tag=room=garden" \\
  -H "Authorization: Bearer $GATEHOUSE_TOKEN"`;

const host = (origin: string) => origin.replace(/^https?:\/\//, "");
const socket = (origin: string) => (origin.startsWith("https:") ? "wss" : "ws");
