#!/usr/bin/env bash
# Makes sure that the programs R2CC runs are there. What is missing is installed through apt if that needs no password,
# else named in one line with the command to type. Touches neither apt nor the network when nothing is missing.
# `system-packages.sh vm` also sees to what the vm lab needs, `uml` to what User Mode Linux does (docs/howto/vm-lab.md).
set -euo pipefail
trap 'exit 130' INT
quick() { (trap "" INT; exec "$@"); } # Python that Ctrl-C ends gives a wrong answer
export PATH="$PATH:/usr/sbin:/sbin"

missing=()
need() { # need PACKAGE COMMAND...: PACKAGE is missing if one of its commands is
  local package=$1 command
  shift
  for command in "$@"; do
    command -v "$command" >/dev/null || { missing+=("$package"); return 0; }
  done
}

need python3 python3
need g++ g++
need make make
need git git
need iproute2 ip tc
need nftables nft
need util-linux unshare nsenter flock
if [ "${1:-}" = vm ]; then need qemu-system-x86 qemu-system-x86_64; fi
if [ "${1:-}" = uml ]; then
  need gcc gcc
  need flex flex
  need bison bison
  need bc bc
  need patch patch
  need xz-utils xz
fi
if [ -n "${1:-}" ]; then
  need squashfs-tools mksquashfs
  need zstd zstd
fi
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -d /etc/pki ] || missing+=(ca-certificates)
quick python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)

if [ ${#missing[@]} -gt 0 ]; then
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  if ! command -v apt-get >/dev/null; then
    echo "error: missing programs; install what your system calls: ${missing[*]}" >&2
    exit 3
  elif [ "$(id -u)" = 0 ]; then
    as_root=()
  elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "error: missing packages; type: sudo apt-get update && sudo ${install[*]}" >&2
    exit 3
  fi
  echo "installing ${missing[*]} ..." >&2
  # One broken third-party repository must not keep us from what the others have.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 || echo "apt-get update had errors" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" -q >&2
fi

quick python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "error: R2CC needs Python 3.11 or newer, and $(command -v python3) is $(python3 -V)" >&2
  exit 3
}
