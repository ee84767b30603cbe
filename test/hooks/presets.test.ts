// What people want to see of an event, read from payloads that the senders published.
import { expect, test } from "bun:test";
import examples from "@octokit/webhooks-examples";
import { type PresetName, presetOf } from "../../src/hooks/presets.ts";
import { findBy } from "../../src/hooks/template.ts";

const read = (preset: PresetName, payload: unknown) => {
  const reading = { headers: new Headers(), query: new URLSearchParams(), payload };
  const find = (what: "title" | "url" | "actor") => findBy(presetOf(preset)[what] ?? [])(reading);
  return { title: find("title"), url: find("url"), actor: find("actor") };
};

test("GitHub: everything that has a name of its own is called by it", () => {
  const nameless = new Set(
    `github_app_authorization installation installation_repositories marketplace_purchase membership meta org_block
     organization page_build ping project_card projects_v2_item public repository repository_dispatch repository_import
     security_advisory sponsorship star team watch`.split(/\s+/),
  );
  const untitled = examples.flatMap(({ name, examples: all }) =>
    nameless.has(name) ? [] : all.filter((payload) => read("github", payload).title === undefined).map(() => name),
  );
  expect([...new Set(untitled)]).toEqual([]);
});

test.each([
  ["discussion", /\S/, /\/discussions\//],
  ["workflow_run", /\S/, /\/actions\/runs\//],
  ["workflow_job", /\S/, /\/runs\//],
  ["check_run", /\S/, /\/runs\//],
  ["milestone", /\S/, /\/milestone\//],
  ["release", /\S/, /\/releases\//],
  ["dependabot_alert", /\S/, /\/dependabot\//],
  ["code_scanning_alert", /^(?!refs\/)/, /\/code-scanning\//],
])("GitHub's %s leads to the thing itself", (name, title, url) => {
  const found = examples.find((event) => event.name === name)?.examples.map((payload) => read("github", payload)) ?? [];
  expect(found.length).toBeGreaterThan(0);
  for (const one of found)
    expect([one.title, one.url]).toEqual([expect.stringMatching(title), expect.stringMatching(url)]);
});

test("an issue that is labeled or put into a milestone keeps its own title", () => {
  const issue = { title: "It is broken", html_url: "https://example.org/1" };
  const more = { label: { name: "bug" }, milestone: { title: "v1", html_url: "https://example.org/m" } };
  expect(read("github", { issue, ...more })).toMatchObject({ title: issue.title, url: issue.html_url });
});

test("GitLab's jobs and releases, Bitbucket's pushes", () => {
  expect(read("gitlab", { object_kind: "build", build_name: "test" }).title).toBe("test");
  expect(read("gitlab", { object_kind: "release", name: "v1.1", url: "https://example.org/r" })).toMatchObject({
    title: "v1.1",
    url: "https://example.org/r",
  });
  const change = {
    new: { name: "main", target: { message: "Fix it" } },
    links: { html: { href: "https://example.org/c" } },
  };
  expect(read("bitbucket", { push: { changes: [change] } })).toMatchObject({
    title: "Fix it",
    url: "https://example.org/c",
  });
});
