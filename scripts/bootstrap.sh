# Sourced by the commands beside it: finds or fetches the pinned Bun, installs what bun.lock lists, sets $bun.
# Asks no question, and fetches nothing but npm packages.
set -eu
cd "$(dirname "$0")/.."

bun_version=$(sed -n 's/^ *"bun": "\([0-9.]*\)".*/\1/p' package.json)

is_pinned() { [ "$("$1" --version 2>/dev/null </dev/null)" = "$bun_version" ]; }

# The platform package holds the executable itself: it serves where npm was told not to run install scripts.
find_bun() {
  for candidate in bun node_modules/.bin/bun .bun/node_modules/.bin/bun .bun/node_modules/@oven/bun-*/bin/bun; do
    if is_pinned "$candidate"; then
      bun=$(command -v "$candidate")
      case "$bun" in /*) ;; *) bun="$PWD/$bun" ;; esac
      return 0
    fi
  done
  return 1
}

if ! find_bun; then
  if ! command -v npm >/dev/null; then
    echo "Needed: Node.js with npm (https://nodejs.org), or Bun $bun_version on the PATH." >&2
    exit 1
  fi
  echo "Fetching Bun $bun_version into .bun/" >&2
  npm install --no-save --no-audit --no-fund --loglevel=error --prefix .bun "bun@$bun_version" >&2 </dev/null
  find_bun || { echo "npm installed Bun $bun_version, but it does not run on this machine." >&2; exit 1; }
fi

# A copy of the lock file marks a finished install; comparing it costs nothing.
if ! cmp -s bun.lock node_modules/.installed.lock; then
  "$bun" install --frozen-lockfile >&2 </dev/null
  cp bun.lock node_modules/.installed.lock
fi
