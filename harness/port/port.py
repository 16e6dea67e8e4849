"""`r2cc fork port`: our patches on another NCCL. Writes all of the new version or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.build.cuda import cuda_include
from harness.errors import UsageError
from harness.fork.patches import patch_files
from harness.fork.pin import load_pin
from harness.fork.sources import acquire, sources
from harness.fork.tree import cached_archive, locked, staging
from harness.fork.treehash import tree_hash
from harness.fork.unpack import pack_tar
from harness.port.candidate import Candidate, candidate
from harness.port.names import LIST, compared, listed, types_of
from harness.port.placing import FAILED
from harness.port.proof import Place, proven
from harness.port.report import NameFound, Port
from harness.port.series import carry_over, own_patches
from harness.progress import Progress, show
from harness.repo import Layout

PIN = """\
# An NCCL that R2CC forks. Every source is verified against `tree` and `tree_sha256` before it is used.

version = "{version}"
patches = [{folders}] # folders under r2cc_patches/patches/; of patches of one name the last folder's is taken

[upstream]
repository = "{repository}"
tag = "{tag}"
commit = "{commit}"

[content]
# Git's own tree hash, so that it can be compared with upstream's commit by eye...
tree = "{tree}"
# ... and the same tree in git's SHA-256 object format, because SHA-1 no longer keeps a determined forger out.
tree_sha256 = "{tree_sha256}"
"""


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
    proof and without the hunks that failed, to be mended. Raises SourceError, UsageError.
    """
    with locked(layout), staging(layout) as scratch:
        found = candidate(layout, what, source, scratch, progress)
        pristine_sha256 = tree_hash(found.tree, "sha256")
        if write or partial:
            _refuse_to_replace(layout, found)
            pack_tar(found.tree, scratch / "pristine.tar")
        pin = load_pin(layout.pin)
        (scratch / "base").mkdir()
        base, _ = acquire(pin, sources(pin, cached_archive(layout, pin), None), scratch / "base", progress)
        names = _names(layout, base, found.tree, scratch, progress)
        files = patch_files(layout.patches, pin.patches)
        with progress("placing hunks"):
            hunks, texts = carry_over(files, base, found.tree, scratch)
        fits = not any(hunk.outcome == FAILED for hunk in hunks)
        there = not any(name.outcome in {"missing", "unknown"} for name in names)
        built = tested = None
        log = layout.nccl.with_name("port") / f"{found.version}.log"
        if write and fits:
            place = Place(layout, found.tree, cuda_include(layout, progress), scratch / "build")
            built, tested = proven(place, log, progress)
        written: list[str] = []
        if partial or (built and tested):
            own = {name: text for name, text in texts.items() if text} if partial else own_patches(texts, files)
            folders = [] if partial else pin.patches
            written = _write(layout, found, pristine_sha256, own, folders=folders, scratch=scratch)
        failed = built is False or tested is False
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
            ok=fits and there and not failed,
        )


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


def _refuse_to_replace(layout: Layout, found: Candidate) -> None:
    pin = layout.pins / f"{found.version}.toml"
    if pin.exists():
        raise UsageError(
            f"{pin} is there already", "without --write nothing is written; remove that pin to write it anew"
        )


def _write(
    layout: Layout, found: Candidate, sha256: str, own: Mapping[str, str], *, folders: Sequence[str], scratch: Path
) -> list[str]:
    """The patches first, the pin last: without a pin nothing else counts. `folders`: whose patches hold beside them."""
    folder, pin = layout.patches / found.version, layout.pins / f"{found.version}.toml"
    aside = scratch / "patches"
    aside.mkdir()
    for name, text in own.items():
        (aside / name).write_text(text)
    names = [*folders, found.version]  # a folder of its own, for what is edited later
    text = PIN.format(
        version=found.revision,
        folders=", ".join(f'"{name}"' for name in names),
        repository=found.repository,
        tag=found.tag,
        commit=found.commit,
        tree=found.content,
        tree_sha256=sha256,
    )
    (scratch / "pin.toml").write_text(text)
    known = load_pin(scratch / "pin.toml")
    cache = cached_archive(layout, known)
    cache.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(scratch / "pristine.tar", cache)
    if own:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(aside, folder)
    (scratch / "pin.toml").rename(pin)
    return [str(path.relative_to(layout.root)) for path in (*([folder] if own else []), pin)]
