"""What NCCL's IB transport is told so that it works over soft-RoCE in the guests. Pure."""

from __future__ import annotations

from harness.vmlab.shape import MGMT_NIC

TIMEOUT = 14
"""NCCL_IB_TIMEOUT: 4.096 us x 2^14 = 67 ms a try. Shorter ones fail falsely in emulation."""
RETRIES = 6
"""NCCL_IB_RETRY_CNT. With 7 (NCCL's default) soft-RoCE never gives up."""


def device_of(nic: str) -> str:
    """The soft-RoCE device on a NIC of a guest; none on the management NIC (inside/init.sh)."""
    return f"rxe{nic.removeprefix('eth')}"


def rdma_env(timeout: int = TIMEOUT, retries: int = RETRIES) -> dict[str, str]:
    """All rxe devices for data, the management NIC for meeting. A dead path is reported after `own_retry_s`."""
    return {
        "NCCL_IB_HCA": "rxe",
        "NCCL_IB_TIMEOUT": str(timeout),
        "NCCL_IB_RETRY_CNT": str(retries),
        "NCCL_SOCKET_IFNAME": MGMT_NIC,
    }


def failover_env() -> dict[str, str]:
    """NCCL's own failover between the ports of a merged NIC, off by default; requests are then told apart by number.
    And its recovery of a port that is back, which NCCL has from 2.30.3 on: an older one does not read that variable."""
    return {
        "NCCL_IB_RESILIENCY_PORT_FAILOVER": "1",
        "NCCL_IB_RESILIENCY_PORT_RECOVERY": "1",
        "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME": "1",
    }


def own_retry_s(timeout: int = TIMEOUT, retries: int = RETRIES) -> float:
    """How long the NIC tries by itself before it reports an error: the first try and all its repetitions, in s."""
    return float((retries + 1) * 4.096e-6 * 2**timeout)
