// What a token may do, and where. Pure.

export const PERMISSIONS = [
  "run",
  "tags:read",
  "tags:edit",
  "agents:read",
  "agents:edit",
  "gateway:read",
  "gateway:edit",
  "admin",
] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** A place that a token is limited to, or that a request wants to touch. Absent: anywhere, or nowhere in particular. */
export type Scope = {
  accountId?: string | undefined;
  gatewayId?: string | undefined;
  agentClass?: string | undefined;
  agentName?: string | undefined;
};

export type Principal = { tokenId: string; name: string; permissions: ReadonlySet<Permission>; scope: Scope };

const LIMITS = ["accountId", "gatewayId", "agentClass", "agentName"] as const;

export function may(principal: Principal, permission: Permission, wanted: Scope): boolean {
  const { permissions, scope } = principal;
  if (permissions.has("admin")) return true;
  const held = permissions.has(permission) || permissions.has(toEdit(permission));
  // A limited token reaches only what names the same place: a list over all places is outside its limit.
  return held && LIMITS.every((limit) => scope[limit] === undefined || scope[limit] === wanted[limit]);
}

/** Why a token with these permissions and limits would make no sense, in a sentence; undefined when it does. */
export function grantProblem(permissions: readonly Permission[], scope: Scope): string | undefined {
  const limited = LIMITS.some((limit) => scope[limit] !== undefined);
  if (permissions.length === 0) return "permissions must name at least one permission";
  if (permissions.includes("admin") && limited) return "an admin token cannot be limited";
  if (scope.gatewayId !== undefined && scope.accountId === undefined) return "gateway_id needs account_id";
  if (scope.agentName !== undefined && scope.agentClass === undefined) return "agent_name needs agent_class";
  if (scope.accountId !== undefined && permissions.some((permission) => permission.startsWith("agents:"))) {
    return "agents belong to the machine: a token limited to an account holds no agents permission";
  }
  if (scope.gatewayId !== undefined && permissions.some((permission) => permission.startsWith("tags:"))) {
    return "tags belong to an account: a token limited to a gateway holds no tags permission";
  }
  if (scope.agentClass !== undefined && permissions.some((permission) => !permission.startsWith("agents:"))) {
    return "a token limited to an agent holds only agents permissions";
  }
  return undefined;
}

/** May `principal` hand out (or see, or revoke) a token like this? Admins any; gateway editors `run` for their own gateways. */
export function mayGrant(principal: Principal, permissions: readonly Permission[], scope: Scope): boolean {
  if (principal.permissions.has("admin")) return true;
  const onlyRun = permissions.every((permission) => permission === "run") && scope.gatewayId !== undefined;
  return onlyRun && may(principal, "gateway:edit", scope);
}

function toEdit(permission: Permission): Permission {
  return PERMISSIONS.find((one) => one === permission.replace(/:read$/, ":edit")) ?? permission;
}
