#!/usr/bin/env bash
# Makes a CloudLab node (Ubuntu 24.04 or newer) ready for R2CC. Take the image's snapshot once it is done. What is there
# already is left alone. Limits of NICs are lost when a node goes down: the profile has it run again at boot, by its copy
# in /usr/local/sbin.
#
#   sudo bash harness/cloudlab/setup.sh --hardware r7525 --rate-gbit 10
#   bash harness/cloudlab/setup.sh --hardware d8545 --dry-run          # prints every command, runs none
set -euo pipefail

usage() {
  cat <<'HELP'
usage: setup.sh --hardware r7525|d7525|d8545|c6525-100g [options]
  --rate-gbit N        limit each NIC with an address 10.RAIL.0.x to N Gbit/s (0, the default: leave them alone)
  --nics A,B           these NICs instead
  --cuda-keyring FILE  NVIDIA's cuda-keyring package, downloaded by you: where CUDA's toolkit comes from
  --root-login         let those in as root who have a key for --user: faults on NICs need root
  --only STEP,STEP     of packages, gpu, limits, kernel, copy, login, rates, r2cc
  --user NAME          whose checkout and .venv it is (the one who called sudo)
  --root DIR           write files below DIR (for tests)
  --dry-run            print the commands, run none, write nothing
HELP
}

# Ubuntu's own packages; versions that matter are pinned here, by hardware: CUDA 13 has no V100 any more.
PACKAGES=(build-essential git curl ca-certificates python3-venv python3-dev pkg-config
  rdma-core ibverbs-utils libibverbs-dev perftest infiniband-diags python3-pyverbs
  openmpi-bin libopenmpi-dev iproute2 nftables ethtool pciutils numactl hwloc iperf3 jq)
STEPS=packages,gpu,limits,kernel,copy,login,rates,r2cc

hardware='' rate_gbit=0 nics='' keyring='' only=$STEPS user=${SUDO_USER:-root} root='' dry=false root_login=false
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

say() { printf '%s\n' "$*"; }
die() { printf 'setup.sh: %s\n' "$*" >&2; exit 2; }
run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  $dry || "$@"
}
# `put FILE < text`: written only when it differs.
put() {
  local file=$root$1 text
  text=$(cat)
  if [ -f "$file" ] && [ "$(cat "$file")" = "$text" ]; then
    say "= $1"
    return
  fi
  say "> $1"
  printf '%s\n' "$text" | sed 's/^/    /'
  if $dry; then return; fi
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "$text" >"$file"
}

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      --dry-run) dry=true; shift; continue ;;
      --root-login) root_login=true; shift; continue ;;
      -h | --help) usage; exit 0 ;;
      --hardware | --rate-gbit | --nics | --cuda-keyring | --only | --user | --root) ;;
      *) usage >&2; die "unknown option $1" ;;
    esac
    [ $# -ge 2 ] || die "$1 needs a value"
    case $1 in
      --hardware) hardware=$2 ;;
      --rate-gbit) rate_gbit=$2 ;;
      --nics) nics=$2 ;;
      --cuda-keyring) keyring=$2 ;;
      --only) only=$2 ;;
      --user) user=$2 ;;
      --root) root=$2 ;;
    esac
    shift 2
  done
}

check() {
  case $hardware in
    r7525) driver=nvidia-driver-570-server cuda=cuda-toolkit-12-9 ;;
    d7525 | d8545) driver=nvidia-driver-580-server cuda=cuda-toolkit-13-0 ;;
    c6525-100g) driver='' cuda='' ;;
    '') usage >&2; die 'which --hardware is it?' ;;
    *) die "no --hardware $hardware: r7525, d7525, d8545, c6525-100g" ;;
  esac
  [[ $rate_gbit =~ ^[0-9]{1,3}$ ]] || die "--rate-gbit $rate_gbit is no whole number of Gbit/s"
  [[ $nics =~ ^[A-Za-z0-9._,-]*$ ]] || die "--nics $nics: names with commas between"
  [ -z "$keyring" ] || [ -f "$keyring" ] || $dry || die "--cuda-keyring $keyring: no such file"
  local step
  for step in ${only//,/ }; do
    case ,$STEPS, in *,"$step",*) ;; *) die "--only $step: no such step ($STEPS)" ;; esac
  done
  $dry || [ -n "$root" ] || [ "$(id -u)" = 0 ] || die 'run it with sudo (or with --dry-run)'
  case ,$only, in
    *,r2cc,*) # before the half hour that the other steps take
      $dry || python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        die "R2CC needs Python 3.11 or newer, and this is $(python3 -V 2>&1): take an image UBUNTU24-64-STD" ;;
  esac
}

packages() {
  run env DEBIAN_FRONTEND=noninteractive apt-get update -q
  run env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${PACKAGES[@]}"
}

