import { describe, expect, test } from "bun:test";
import { type ConfigInput, LEAVES, parseConfig } from "../../src/platform/config.ts";

const parse = (input: Partial<ConfigInput>) => parseConfig({ env: {}, flags: {}, ...input });
const file = (text: string) => ({ file: { path: "gatehouse.toml", text } });

describe("a wrong setting stops the start and says its name, what was given and what is allowed", () => {
  const CASES: [name: string, input: Partial<ConfigInput>, ...parts: string[]][] = [
    ["a port past the last", { env: { GATEHOUSE_PORT: "65536" } }, "port", "GATEHOUSE_PORT", "65536", "0 to 65535"],
    ["a port below zero", { env: { GATEHOUSE_PORT: "-1" } }, "port", "-1"],
    ["a port that is text", { flags: { port: "http" } }, "port", "--port", '"http"', "whole number"],
    ["a port with a fraction", { flags: { port: "80.5" } }, "port", "80.5"],
    ["an unknown level", { env: { GATEHOUSE_LOG: "loud" } }, "log", '"loud"', "debug, info, warn, error, silent"],
    ["a short admin token, masked", { env: { GATEHOUSE_ADMIN_TOKEN: "x".repeat(31) } }, "admin_token", "31 characters"],
    ["an admin token with a space", { env: { GATEHOUSE_ADMIN_TOKEN: `${"x".repeat(32)} x` } }, "admin_token"],
    ["a public URL with a path", { env: { GATEHOUSE_PUBLIC_URL: "https://a.example/x" } }, "public_url", "origin"],
    ["a public URL of another kind", { env: { GATEHOUSE_PUBLIC_URL: "ftp://a.example" } }, "public_url", "origin"],
    ["a host name with a scheme", { env: { GATEHOUSE_ALLOWED_HOSTS: "http://a.example" } }, "allowed_hosts"],
    [
      "a proxy that is no address",
      { env: { GATEHOUSE_TRUSTED_PROXIES: "10.0.0.0/33" } },
      "trusted_proxies",
      "10.0.0.0/33",
    ],
    ["a boolean that is none", { env: { GATEHOUSE_METRICS_OPEN: "maybe" } }, "metrics_open", "true or false"],
    ["an unknown key in the file", file("hots = '::'"), "gatehouse.toml", '"hots"'],
    ["an unknown table in the file", file("[nothing]\nx = 1"), "gatehouse.toml", '"nothing"'],
    ["a wrong type in the file", file("port = '80'"), "port", "gatehouse.toml", '"80"'],
    ["a file that is no TOML", file("port = "), "gatehouse.toml", "TOML"],
    ["an unknown flag", { flags: { prot: "80" } }, "--prot"],
    ["a certificate without its key", { flags: { "tls-cert": "c.pem" } }, "tls_cert", "tls_key"],
  ];
  test.each(CASES)("%s", (_name, input, ...parts) => {
    const result = parse(input);
    if (result.ok) throw new Error("it was accepted");
    for (const part of parts) expect(result.problems.join("\n")).toContain(part);
  });

  test("and never repeats a secret", () => {
    const result = parse({ env: { GATEHOUSE_ADMIN_TOKEN: "hunter2" } });
    expect(JSON.stringify(result)).not.toContain("hunter2");
  });
});

test("a later source wins over an earlier one, and each setting knows where it came from", () => {
  const text = "port = 1\nhost = 'a'\nlog = 'warn'";
  const result = parse({ ...file(text), env: { GATEHOUSE_PORT: "2", GATEHOUSE_HOST: "b" }, flags: { port: "3" } });
  if (!result.ok) throw new Error(result.problems.join());
  const { settings, origins } = result;
  expect([settings.port, settings.host, settings.log, settings.data]).toEqual([3, "b", "warn", "./data"]);
  expect([origins.port, origins.host, origins.log, origins.data]).toEqual([
    "--port",
    "GATEHOUSE_HOST",
    "gatehouse.toml",
    "default",
  ]);
});

test("an unknown variable, and one that a container platform injected, only warn", () => {
  const result = parse({ env: { GATEHOUSE_HOTS: "x", GATEHOUSE_PORT: "tcp://10.0.0.1:8787", PATH: "/bin" } });
  if (!result.ok) throw new Error(result.problems.join());
  expect(result.settings.port).toBe(8787);
  expect(result.warnings.map((line) => line.split(" ")[0])).toEqual(["GATEHOUSE_HOTS", "GATEHOUSE_PORT"]);
});

test("a variable that another part of the program reads is no unknown one", () => {
  const env = { GATEHOUSE_CONFIG: "/etc/gatehouse.toml", GATEHOUSE_AGENT_ENV_COUNTER_KEY: "x" };
  expect(parse({ env })).toMatchObject({ ok: true, warnings: [] });
});

test("an empty variable counts as unset", () => {
  expect(parse({ env: { GATEHOUSE_PORT: "" } })).toMatchObject({ ok: true, settings: { port: 8787 } });
});

test("lists are given with commas or spaces", () => {
  const result = parse({ env: { GATEHOUSE_TRUSTED_PROXIES: "10.0.0.0/8, ::1 192.168.0.1" } });
  expect(result).toMatchObject({ settings: { trusted_proxies: ["10.0.0.0/8", "::1", "192.168.0.1"] } });
});

test("a port at either limit is accepted", () => {
  for (const port of ["0", "65535"]) expect(parse({ flags: { port } })).toMatchObject({ ok: true });
});

test("every setting has a description, a variable and a flag of its own", () => {
  for (const leaf of LEAVES) expect(leaf.schema.description ?? "").not.toBe("");
  for (const name of ["variable", "flag", "path"] as const) {
    expect(new Set(LEAVES.map((leaf) => leaf[name])).size).toBe(LEAVES.length);
  }
});
