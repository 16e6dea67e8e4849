"""The host itself: clock, limits, disk, what is installed, settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.doctor.checks.mark import of_fleet, of_host
from harness.doctor.model import ERROR, NOTE, WARNING, Fleet, Patient, Seen, odd_ones, usual
from harness.facts import catalogue as facts
from harness.facts.kernel import UNLIMITED, Limit
from harness.units import show_bytes

CLOCK_LIMIT_S = 1.0
CLOCK_NOTE_S = 0.05
GIB, MIB = 1 << 30, 1 << 20
LEAST_MEMLOCK_BYTES = 64 * MIB
LEAST_FILES = 4096
LEAST_DISK_BYTES, FULL_DISK_BYTES = GIB, 64 * MIB
LEAST_SHM_BYTES = GIB


@of_fleet("clock")
def clock(fleet: Fleet) -> Iterator[Seen]:
    """Against the middle host's clock where there are three or more, so that ours being wrong blames nobody."""
    told = {each.name: each.clock for each in fleet.patients if each.clock is not None}
    if not told:
        return
    offsets = sorted(offset.offset_s for offset in told.values())
    middle = offsets[len(offsets) // 2] if len(offsets) > 2 else 0.0
    against = "the other hosts" if len(offsets) > 2 else "the machine that asks"
    for name, offset in told.items():
        off = offset.offset_s - middle
        if abs(off) - offset.error_s > CLOCK_NOTE_S:
            severity = WARNING if abs(off) - offset.error_s > CLOCK_LIMIT_S else NOTE
            way = "ahead of" if off > 0 else "behind"
            yield Seen(
                severity, name, "", f"its clock is {_duration(abs(off))} {way} {against} (± {offset.error_s:.3f} s)"
            )


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"


@of_host("time-sync", facts.DAEMONS)
def time_sync(patient: Patient) -> Iterator[Seen]:
    daemons = patient.known.get(facts.DAEMONS) or frozenset()
    follows, synchronised = patient.known.get(facts.CHRONY), patient.known.get(facts.TIMEDATE)
    if follows is False:
        yield Seen(WARNING, patient.name, "", "chronyd runs but follows no source")
    elif follows is None and synchronised is False:
        yield Seen(WARNING, patient.name, "", "the system's clock is not synchronised")
    elif follows is None and synchronised is None and not daemons:
        yield Seen(NOTE, patient.name, "", "no time daemon runs")


@of_host("memlock", facts.LIMITS)
def memlock(patient: Patient) -> Iterator[Seen]:
    identity = patient.known.get(facts.IDENTITY)
    limit = _limits(patient).get("Max locked memory")
    if limit is None or limit.soft == UNLIMITED or (identity and identity.locks_freely):
        return
    ports = patient.known.get(facts.RDMA)
    severity = NOTE if not ports else ERROR if limit.soft < LEAST_MEMLOCK_BYTES else WARNING
    yield Seen(severity, patient.name, "", f"locked memory is limited to {show_bytes(limit.soft)}")


@of_host("nofile", facts.LIMITS)
def nofile(patient: Patient) -> Iterator[Seen]:
    limit = _limits(patient).get("Max open files")
    if limit is not None and limit.soft < LEAST_FILES:
        hard = "unlimited" if limit.hard == UNLIMITED else str(limit.hard)
        yield Seen(WARNING, patient.name, "", f"at most {limit.soft} open files (hard limit {hard})")


def _limits(patient: Patient) -> dict[str, Limit]:
    return patient.known.get(facts.LIMITS) or {}


@of_host("prefix", facts.STORAGE)
def prefix(patient: Patient) -> Iterator[Seen]:
    storage = patient.known.get(facts.STORAGE)
    assert storage is not None
    if not storage.writable:
        yield Seen(ERROR, patient.name, storage.prefix, f"{storage.existing} cannot be written to")
    free = storage.free_bytes
    if free is not None and free < LEAST_DISK_BYTES:
        severity = ERROR if free < FULL_DISK_BYTES else WARNING
        yield Seen(severity, patient.name, storage.prefix, f"only {show_bytes(free)} are free")


@of_host("shared-memory", facts.STORAGE)
def shared_memory(patient: Patient) -> Iterator[Seen]:
    storage = patient.known.get(facts.STORAGE)
    assert storage is not None
    if storage.shm_bytes is None:
        yield Seen(ERROR, patient.name, "/dev/shm", "there is none")
    elif storage.shm_bytes < LEAST_SHM_BYTES:
        yield Seen(WARNING, patient.name, "/dev/shm", f"only {show_bytes(storage.shm_bytes)} are free")


def _gpu_driver(patient: Patient) -> str | None:
    return next((gpu.driver for gpu in patient.known.get(facts.GPUS) or () if gpu.driver), None)


@of_fleet("versions")
def versions(fleet: Fleet) -> Iterator[Seen]:
    """What should be alike everywhere and is not; firmware only between NICs of one driver."""
    kinds: tuple[tuple[str, Any, Callable[[Patient], str | None]], ...] = (
        ("kernel", NOTE, lambda one: kernel.release if (kernel := one.known.get(facts.KERNEL)) else None),
        ("NVIDIA driver", WARNING, _gpu_driver),
    )
    for subject, severity, of in kinds:
        told = {one.name: value for one in fleet.patients if (value := of(one)) is not None}
        for name, value in odd_ones(told).items():
            yield Seen(severity, name, subject, f"{value}, most have {usual(told.values())}")
    modules = {name for one in fleet.patients for name in one.known.get(facts.MODINFO) or {}}
    for module in sorted(modules):
        told = {one.name: found[module] for one in fleet.patients if module in (found := _modules(one))}
        for name, value in odd_ones(told).items():
            yield Seen(WARNING, name, module, f"{value or 'no version'}, most have {usual(told.values()) or 'none'}")
    yield from _nic_versions(fleet)


def _modules(patient: Patient) -> Mapping[str, str]:
    return patient.known.get(facts.MODINFO) or {}


def _nic_versions(fleet: Fleet) -> Iterator[Seen]:
    found: dict[str, dict[tuple[str, str], str]] = {}
    for one in fleet.patients:
        for nic, told in (one.known.get(facts.ETHTOOL) or {}).items():
            if nic in one.data and told.driver is not None:
                version = " ".join(part for part in (told.driver.version, told.driver.firmware) if part)
                found.setdefault(told.driver.name, {})[one.name, nic] = version
    for driver, told_versions in found.items():
        for (name, nic), version in odd_ones(told_versions).items():
            yield Seen(WARNING, name, nic, f"{driver} {version}, most have {usual(told_versions.values())}")


@of_fleet("settings", facts.SETTINGS)
def settings(fleet: Fleet) -> Iterator[Seen]:
    told = {one.name: one.known.get(facts.SETTINGS) or {} for one in fleet.patients}
    for variable in sorted({name for each in told.values() for name in each}):
        values = {name: each.get(variable, "(not set)") for name, each in told.items()}
        odd = odd_ones(values)
        for name, value in values.items():
            if name in odd:
                yield Seen(WARNING, name, variable, f"{value}, most have {usual(values.values())}")
            elif value != "(not set)":
                yield Seen(NOTE, name, variable, f"every login sets it to {value}")


@of_host("numa-balancing", facts.SYSCTL)
def numa_balancing(patient: Patient) -> Iterator[Seen]:
    gpus = patient.known.get(facts.GPUS)
    if gpus and (patient.known.get(facts.SYSCTL) or {}).get("kernel/numa_balancing") == "1":
        yield Seen(NOTE, patient.name, "", "kernel.numa_balancing is on")
