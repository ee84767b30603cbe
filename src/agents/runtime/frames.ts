// The two frames a client may send under the agents protocol; whatever else arrives belongs to the agent. Pure.

export type ClientFrame =
  | { type: "rpc"; id: string; method: string; args: unknown[] }
  | { type: "state"; state: unknown };

export function parseFrame(text: string): ClientFrame | undefined {
  if (!text.includes('"type"')) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // not JSON is not an error: it belongs to onMessage
  }
  if (typeof value !== "object" || value === null || !("type" in value)) return undefined;
  if (value.type === "cf_agent_state" && "state" in value) return { type: "state", state: value.state };
  if (value.type !== "rpc" || !("id" in value && "method" in value && "args" in value)) return undefined;
  const { id, method, args } = value;
  if (typeof id !== "string" || typeof method !== "string" || !Array.isArray(args)) return undefined;
  return { type: "rpc", id, method, args };
}

export const stateFrame = (stateText: string): string => `{"type":"cf_agent_state","state":${stateText}}`;
export const stateErrorFrame = (error: string): string => JSON.stringify({ type: "cf_agent_state_error", error });
export const rpcErrorFrame = (id: string, error: string): string =>
  JSON.stringify({ type: "rpc", id, success: false, error });
