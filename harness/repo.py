"""Where things lie: in the checkout (docs/reference/contracts.md, "Layout on disk"), or in what pip installed."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import UsageError

DEFAULT_NCCL = "2.29.7"
CPUS = ("x86_64", "aarch64")
"""As `uname -m` names them: those that a release is made for (r2cc_patches/release)."""
OF_ELF = {"62": "x86_64", "183": "aarch64"}
"""What an ELF file says of its CPU (e_machine), in `uname -m`'s words."""
PACKAGE = Path(__file__).resolve().parents[1] / "r2cc"
"""The package that the wheel puts our programs and experiments into."""
EXPERIMENTS = "experiments"


@dataclass(frozen=True)
class Layout:
    """The paths of one checkout, with one of the NCCLs that it can be built with; tests give it a root of their own."""

    root: Path
    version: str = DEFAULT_NCCL
    cpu: str | None = None
    """What is compiled is for this kind of CPU; None: this machine's."""

    @property
    def pins(self) -> Path:
        return self.root / "nccl_fork" / "pins"

    @property
    def pin(self) -> Path:
        return self.pins / f"{self.version}.toml"

    @property
    def tree(self) -> Path:
        """The fetched and patched NCCL."""
        return self.root / "nccl_fork" / self._named("tree")

    @property
    def patches(self) -> Path:
        """Folders of patches; a pin names those that are its own."""
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
        return self.root / "build" / self._for_cpu(self._named("net"))

    @property
    def nccl(self) -> Path:
        """What `r2cc build nccl` leaves."""
        return self.root / "build" / self._named("nccl")

    @property
    def cuda_lock(self) -> Path:
        return self.root / "requirements-cuda.lock"

    def with_version(self, version: str) -> Layout:
        """The same checkout with this version. UsageError says which are known, or why there is no source."""
        known = sorted(pin.stem for pin in self.pins.glob("*.toml"))
        if version in known:
            return replace(self, version=version)
        reasons: dict[str, str] = tomllib.loads((self.pins.parent / "no-source.toml").read_text())
        if version in reasons:
            raise UsageError(f"no source of NCCL {version}: {reasons[version]}", f"known: {', '.join(known)}")
        hint = f"known: {', '.join(known)}; `r2cc fork port {version}` tries to make patches for another"
        raise UsageError(f"no pin of NCCL {version} in {self.pins}", hint)

    def for_cpu(self, cpu: str) -> Layout:
        """The same, to be compiled for that kind of CPU. UsageError says which are known."""
        if cpu not in CPUS:
            raise UsageError(f"no build for a CPU of kind {cpu}", f"known: {', '.join(CPUS)}")
        return replace(self, cpu=None if cpu == platform.machine() else cpu)

    def tool(self, name: str) -> str:
        """A compiler or one of its siblings, by the name that Debian, Ubuntu and Fedora give to one for another CPU."""
        return name if self.cpu is None else f"{self.cpu}-linux-gnu-{name}"

    def _for_cpu(self, name: str) -> str:
        return name if self.cpu is None else f"{name}-{self.cpu}"

    def _named(self, name: str) -> str:
        """Another version than the default has folders of its own, beside those that have always been there."""
        return name if self.version == DEFAULT_NCCL else f"{name}-{self.version}"


@dataclass(frozen=True)
class Installed(Layout):
    """The same for r2cc without a checkout: what was built came with it."""

    @property
    def net(self) -> Path:
        return PACKAGE / "native"

    @property
    def nccl(self) -> Path:
        """Where there never is one: the wheel has no libnccl."""
        return PACKAGE / "nccl"


def checkout(version: str | None = None) -> Layout:
    """The checkout this package runs from, with this version of NCCL (2.29.7); None for the default.

    Raises UsageError if it was installed without one, or if no such version is known.
    """
    layout = Layout(PACKAGE.parent)
    if not layout.pin.is_file():
        hint = "clone the repository and run `make setup` there"
        raise UsageError(f"this command works in a checkout of R2CC, and {layout.root} is none", hint=hint)
    return layout if version is None else layout.with_version(version)


def programs(version: str | None = None) -> Layout:
    """Where our libraries and programs lie, built or not: in the checkout, or where pip put them.

    `version`: those for that NCCL, which only a checkout can have. Raises UsageError where there is neither.
    """
    installed = Installed(PACKAGE.parent)
    if not (installed.net / "build.json").is_file():
        return checkout(version)
    if version is not None:
        raise UsageError(f"what pip installed has no build for NCCL {version}", "--nccl takes a checkout of R2CC")
    return installed


def shipped(path: Path) -> Path:
    """`experiments/...` of the wheel where the caller's folder has none; any other path as it is."""
    if path.is_absolute() or path.parts[:1] != (EXPERIMENTS,) or path.exists():
        return path
    ours = PACKAGE / path
    return ours if ours.exists() else path
