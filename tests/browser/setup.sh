#!/usr/bin/env bash
# Fetch what examples/web is tested with: Chromium, Node, and the two libraries, into build/web; a
# second call fetches nothing but what examples/web/package.json has changed.
# Needs apt (Debian, Ubuntu), root or sudo, and a network: about 350 MB.
set -eu
cd "$(dirname "$0")/../.."
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
need() { # need PROGRAM PACKAGE...
    command -v "$1" >/dev/null && return
    $sudo apt-get -o DPkg::Lock::Timeout=300 update -q
    $sudo apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${@:2}"
}
need chromium chromium
need node nodejs
need npm npm
wanted=$(cat examples/web/* | sha256sum)
[ "$(cat build/web/ready 2>/dev/null)" = "$wanted" ] && exit 0
node examples/web/vendor.mjs build/web
echo "$wanted" >build/web/ready
