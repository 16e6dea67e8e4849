"""`r2cc fork port`: our patches on another NCCL. Writes all of the new version or nothing."""

from __future__ import annotations

from pathlib import Path

from harness.build.cuda import cuda_include
from harness.fork.patches import patch_files
from harness.fork.pin import Pin, load_pin
from harness.fork.sources import acquire, chosen_source, sources
from harness.fork.tree import cached_archive, locked, staging
from harness.fork.unpack import copy_directory
from harness.port.candidate import candidate
from harness.port.names import LIST, compared, listed, types_of
from harness.port.pinning import check_place, present, write_version
from harness.port.placing import FAILED
from harness.port.proof import Place, proven
from harness.port.report import NameFound, Port
from harness.port.series import carry_over, patches_to_write
from harness.progress import Progress, show
from harness.repo import Layout

LACKING = {"missing", "unknown"}


def port(
    layout: Layout,
    what: str,
    source: str | None = None,
    *,
    write: bool = False,
    partial: bool = False,
    progress: Progress = show,
) -> Port:
    """Carries the patches of the layout's version over to `what`: a tag, a version, a folder or an archive.

    `write`: then build and test it, and write pin and patches if all of that passes. `partial`: write them without a
    proof and without the hunks that failed, to be mended. Nothing is done where a pin of this tree is there already.
    Raises SourceError, UsageError.
    """
    with locked(layout), staging(layout) as scratch:
        found = candidate(layout, what, source, scratch, progress)
        known = (write or partial) and check_place(layout, found)
        copy_directory(found.tree, scratch / "pristine")
        pin = load_pin(layout.pin)
        base = _base(layout, pin, source, scratch, progress)
        names = [] if known else _names(layout, base, found.tree, scratch, progress)
        files = patch_files(layout.patches, pin.patches)
        with progress("placing hunks"):
            hunks, texts = carry_over(files, base, found.tree, scratch)
        fits = not any(hunk.outcome == FAILED for hunk in hunks)
        log = layout.nccl.with_name("port") / f"{found.version}.log"
        built = tested = None
        if write and fits and not known:
            place = Place(layout, found.tree, cuda_include(layout, progress), scratch / "build")
            built, tested = proven(place, log, progress)
        written: list[str] = []
        if not known and (partial or (built and tested)):
            own = patches_to_write(texts, files, found.tree, scratch, share=not partial)
            written = write_version(layout, found, own, folders=[] if partial else pin.patches, scratch=scratch)
        failed = built is False or tested is False
        there = present(layout, found, hunks, scratch) if known else None
        complete = there.complete if there else fits and not any(name.outcome in LACKING for name in names)
        return Port(
            version=found.revision,
            base=layout.version,
            source=found.source,
            commit=found.commit,
            tree=found.content,
            hunks=hunks,
            names=names,
            built=built,
            tested=tested,
            log=str(log) if failed else None,
            written=written,
            ok=complete and not failed,
            present=there,
        )


def _base(layout: Layout, pin: Pin, source: str | None, scratch: Path, progress: Progress) -> Path:
    """The tree that the patches are for. What holds the other one may hold this, too."""
    folder = scratch / "base"
    folder.mkdir()
    usual = sources(pin, cached_archive(layout, pin), None)
    given = sources(pin, cached_archive(layout, pin), chosen_source(source))
    return acquire(pin, {"cache": usual["cache"], **given, **usual}, folder, progress)[0]


def _names(layout: Layout, base: Path, tree: Path, scratch: Path, progress: Progress) -> list[NameFound]:
    """Asked of the trees as they come, before a patch adds what is ours."""
    cuda = cuda_include(layout, progress)
    found: list[NameFound] = []
    types = []
    for at, root in enumerate((base, tree)):
        place = Place(layout, root, cuda, scratch / f"headers{at}")
        place.header(progress)
        types.append(place)
    for path, names in listed(layout.native / LIST).items():
        with progress(f"asking the compiler for names of {path}"):
            before, now = (types_of(names, place.tree / path, place.flags(), scratch) for place in types)
        found += compared(path, names, before, now)
    return found