gpu() {
  if [ -z "$driver" ]; then
    say '# no GPU'
    return
  fi
  if ! $dry && nvidia-smi -L >/dev/null 2>&1; then
    say '# the driver works'
  else
    run env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$driver"
    reboot=true
  fi
  if [ -n "$keyring" ]; then
    run dpkg -i "$keyring"
    run env DEBIAN_FRONTEND=noninteractive apt-get update -q
  elif ! $dry && ! apt-cache show "$cuda" >/dev/null 2>&1; then
    say "# $cuda is not to be had here: download NVIDIA's cuda-keyring package for this Ubuntu, then --cuda-keyring FILE"
    failed="$failed gpu"
    return
  fi
  run env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$cuda"
  # GPUDirect RDMA. Where the module is missing the kernel may do dma-buf: `r2cc doctor` says which.
  put /etc/modules-load.d/r2cc.conf <<<'nvidia_peermem'
}

limits() {
  put /etc/security/limits.d/90-r2cc.conf <<'TEXT'
# RDMA pins memory; many connections are many files.
* soft memlock unlimited
* hard memlock unlimited
* soft nofile 1048576
* hard nofile 1048576
root soft memlock unlimited
root hard memlock unlimited
TEXT
}

kernel() {
  put /etc/sysctl.d/90-r2cc.conf <<'TEXT'
# Several NICs of one host: each answers for its own address only, and each path is allowed to come and go by itself.
net.ipv4.conf.all.arp_ignore = 1
net.ipv4.conf.all.arp_announce = 2
net.ipv4.conf.default.arp_ignore = 1
net.ipv4.conf.default.arp_announce = 2
net.ipv4.conf.all.rp_filter = 2
net.ipv4.conf.default.rp_filter = 2
net.core.rmem_max = 268435456
net.core.wmem_max = 268435456
vm.nr_hugepages = 512
TEXT
  run sysctl --quiet --load="$root/etc/sysctl.d/90-r2cc.conf"
}

copy() {
  local to=$root/usr/local/sbin/r2cc-setup
  if cmp -s "${BASH_SOURCE[0]}" "$to"; then
    say '= /usr/local/sbin/r2cc-setup'
  else
    run install -D -m 755 "${BASH_SOURCE[0]}" "$to"
  fi
}

# Who may become root by sudo without a password gains nothing by it.
login() {
  local home keys to=$root/root/.ssh/authorized_keys key
  if ! $root_login; then
    say '# root logs in as before (--root-login)'
    return
  fi
  say ">> /root/.ssh/authorized_keys: what $user has and it has not"
  if $dry; then return; fi
  home=$(getent passwd "$user" | cut -d: -f6) || true
  keys=$home/.ssh/authorized_keys
  if [ -z "$home" ] || [ ! -f "$keys" ]; then
    say "# $user has no authorized_keys"
    failed="$failed login"
    return
  fi
  install -d -m 700 "$(dirname "$to")"
  touch "$to"
  chmod 600 "$to"
  while IFS= read -r key || [ -n "$key" ]; do
    grep -qxF -- "$key" "$to" || printf '%s\n' "$key" >>"$to"
  done <"$keys"
}

# NICs with an address 10.RAIL.0.x/24, in the order of rails.
data_nics() {
  ip -o -4 address show | while read -r _ nic _ address _; do
    if [[ $address =~ ^10\.([1-9])\.0\.[0-9]+/24$ ]]; then printf '%s %s\n' "${BASH_REMATCH[1]}" "$nic"; fi
  done | sort -n | cut -d' ' -f2
}

rates() {
  local found=${nics//,/ } nic
  if [ "$rate_gbit" = 0 ]; then
    say '# rates are left alone'
    return
  fi
  [ -n "$found" ] || found=$(data_nics | tr '\n' ' ')
  if [ -z "${found// /}" ]; then
    say '# no NIC has an address 10.RAIL.0.x/24'
    $dry || failed="$failed rates"
    return
  fi
  for nic in $found; do
    # In the NIC itself: it holds for RDMA, too, which a token bucket of the kernel never sees. Of what is sent.
    if ! run dcb maxrate set dev "$nic" tc-maxrate "all:${rate_gbit}Gbit"; then
      say "# $nic cannot be limited: with a BlueField in DPU mode, limit its ports p0 and p1 on its own Linux"
      failed="$failed rates:$nic"
    fi
    run dcb maxrate show dev "$nic" || true
  done
}

r2cc() {
  if ! $dry && [ ! -f "$checkout/Makefile" ]; then
    say "# no checkout at $checkout"
    failed="$failed r2cc"
    return
  fi
  run sudo -u "$user" make -C "$checkout" setup
}

steps() {
  say "# setup.sh for $hardware"
  $dry || say "# $(date -u +%FT%TZ)"
  local step
  for step in ${only//,/ }; do
    say "## $step"
    "$step"
  done
  if $reboot; then say '# reboot before you take a snapshot: the driver is new'; fi
  if [ -n "$failed" ]; then
    say "# not done:$failed"
    return 1
  fi
  say '# done'
}

parse "$@"
check
failed='' reboot=false
if $dry || [ -n "$root" ]; then
  steps
else
  steps 2>&1 | tee -a /var/log/r2cc-setup.log
fi
