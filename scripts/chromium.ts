// Where the browser is, and how a machine without one gets it.

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

export const INSTALL_CHROMIUM = "To get it: apt-get install chromium, or put a chromium or google-chrome on the PATH.";

/** With `install`, a machine that lets us add packages without a question gets one. */
export function findChromium({ install }: { install: boolean }): string | undefined {
  const found = NAMES.map((name) => Bun.which(name)).find((path) => path !== null);
  if (found || !install || !canInstall()) return found;
  console.log("installing Chromium for the browser tests");
  const root = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  for (const step of [["update"], ["install", "--yes", "--no-install-recommends", "chromium"]]) {
    const { exitCode } = Bun.spawnSync([...root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", ...step]);
    if (exitCode !== 0) return undefined;
  }
  return findChromium({ install: false });
}

function canInstall(): boolean {
  if (!Bun.which("apt-get")) return false;
  return (
    process.getuid?.() === 0 || (Bun.which("sudo") !== null && Bun.spawnSync(["sudo", "-n", "true"]).exitCode === 0)
  );
}
