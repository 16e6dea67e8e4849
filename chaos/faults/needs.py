"""What a host has of what faults need, and which faults it can therefore carry: one cheap question, nothing is changed.

Kernel features are tried in network namespaces of their own that end with the command, never looked up by version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.faults.steps import Answer

TOOLS = ("ip", "tc", "nft", "mlxlink", "ibportstate", "python3", "sh", "sleep", "setsid", "tee", "rm", "cat")
CAP_NET_ADMIN = 12
QUESTION = r"""
PATH="$PATH:/usr/sbin:/sbin"
for tool; do command -v "$tool" >/dev/null 2>&1 && echo "tool $tool"; done
echo "uid $(id -u)"
sed -n 's/^CapEff:[^0-9a-f]*/caps /p' /proc/self/status
try() {
  what=$1 program=$(command -v "$2"); shift 2
  [ -n "$program" ] && unshare -n "$program" "$@" >/dev/null 2>&1 && echo "feature $what"
}
if unshare -n true 2>/dev/null; then
  try netem tc qdisc add dev lo root netem delay 1ms
  try tbf tc qdisc add dev lo root tbf rate 1mbit burst 20k limit 20k
  try prio tc qdisc add dev lo root prio
  try nft_inet nft add table inet t ';' add chain inet t c '{ type filter hook input priority 0 ; }'
  try nft_bridge nft add table bridge t ';' add chain bridge t c '{ type filter hook forward priority 0 ; }'
  try nft_netdev nft add table netdev t ';' add chain netdev t c '{ type filter hook ingress device lo priority 0 ; }'
  try nft_egress nft add table netdev t ';' add chain netdev t c '{ type filter hook egress device lo priority 0 ; }'
else
  echo "feature unknown"
fi
[ -n "$SSH_CONNECTION" ] && echo "feature ssh"
[ -w /sys/bus/pci/rescan ] && echo "feature pci_rescan"
for nic in /sys/class/net/*; do
  [ -e "$nic/device" ] || continue
  driver=$(readlink -f "$nic/device/driver"); where=$(readlink -f "$nic/device")
  echo "nic ${nic##*/} ${driver##*/} $(cat "$nic/type") $where"
done
for device in /sys/class/infiniband/*; do
  [ -e "$device" ] || continue
  if [ -e "$device/parent" ]; then echo "rdma ${device##*/} soft"; else echo "rdma ${device##*/} hard"; fi
done
echo end
"""


@dataclass(frozen=True)
class Able:
    """What one host said of itself."""

    tools: frozenset[str]
    features: frozenset[str]
    caps: int
    uid: int
    nics: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Of NICs with a device: (driver, ARP type, sysfs path)."""
    rdma: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()
    """Those of its RDMA devices that no packet of the kernel passes."""

    @property
    def net_admin(self) -> bool:
        return bool(self.caps >> CAP_NET_ADMIN & 1)

    @property
    def adapters(self) -> str:
        """For people: `mlx5_core x 4, igb x 1`. Empty: all of them are virtual."""
        drivers = [driver for driver, _, _ in self.nics.values()]
        return ", ".join(f"{name} x {drivers.count(name)}" for name in dict.fromkeys(drivers))


def question() -> list[str]:
    return ["sh", "-c", QUESTION, "r2cc", *TOOLS]


def parse(answer: Answer) -> Able:
    """ValueError when the host did not say it all."""
    lines = [line.split() for line in answer.stdout.splitlines() if line.strip()]
    if not lines or lines[-1] != ["end"]:
        raise ValueError("it did not answer the question")

    def every(word: str) -> list[list[str]]:
        return [line[1:] for line in lines if line[0] == word]

    return Able(
        frozenset(words[0] for words in every("tool")),
        frozenset(words[0] for words in every("feature")),
        int(every("caps")[0][0], 16),
        int(every("uid")[0][0]),
        {words[0]: (words[1], words[2], words[3]) for words in every("nic") if len(words) == 4},
        tuple(words[0] for words in every("rdma")),
        tuple(words[0] for words in every("rdma") if words[1:] != ["soft"]),
    )


MEANING = {
    "netem": "the kernel has no sch_netem",
    "prio": "the kernel has no sch_prio",
    "tbf": "the kernel has no sch_tbf",
    "nft_inet": "the kernel has no nf_tables (family inet)",
    "nft_bridge": "the kernel has no nf_tables (family bridge)",
    "nft_netdev": "the kernel has no nf_tables (family netdev)",
    "ssh": "it is not reached over SSH",
    "pci": "no NIC on a PCI bus that may be rescanned",
    "rdma": "it has no RDMA device",
}
