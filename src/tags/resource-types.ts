// Which types of resource can carry tags. Data: a type is a row here, or a word in the operator's settings.

/** `parent` names the field that a resource of this type cannot be told apart without. */
export type ResourceType = { level: "account" | "zone"; parent?: "worker_id" | "access_application_id" };
export type ResourceTypes = ReadonlyMap<string, ResourceType>;

const ACCOUNT_TYPES = [
  ...["access_application", "access_group", "account", "account_ruleset", "ai_gateway", "alerting_policy"],
  ...["alerting_webhook", "cloudflared_tunnel", "cws_deployment", "cws_policy", "cws_policy_set", "cws_workload"],
  ...["d1_database", "durable_object_namespace", "gateway_list", "gateway_rule", "image", "infrastructure_target"],
  ...["kv_namespace", "load_balancer_monitor", "load_balancer_pool", "pages_project", "queue", "r2_bucket"],
  ...["resource_share", "stream_live_input", "stream_video", "vectorize_index", "worker"],
] as const;

const ZONE_TYPES = [
  ...["api_gateway_operation", "custom_certificate", "custom_hostname", "dns_record", "healthcheck"],
  ...["load_balancer", "managed_client_certificate", "worker_route", "zone", "zone_ruleset"],
] as const;

/** Gatehouse's own things. A gateway is an `ai_gateway`; the id of an agent is `class/name`. */
const OWN_TYPES = ["agent", "webhook_source", "gateway_token"] as const;

const ACCOUNT: ResourceType = { level: "account" };
const ZONE: ResourceType = { level: "zone" };

const BUILT_IN: readonly (readonly [string, ResourceType])[] = [
  ...ACCOUNT_TYPES.map((name) => [name, ACCOUNT] as const),
  ...OWN_TYPES.map((name) => [name, ACCOUNT] as const),
  ...ZONE_TYPES.map((name) => [name, ZONE] as const),
  ["worker_version", { level: "account", parent: "worker_id" }],
  ["access_application_policy", { level: "zone", parent: "access_application_id" }],
];

/** The built-in types and the operator's own; an own type lives in an account, and a built-in name stays built in. */
export function createResourceTypes(own: readonly string[] = []): ResourceTypes {
  return new Map([...own.map((name) => [name, ACCOUNT] as const), ...BUILT_IN]);
}
