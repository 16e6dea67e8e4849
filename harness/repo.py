"""Where things lie in the checkout (docs/reference/contracts.md, "Layout on disk")."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError


@dataclass(frozen=True)
class Layout:
    """The paths of one checkout; tests give it a root of their own."""

    root: Path

    @property
    def pin(self) -> Path:
        return self.root / "nccl_fork" / "pin.toml"

    @property
    def tree(self) -> Path:
        """The fetched and patched NCCL."""
        return self.root / "nccl_fork" / "tree"

    @property
    def patches(self) -> Path:
        """One folder of patches per NCCL version."""
        return self.root / "r2cc_patches" / "patches"

    @property
    def native(self) -> Path:
        """Our C++ and its Makefile."""
        return self.root / "r2cc_patches"

    @property
    def cache(self) -> Path:
        return self.root / ".cache"

    @property
    def net(self) -> Path:
        """What `r2cc build net` leaves."""
        return self.root / "build" / "net"

    @property
    def nccl(self) -> Path:
        """What `r2cc build nccl` leaves."""
        return self.root / "build" / "nccl"

    @property
    def cuda_lock(self) -> Path:
        return self.root / "requirements-cuda.lock"


def checkout() -> Layout:
    """The checkout this package runs from. Raises UsageError if it was installed without one."""
    layout = Layout(Path(__file__).resolve().parents[1])
    if not layout.pin.is_file():
        hint = "clone the repository and run `make setup` there"
        raise UsageError(f"this command works in a checkout of R2CC, and {layout.root} is none", hint=hint)
    return layout
