// The one place that cuts a request's path; nothing is decoded, so nothing can be decoded twice.
import { expect, test } from "bun:test";
import { parseLine } from "../../src/gateway/request-line.ts";

test.each([
  ["http://pi/v1/home/default/openai/chat/completions", "home/default", "openai", "chat/completions", ""],
  ["http://pi:8787/v1/home/default/openai/files?a=%2F&a=/x/y", "home/default", "openai", "files", "?a=%2F&a=/x/y"],
  ["https://[::1]:8787/v1/home/default/openai/", "home/default", "openai", "", ""],
  ["http://pi/v1/home/default/openai", "home/default", "openai", "", ""],
  ["http://pi/v1/home/default/openai?x=/y", "home/default", "openai", "", "?x=/y"],
  ["http://pi/v1/ho%6de/default/openai/%7e%2F%zz", "ho%6de/default", "openai", "%7e%2F%zz", ""],
  ["http://pi/v1/home/default//x", "home/default", "", "x", ""],
])("%s", (url, gateway, provider, path, query) => expect(parseLine(url)).toEqual({ gateway, provider, path, query }));
