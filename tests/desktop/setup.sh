#!/usr/bin/env bash
# Make build/desktop/venv, the environment in which examples/desktop runs and is frozen: 500 MB.
#   tests/desktop/setup.sh [PYTHON]      a second call installs nothing
# Needs apt (Debian, Ubuntu) and root or sudo for two libraries of Qt, and a network.
set -eu
cd "$(dirname "$0")/../.."
python=${1:-python3}
out=build/desktop
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
[ -f $out/ready ] && [ $out/ready -nt examples/desktop/requirements.txt ] && exit 0
dpkg -s libegl1 libgl1 libxkbcommon0 libdbus-1-3 libfontconfig1 >/dev/null 2>&1 || {
    $sudo apt-get -o DPkg::Lock::Timeout=300 update -q
    $sudo apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
        libegl1 libgl1 libxkbcommon0 libdbus-1-3 libfontconfig1 fonts-dejavu-core binutils
}
test -x $out/venv/bin/python || "$python" -m venv $out/venv
$out/venv/bin/python -m pip install -q -c constraints.txt -e . -r examples/desktop/requirements.txt
touch $out/ready
