"""What facts run on hosts where one command is not enough: fixed POSIX shell; what varies comes as arguments."""

from __future__ import annotations

WHERE = r"""
where() {
  old=$IFS; IFS=:
  for folder in $PATH; do
    if [ -f "$folder/$1" ] && [ -x "$folder/$1" ]; then IFS=$old; printf '%s' "$folder/$1"; return; fi
  done
  IFS=$old; return 1
}
"""
SHOW = (
    WHERE
    + r"""
show() {
  for file in "$@"; do
    { IFS= read -r line <"$file"; } 2>/dev/null && printf '%s\t%s\n' "$file" "$line"
  done
}
linked() { [ -e "$1" ] && printf '%s\t%s\n' "$1" "$(readlink -f "$1")"; }
"""
)
"""`read` starts no process: thousands of files are read in a second."""


def script(body: str, *words: str) -> tuple[str, ...]:
    return ("sh", "-c", f"{SHOW}{body}:", "fact", *words)


VERSIONS = script(r"""
version() {
  found=$(where "$1") || return
  name=$1; shift; printf '%s\t%s\n' "$name" "$("$found" "$@" 2>&1 | head -n 1)"
}
version ip -V; version tc -V; version rdma -V; version ethtool --version
version nft --version; version chronyc --version; version modinfo --version
printf 'nvidia-smi\t'; head -n 1 /proc/driver/nvidia/version 2>/dev/null || echo
""")
NET = script(r"""
for nic in /sys/class/net/*; do
  show "$nic/address" "$nic/speed" "$nic/duplex" "$nic/dev_port"
  linked "$nic/device"; linked "$nic/device/driver"
done
""")
RDMA = script(r"""
for device in /sys/class/infiniband/*; do
  linked "$device/device"
  for port in "$device"/ports/*; do
    show "$port/state" "$port/phys_state" "$port/link_layer"
    for file in "$port"/gids/*; do
      { IFS= read -r gid <"$file"; } 2>/dev/null || continue
      [ "$gid" = 0000:0000:0000:0000:0000:0000:0000:0000 ] && continue
      printf '%s\t%s\n' "$file" "$gid"
      show "$port/gid_attrs/types/${file##*/}" "$port/gid_attrs/ndevs/${file##*/}"
    done
  done
done
""")
RDMA_COUNTERS = script(r"""
for port in /sys/class/infiniband/*/ports/*; do
  for name in symbol_error link_downed link_error_recovery local_link_integrity_errors port_rcv_errors \
      port_xmit_discards excessive_buffer_overrun_errors; do show "$port/counters/$name"; done
  for name in local_ack_timeout_err out_of_sequence packet_seq_err rnr_nak_retry_err rx_icrc_encapsulated \
      req_cqe_error resp_cqe_error; do show "$port/hw_counters/$name"; done
done
""")
PCI = script(r"""
for device in /sys/bus/pci/devices/*; do
  { IFS= read -r class <"$device/class"; } 2>/dev/null || continue
  case $class in 0x02*|0x03*|0x0604*|0x12*) ;; *) continue ;; esac
  show "$device/class" "$device/vendor" "$device/current_link_speed" "$device/current_link_width" \
    "$device/max_link_speed" "$device/max_link_width"
  linked "$device/driver"
  printf '%s/path\t%s\n' "$device" "$(readlink -f "$device")"
  case $class in 0x0604*) printf '%s/config\t%s\n' "$device" "$(od -An -v -tx1 "$device/config" | tr -d ' \n')" ;; esac
done
""")
ETHTOOL = script(r"""
for nic in /sys/class/net/*; do
  name=${nic##*/}
  [ "$name" = lo ] && continue
  for option in i k m; do
    [ $option = m ] && [ ! -e "$nic/device" ] && continue
    printf '== %s %s\n' "$name" $option; timeout 2 ethtool -$option "$name" 2>/dev/null
  done
  printf '== %s settings\n' "$name"; timeout 2 ethtool "$name" 2>/dev/null
done
""")
MODULES = ("cat", "/proc/modules")
MODINFO = script(
    r"""
for module in "$@"; do
  grep -q "^$module " /proc/modules 2>/dev/null || continue
  printf '== %s\n' "$module"; modinfo "$module" 2>/dev/null
done
""",
    *("mlx5_core", "mlx5_ib", "bnxt_en", "bnxt_re", "irdma", "ice", "efa", "rdma_rxe", "ib_core", "nvidia"),
    *("nvidia_peermem", "nv_peer_mem"),
)
KERNEL = script(r"""
printf 'release\t%s\n' "$(uname -r)"
show /proc/driver/nvidia/version
count=0; for group in /sys/kernel/iommu_groups/*; do [ -e "$group" ] && count=$((count + 1)); done
printf 'iommu_groups\t%s\n' "$count"
for group in /sys/kernel/iommu_groups/*/type; do
  { IFS= read -r type <"$group"; } 2>/dev/null && printf '%s\n' "$type"
done | sort -u | tr '\n' ' ' | sed 's/^/iommu_types\t/;s/ $//'
printf '\n'
grep -m 1 -q ' ib_umem_dmabuf_get' /proc/kallsyms 2>/dev/null && printf 'symbol ib_umem_dmabuf_get\tyes\n'
""")
LIMITS = ("cat", "/proc/self/limits")
IDENTITY = script(r"""
sed -n 's/^\(Uid\|CapEff\):[[:space:]]*/\1\t/p' /proc/self/status
printf 'uid_map\t%s\n' "$(head -n 1 /proc/self/uid_map)"
printf 'connection\t%s\n' "$SSH_CONNECTION"
""")
SYSCTL = (
    *("sh", "-c"),
    # Not by `read`: some shells read byte by byte, and these files end after the first read.
    r"""
cd /proc/sys || exit
grep -s -H '' net/ipv4/conf/*/rp_filter net/ipv4/conf/*/arp_ignore net/ipv4/conf/*/arp_announce net/ipv4/ip_forward \
  net/core/rmem_max net/core/wmem_max net/ipv4/tcp_rmem net/ipv4/tcp_wmem kernel/numa_balancing | sed 's/:/\t/'
""",
)
DAEMONS = script(r"""
for file in /proc/[0-9]*/comm; do
  { IFS= read -r name <"$file"; } 2>/dev/null || continue
  case $name in chronyd|ntpd|ntpd-rs|systemd-timesyn|openntpd|ptp4l|phc2sys|nv_peer_mem) printf '%s\n' "$name" ;; esac
done | sort -u
""")
STORAGE = r"""
case $1 in "~/"*) prefix=$HOME/${1#"~/"} ;; *) prefix=$1 ;; esac
[ -e "$prefix" ] && prefix=$(readlink -f -- "$prefix")
there=$prefix
while [ ! -e "$there" ]; do there=$(dirname -- "$there"); done
printf '== prefix\n%s\n== existing\n%s\n== writable\n' "$prefix" "$there"
[ -d "$there" ] && [ -w "$there" ] && echo yes || echo no
printf '== disk\n'; df -Pk -- "$there"
printf '== shm\n'; [ -d /dev/shm ] && df -Pk /dev/shm
"""
USERS_FILE = r"""
# The user's file that NCCL reads in a program of this login: where the user's entry has its home, not where $HOME says.
users_file() {
  [ -z "$NCCL_CONF_FILE" ] || { printf '%s' "$NCCL_CONF_FILE"; return; }
  user=$(id -ru)
  home_of_entry="s|^[^:]*:[^:]*:$user:[^:]*:[^:]*:\([^:]*\):.*|\1/.nccl.conf|p"
  { getent passwd "$user" 2>/dev/null || sed -n p /etc/passwd; } | sed -n "$home_of_entry" | head -n 1
}
"""
SETTINGS = script(
    USERS_FILE
    + r"""
chosen='^(NCCL|R2CC)_[A-Z0-9_]+='
{ env | grep -E "$chosen"; grep -hsE "$chosen" "$(users_file)" /etc/nccl.conf; } |
  grep -Ev '^[A-Z0-9_]*(KEY|TOKEN|SECRET|PASSWORD)'
"""
)
FORBIDS = script(r"""
"$(where ping)" -h 2>&1 | grep -e -M || { echo "this ping cannot forbid fragments" >&2; exit 1; }
""")
PATHS = r"""
ip=$(where ip); ping=$(where ping)
forbids=; [ -n "$ping" ] && "$ping" -h 2>&1 | grep -q -e -M && forbids=yes
one() {
  printf '== %s %s\n' "$1" "$3"
  printf 'route\t%s\n' "$("$ip" -j route get "$3" from "$2" 2>/dev/null | tr -d '\n')"
  [ -n "$ping" ] || return
  "$ping" -q -c 1 -i 0.3 -w 1 -I "$1" "$3" >/dev/null 2>&1; code=$?
  printf 'small\t%s\n' "$code"
  [ "$code" = 0 ] && [ -n "$forbids" ] || return
  "$ping" -q -c 1 -i 0.3 -w 1 -M do -s "$4" -I "$1" "$3" >/dev/null 2>&1; printf 'whole\t%s\n' $?
}
while [ $# -ge 4 ]; do
  { said=$(one "$@"); printf '%s\n' "$said"; } &
  shift 4
done
wait
"""
"""All at once. What is said of one way is written in one piece, shorter than what a pipe may cut."""
