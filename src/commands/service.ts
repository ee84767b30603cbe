// gatehouse service: a systemd unit that gives the server what it needs and nothing else.
import { resolve } from "node:path";
import { at, type Config, LEAVES } from "../platform/config.ts";
import { type Command, noWords } from "./command.ts";

const DESCRIPTORS = 65_536; // five per live agent, and one per connection
const PRIVILEGED_PORTS = 1_024;
const STOP_MARGIN_SECONDS = 10; // after the requests in flight, databases and threads are closed

export const service: Command = {
  summary: "print a hardened systemd unit for this executable and these settings",
  usage: ["service [--user NAME] [flags] > /etc/systemd/system/gatehouse.service"],
  options: { user: { type: "string" } },
  async run({ args, config, options, out, err }) {
    noWords(args);
    const user = typeof options.user === "string" ? options.user : "gatehouse";
    const executable = Bun.isStandaloneExecutable ? process.execPath : "/usr/local/bin/gatehouse";
    out(toUnit({ config, user, executable, cwd: process.cwd() }));
    const data = resolve(config.settings.data);
    err("Then, as root:");
    err(`  useradd --system --home-dir ${data} --shell /usr/sbin/nologin ${user}   # once`);
    err(`  install -d -m 700 ${data} && chown -R ${user}: ${data}`);
    err("  systemctl daemon-reload && systemctl enable --now gatehouse");
    err(`  cat ${data}/first-start.txt   # how to get in`);
    for (const { path, variable } of secretsFromElsewhere(config)) {
      err(
        `Not in the unit, because it is a secret: ${path}. Put ${variable}=… into an EnvironmentFile, or use ${path}_file.`,
      );
    }
    return 0;
  },
};

type UnitInput = { config: Config; user: string; executable: string; cwd: string };

export function toUnit({ config, user, executable, cwd }: UnitInput): string {
  const { settings } = config;
  const data = resolve(cwd, settings.data);
  const low = settings.port > 0 && settings.port < PRIVILEGED_PORTS;
  const capability = low ? "CAP_NET_BIND_SERVICE" : "";
  const environment = environmentOf(config, cwd);
  const inHome = [executable, ...environment].some((line) => /^(\w+=)?\/(home|root)\//.test(line));
  return `[Unit]
Description=Gatehouse: AI gateway, webhook agents and resource tags
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User=${user}
ExecStart=${quoted(executable)} serve
WorkingDirectory=${specifier(data)}
${environment.map((line) => `Environment=${quoted(line)}`).join("\n")}
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec=${Math.ceil(settings.stop_ms / 1000) + STOP_MARGIN_SECONDS}
LimitNOFILE=${DESCRIPTORS}
UMask=0077

# It writes to its data folder and nowhere else.
ReadWritePaths=${quoted(data)}
ProtectSystem=strict
ProtectHome=${inHome ? "no" : "yes"}
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible

# It needs no privilege${low ? ` but its port ${settings.port}` : ""}. MemoryDenyWriteExecute stays off: JavaScript is compiled as it runs.
NoNewPrivileges=yes
CapabilityBoundingSet=${capability}
AmbientCapabilities=${capability}
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target`;
}

/** What was given by flag or variable becomes part of the unit; what a settings file says stays in the file. */
function environmentOf({ settings, origins }: Config, cwd: string): string[] {
  const files = new Set<string>();
  const lines: string[] = [];
  for (const { path, schema, variable } of LEAVES) {
    const origin = origins[path] ?? "default";
    const given = origin === variable || origin.startsWith("--");
    const value = at(settings, path);
    if (schema.secret || value === undefined) continue;
    if (isFolder(path) || isFile(path)) lines.push(`${variable}=${resolve(cwd, String(value))}`);
    else if (given) lines.push(`${variable}=${Array.isArray(value) ? value.join(" ") : String(value)}`);
    else if (origin !== "default") files.add(resolve(cwd, origin));
  }
  for (const file of files) lines.unshift(`GATEHOUSE_CONFIG=${file}`);
  // Otherwise agent files of some size leave a cache in a home folder that the unit does not have.
  return [...lines, "BUN_RUNTIME_TRANSPILER_CACHE_PATH=0"];
}

/** Relative to where the command runs, and the unit runs elsewhere. */
const isFolder = (path: string): boolean => path === "data" || path === "agents";
const isFile = (path: string): boolean => /_(file|cert|key)$/.test(path);

function secretsFromElsewhere({ settings, origins }: Config) {
  return LEAVES.filter(({ path, schema }) => schema.secret && at(settings, path) !== undefined && origins[path]);
}

/** `%` begins a specifier everywhere in a unit. */
const specifier = (text: string): string => text.replaceAll("%", "%%");
const quoted = (text: string): string =>
  /^[\w@:,./=+-]+$/.test(text) ? text : `"${specifier(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
