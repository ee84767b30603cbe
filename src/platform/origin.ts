// Which pages in a browser may talk to us: the same-origin rule, the rule for routes without a credential, and CORS.
import { isAddress, plainAddress } from "./address.ts";
import { AppError } from "./errors.ts";

export type OriginSettings = { public_url?: string; allowed_hosts: readonly string[]; cors_origins: readonly string[] };

export type OriginRule = ReturnType<typeof createOriginRule>;

export function createOriginRule({ public_url, allowed_hosts, cors_origins }: OriginSettings) {
  const publicHost = public_url === undefined ? undefined : new URL(public_url).host;
  const hosts = new Set(allowed_hosts.map((host) => host.toLowerCase()));
  const origins = new Set(cors_origins);

  const isOurHost = (host: string): boolean => {
    if (host.toLowerCase() === publicHost) return true;
    const name = host.replace(/:\d+$/, "").toLowerCase();
    return isAddress(plainAddress(name)) || name === "localhost" || name.endsWith(".local") || hosts.has(name);
  };

  /** The page that sent this came from us. Hosts are compared, not schemes: a TLS proxy in front changes the scheme. */
  function isSameOrigin(request: Request, origin: string): boolean {
    return origin === public_url || origin.replace(/^https?:\/\//, "") === request.headers.get("host");
  }

  /** `*` answers every page, and therefore never together with credentials. */
  function corsOrigin(origin: string | null): string | undefined {
    if (origin === null) return undefined;
    return origins.has("*") ? "*" : origins.has(origin) ? origin : undefined;
  }

  /**
   * For routes that no credential protects: a page elsewhere, or a name that an attacker points at our address,
   * must not make a visitor's browser act for it.
   */
  function requireOurs(request: Request): void {
    if (!isOurHost(request.headers.get("host") ?? "")) throw new AppError("access.host");
    const origin = request.headers.get("origin");
    if (origin !== null && !isSameOrigin(request, origin) && !corsOrigin(origin)) throw new AppError("access.origin");
  }

  return { isSameOrigin, corsOrigin, requireOurs };
}
