// The first page: under which addresses this host is reached, and something to paste for each.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { type Address, addressesOf } from "./addresses.ts";
import { CopyButton } from "./copy-button.tsx";
import { HealthPill } from "./health.tsx";
import type { Session } from "./session.ts";

export function HomePage({ session }: { session: Session }) {
  const { host, origin } = location; // what reached this page reaches the rest
  return (
    <>
      <header class="head">
        <div>
          <h1>{host}</h1>
          <p>Point your clients at these addresses.</p>
        </div>
        <HealthPill />
      </header>
      <div class="cards">
        {addressesOf(origin).map((address) => (
          <AddressCard key={address.title} address={address} />
        ))}
      </div>
      <SessionNote session={session} />
    </>
  );
}

function AddressCard({ address: { title, says, url, rest, samples } }: { address: Address }) {
  const [chosen, choose] = useState(0);
  const sample = samples[chosen];
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p>{says}</p>
      <div class="address">
        <code>
          {broken(url)}
          <span>{broken(rest)}</span>
        </code>
        <CopyButton text={url} label={`the ${title} address`} />
      </div>
      <div class="sample">
        <div class="tabs" role="tablist" aria-label={`${title} examples`}>
          {samples.map((each, index) => (
            <button
              key={each.title}
              type="button"
              role="tab"
              aria-selected={index === chosen}
              onClick={() => choose(index)}
            >
              {each.title}
            </button>
          ))}
          {sample && <CopyButton text={sample.text} label={`the ${title} example`} />}
        </div>
        <pre>{sample?.text}</pre>
      </div>
    </section>
  );
}

/** Long addresses break after a slash, not in the middle of a word. */
function broken(url: string) {
  return url.split(/(?<=\w\/)/).map((part) => (
    <Fragment key={part}>
      {part}
      <wbr />
    </Fragment>
  ));
}

function SessionNote({ session: { name, permissions, expiresAt } }: { session: Session }) {
  return (
    <p class="note">
      Signed in as <strong>{name}</strong> ({permissions.join(", ") || "no permissions"})
      {expiresAt && <> until {expiresAt.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}</>}.
    </p>
  );
}
