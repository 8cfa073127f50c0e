#!/bin/sh
# What the browser tests need: Debian's Chromium, and axe-core beside them. A second run does nothing.
cd "$(dirname "$0")" || exit 1

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"
  else return 1
  fi
}

give_up() {
  echo "$1" >&2
  echo "Until then the browser tests are skipped." >&2
  exit 1
}

if [ ! -x /usr/bin/chromium ]; then
  command -v apt-get >/dev/null \
    || give_up "There is no apt-get here. Put a Chromium at /usr/bin/chromium yourself."
  as_root true || give_up "Installing Chromium needs root: sudo apt-get install chromium fonts-dejavu-core"
  echo "Installing Chromium (Debian's package)"
  packages="chromium fonts-dejavu-core"
  install="env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages"
  # The lists may be old, or not there at all.
  as_root $install >/dev/null 2>&1 || { as_root apt-get update -qq && as_root $install >/dev/null; } \
    || give_up "apt-get could not install Chromium; what it said is above."
fi

if [ ! -f node_modules/axe-core/axe.min.js ]; then
  command -v npm >/dev/null || give_up "There is no npm here, which fetches axe-core."
  npm ci --silent --no-audit --no-fund --ignore-scripts || give_up "npm could not fetch axe-core."
fi
