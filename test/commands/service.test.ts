// The systemd unit: what systemd itself makes of it where there is one, and what each setting does to it.
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toUnit } from "../../src/commands/service.ts";
import { type ConfigInput, parseConfig } from "../../src/platform/config.ts";

function unit(input: Partial<ConfigInput> = {}, executable = "/usr/local/bin/gatehouse"): string {
  const config = parseConfig({ env: {}, flags: {}, ...input });
  if (!config.ok) throw new Error(config.problems.join("\n"));
  return toUnit({ config, user: "gatehouse", executable, cwd: "/srv/house" });
}

const lines = (text: string, name: string) => text.split("\n").filter((line) => line.startsWith(`${name}=`));

test("a secret never enters the unit", () => {
  const token = "an-admin-token-that-stays-a-secret-0123456789";
  expect(unit({ env: { GATEHOUSE_ADMIN_TOKEN: token } })).not.toContain(token);
});

test("only its data folder is writable, and it has no privilege", () => {
  const text = unit();
  expect(lines(text, "ReadWritePaths")).toEqual(["ReadWritePaths=/srv/house/data"]);
  expect(lines(text, "ProtectSystem")).toEqual(["ProtectSystem=strict"]);
  expect(lines(text, "ProtectHome")).toEqual(["ProtectHome=yes"]);
  expect(lines(text, "NoNewPrivileges")).toEqual(["NoNewPrivileges=yes"]);
  expect(lines(text, "CapabilityBoundingSet")).toEqual(["CapabilityBoundingSet="]);
});

test("a port below 1024 brings the one privilege it needs, the first above it none", () => {
  const privileges = (port: string) => lines(unit({ flags: { port } }), "AmbientCapabilities");
  expect(privileges("1023")).toEqual(["AmbientCapabilities=CAP_NET_BIND_SERVICE"]);
  expect(privileges("1024")).toEqual(["AmbientCapabilities="]);
});

test("what was given by flag or variable goes along, with paths made absolute", () => {
  const text = unit({
    flags: { port: "9000", "key-file": "keys/secret" },
    env: { GATEHOUSE_TRUSTED_PROXIES: "10.0.0.0/8 ::1" },
  });
  expect(lines(text, "Environment").sort()).toEqual([
    'Environment="GATEHOUSE_TRUSTED_PROXIES=10.0.0.0/8 ::1"',
    "Environment=BUN_RUNTIME_TRANSPILER_CACHE_PATH=0",
    "Environment=GATEHOUSE_AGENTS=/srv/house/agents",
    "Environment=GATEHOUSE_DATA=/srv/house/data",
    "Environment=GATEHOUSE_KEY_FILE=/srv/house/keys/secret",
    "Environment=GATEHOUSE_PORT=9000",
  ]);
});

test("what a settings file says stays in the file", () => {
  const text = unit({ file: { path: "gatehouse.toml", text: "port = 9000" } });
  expect(lines(text, "Environment")).toContain("Environment=GATEHOUSE_CONFIG=/srv/house/gatehouse.toml");
  expect(text).not.toContain("GATEHOUSE_PORT");
});

test("an executable in a home folder can still be reached", () => {
  expect(lines(unit({}, "/home/pi/gatehouse"), "ProtectHome")).toEqual(["ProtectHome=no"]);
});

test("a path with a space, a quote or a percent sign arrives as it is", () => {
  expect(lines(unit({}, '/opt/my "100%" house/gatehouse'), "ExecStart")).toEqual([
    'ExecStart="/opt/my \\"100%%\\" house/gatehouse" serve',
  ]);
});

test("stopping has time for what is in flight", () => {
  expect(lines(unit({ flags: { "stop-ms": "30000" } }), "TimeoutStopSec")).toEqual(["TimeoutStopSec=40"]);
});

test("systemd, where it is installed, finds nothing wrong with it", () => {
  const folder = mkdtempSync(join(tmpdir(), "unit-"));
  const path = join(folder, "gatehouse.service");
  writeFileSync(path, unit({ flags: { port: "80" } }, process.execPath));
  const verify = Bun.which("systemd-analyze") ? Bun.spawnSync(["systemd-analyze", "verify", path]) : undefined;
  rmSync(folder, { recursive: true });
  const complaints = (verify?.stderr.toString() ?? "").split("\n").filter((line) => line.includes("gatehouse"));
  expect(complaints).toEqual([]); // it may well complain about other units of the machine
});

test("a path in the settings file is meant from where the command runs, also when the unit runs elsewhere", () => {
  const text = unit({ file: { path: "gatehouse.toml", text: 'tls_cert = "c.pem"\ntls_key = "k.pem"\nport = 1' } });
  const environment = lines(text, "Environment");
  expect(environment).toContain("Environment=GATEHOUSE_CONFIG=/srv/house/gatehouse.toml");
  expect(environment).toContain("Environment=GATEHOUSE_TLS_CERT=/srv/house/c.pem");
  expect(environment).toContain("Environment=GATEHOUSE_TLS_KEY=/srv/house/k.pem");
});

test.each([
  { "tls-cert": "/etc/c.pem", "tls-key": "/home/pi/k.pem" },
  { "admin-token-file": "/root/token" },
  { "key-file": "../../home/pi/key" },
] as Record<string, string>[])("a home folder that holds %p stays visible", (flags) => {
  expect(lines(unit({ flags }), "ProtectHome")).toEqual(["ProtectHome=no"]);
});
