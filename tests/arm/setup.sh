#!/usr/bin/env bash
# Makes the emulated ARM machines of `pytest -m arm`: root file systems of Debian 12 and the wheels
# of each engine. Nothing is run in them here, so no chroot and no binfmt are needed. On Debian, as
# root: it installs qemu-user-static and mmdebstrap where they are missing. 0.5 GB of disk.
#
#   setup.sh          makes them, unless they are there
#   setup.sh --where  prints their folder: a hash of this file and the engines' versions names it
set -euo pipefail
cd "$(dirname "$0")/../.."

pins=$(grep -E "^(numpy|tokenizers|onnxruntime|openvino|ai-edge-litert|flatbuffers)==" constraints.txt)
key=$({ echo "$pins"; cat tests/arm/setup.sh; } | sha256sum | cut -c 1-16)
where=${EDGEBERT_ARM_DIR:-$PWD/build/arm}/$key
if [ "${1:-}" = --where ]; then
    echo "$where"
    exit
fi
[ -d "$where" ] && exit
if [ -x .venv/bin/python ]; then python=$PWD/.venv/bin/python; else python=python3; fi

as_root() {
    [ "$(id -u)" = 0 ] || { echo "$0 needs root for this: $*" >&2; exit 1; }
    "$@"
}
if ! command -v qemu-aarch64-static qemu-arm-static mmdebstrap >/dev/null; then
    as_root apt-get update -qq
    as_root apt-get install -yqq --no-install-recommends qemu-user-static mmdebstrap
fi

mkdir -p "${where%/*}"
exec 9>"$where.lock"
flock 9 # a second set-up at the same time waits, and finds all done
[ -d "$where" ] && exit
rm -rf "$where.part"
mkdir "$where.part"
cd "$where.part"

# Debian 12 without its updates, whose index and files may not fit together for an hour; from where
# this machine gets it, or from mmdebstrap's own default.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Codename: bookworm" |
    head -n 1)

rootfs() { # architecture, folder, packages
    local packages="python3-minimal,libpython3.11-stdlib,libstdc++6,zlib1g,$3"
    as_root mmdebstrap --quiet --variant=extract --mode=root --arch="$1" --include="$packages" \
        bookworm "$2" ${mirror:+"deb $mirror bookworm main"}
}

# platforms, folder, packages; pip doesn't take a platform for the older ones that it includes
wheels() {
    local platforms=() packages=() one
    for one in $1; do platforms+=(--platform "$one"); done
    for one in $3; do packages+=("$one"); done
    "$python" -m pip install -q --root-user-action=ignore --no-deps --only-binary=:all: \
        --python-version 3.11 "${platforms[@]}" --target "$2" -c constraints.txt "${packages[@]}"
}

# Folder, part, MIDR, features. Engines read from these files which kernels a core can run; without
# them they would read the host's, and crash. So they must be true of the core that is emulated.
core() {
    local cpus=(0 1) cpu
    mkdir -p "$1/proc"
    for cpu in "${cpus[@]}"; do
        printf 'processor\t: %s\nFeatures\t: %s\nCPU implementer\t: 0x41\n' "$cpu" "$4"
        printf 'CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: %s\nCPU revision\t: 1\n\n' "$2"
        mkdir -p "$1/sys/devices/system/cpu/cpu$cpu/regs/identification"
        echo "$3" >"$1/sys/devices/system/cpu/cpu$cpu/regs/identification/midr_el1"
    done >"$1/proc/cpuinfo"
    for cpu in possible present online; do echo 0-1 >"$1/sys/devices/system/cpu/$cpu"; done
}

echo "$pins" >constraints.txt
rootfs arm64 cortex-a53 libgcc-s1
rm -rf cortex-a53/proc/* cortex-a53/sys/*
cp -al cortex-a53 cortex-a76
cp -al cortex-a53 i8mm
rootfs armhf cortex-a7 python3-numpy,libgomp1 # PyPI has no numpy for it
rm -rf cortex-a7/proc/* cortex-a7/sys/*
wheels "manylinux2014_aarch64 manylinux_2_27_aarch64 manylinux_2_28_aarch64 manylinux_2_31_aarch64
    manylinux_2_34_aarch64 manylinux_2_35_aarch64" wheels-64 \
    "numpy tokenizers onnxruntime openvino ai-edge-litert flatbuffers protobuf packaging tqdm
    backports.strenum typing-extensions ml_dtypes"
wheels "manylinux2014_armv7l manylinux_2_34_armv7l" wheels-32 "tokenizers tflite-runtime==2.14.0"

base="fp asimd evtstrm crc32 cpuid"
dot="$base aes pmull sha1 sha2 atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
core cortex-a53 0xd03 0x00000000410fd034 "$base"
core cortex-a76 0xd0b 0x00000000414fd0b1 "$dot"
core i8mm 0xd4f 0x00000000410fd4f0 \
    "$dot jscvt fcma sha3 sha512 asimdfhm dit ilrcpc flagm i8mm bf16"
core cortex-a7 0xc07 0x00000000410fc075 "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt"
sed -i "s/architecture: 8/architecture: 7/" cortex-a7/proc/cpuinfo
mv "$where.part" "$where"
du -sh "$where" >&2
