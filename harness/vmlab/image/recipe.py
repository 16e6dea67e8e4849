"""What an image is made of, and the key it is cached under: change anything and it is built anew."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.resources import files

KERNEL = "linux-image-6.12.117+deb12-amd64"
KERNEL_PATTERN = r"^linux-image-6\.12\.[0-9]+\+deb12-amd64$"
"""The full flavour: the cloud one lacks soft-RoCE."""

PACKAGES = (
    "busybox-static",
    "coreutils",
    "dash",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "libc-bin",
    "libibverbs1",
    "librdmacm1",
    "libstdc++6",
    "nftables",
    "openssh-server",
    "perftest",
    "python3-minimal",
    "python3-pyverbs",
    "rdma-core",
    "rdmacm-utils",
    "util-linux",
)
"""libc-bin, coreutils and util-linux because hosts over SSH need what busybox has not: `getconf`, `sha256sum --quiet`,
`flock -w`."""

EXCLUDED = (
    "adduser",
    "cpio",
    "debconf",
    "dpkg",
    "initramfs-tools",
    "initramfs-tools-core",
    "klibc-utils",
    "linux-base",
    "pci.ids",
    "perl",
    "perl-base",
    "perl-modules-5.36",
    "libperl5.36",
    "tar",
    "udev",
    "usrmerge",
)
"""Dependencies of the above that only a system that installs packages or boots in Debian's way would use."""

MODULES = (
    "crc32c_generic",
    "crc32_generic",
    "virtio_blk",
    "squashfs",
    "overlay",
    "virtio_net",
    "9p",
    "9pnet_virtio",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "sch_tbf",
    "sch_netem",
    "sch_prio",
    "nf_tables",
    "nft_numgen",
)
"""Loaded at boot in this order, each after what it depends on."""

PRUNED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/i18n", "usr/lib/locale")
FORMAT = 2
"""Counts up with every change of how the builder lays an image out."""


@dataclass(frozen=True)
class Recipe:
    """Everything that goes into an image."""

    kernel: str = KERNEL
    packages: tuple[str, ...] = PACKAGES
    excluded: tuple[str, ...] = EXCLUDED
    modules: tuple[str, ...] = MODULES
    pruned: tuple[str, ...] = PRUNED
    format: int = FORMAT

    def key(self, scripts: dict[str, bytes] | None = None) -> str:
        """The first 16 digits of the hash of all of it, the files that run inside the guest included."""
        parts = inside_files() if scripts is None else scripts
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode())
        for name in sorted(parts):
            digest.update(f"\0{name}\0{len(parts[name])}\0".encode() + parts[name])
        return digest.hexdigest()[:16]


def inside_files() -> dict[str, bytes]:
    """The files of ours that an image holds, by name."""
    folder = files("harness.vmlab").joinpath("inside")
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}
