#!/usr/bin/env bash
# Fetch what examples/native is built and tested with, into build/native; a second call fetches nothing.
#   tests/native/setup.sh [PYTHON]    PYTHON: of the environment whose onnxruntime is linked
# Needs Debian 12 or later, root or sudo, and a network: about 70 MB.
set -eu
cd "$(dirname "$0")/../.."
python=${1:-.venv/bin/python}
out=build/native
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
version=$("$python" -c 'import onnxruntime; print(onnxruntime.__version__)')
[ "$(cat $out/ready 2>/dev/null)" = "$version" ] && exit 0
mkdir -p $out

need() { # need PROGRAM PACKAGE...
    command -v "$1" >/dev/null && return
    $sudo apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${@:2}"
}
command -v qemu-aarch64-static >/dev/null && command -v mmdebstrap >/dev/null ||
    $sudo apt-get -o DPkg::Lock::Timeout=300 update
need gcc gcc libc6-dev
need make make
need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
need qemu-aarch64-static qemu-user-static
need mmdebstrap mmdebstrap

mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" | grep -m 1 'debian/$')

# The C header: of Debian 13, by lists of its own, so that no other package is taken from there.
# It is older than the library, which answers older versions of its interface.
header() {
    local apt=$PWD/$out/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keys] $mirror trixie main" >"$apt/sources.list"
    local options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update -q
    (cd "$apt" && apt-get "${options[@]}" download libonnxruntime-dev && dpkg-deb -x ./*.deb unpacked)
}
header

layout() { # layout FOLDER LIBRARY: as a release of ONNX Runtime is laid out
    mkdir -p "$1/include" "$1/lib"
    cp $out/apt/unpacked/usr/include/onnxruntime/onnxruntime_c_api.h "$1/include/"
    ln -sfn "$2" "$1/lib/libonnxruntime.so"
    ln -sfn libonnxruntime.so "$1/lib/libonnxruntime.so.1"
}
layout $out/ort "$("$python" -c 'import onnxruntime, pathlib
print(next(pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")))')"

# 64-bit ARM: the library of the same version, and the system libraries that it needs.
"$python" -m pip download -q --no-deps -d $out/wheels --only-binary=:all: --python-version 3.11 \
    --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
    --platform manylinux_2_28_aarch64 "onnxruntime==$version"
"$python" -m zipfile -e $out/wheels/onnxruntime-"$version"-*aarch64.whl $out/wheel-arm64
layout $out/ort-arm64 "$PWD/$(echo $out/wheel-arm64/onnxruntime/capi/libonnxruntime.so.*)"
rm -rf $out/root-arm64
$sudo mmdebstrap --quiet --variant=extract --arch=arm64 --mode=root \
    --include=libc6,libstdc++6,libgcc-s1,zlib1g bookworm $out/root-arm64 "deb $mirror bookworm main"

# qemu shows the guest this machine's /proc/cpuinfo, on which the ARM library crashes: a Pi 5's.
mkdir -p $out/root-arm64/proc
features="fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
for i in 0 1 2 3; do
    printf 'processor\t: %d\nFeatures\t: %s\nCPU implementer\t: 0x41\nCPU architecture: 8\n' $i "$features"
    printf 'CPU variant\t: 0x4\nCPU part\t: 0xd0b\nCPU revision\t: 1\n\n'
    identification=$out/root-arm64/sys/devices/system/cpu/cpu$i/regs/identification
    mkdir -p $identification
    echo 0x00000000414fd0b1 >$identification/midr_el1
done >$out/root-arm64/proc/cpuinfo
for name in possible present online; do
    echo 0-3 >$out/root-arm64/sys/devices/system/cpu/$name
done
rm -rf $out/wheels $out/apt
echo "$version" >$out/ready
