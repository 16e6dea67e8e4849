"""`r2cc build`: compile what runs on the hosts."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import FilePath, json_option, nccl_option, quiet_option
from harness.schemas import dumped

STOCK = "Fail unless the build exports the same symbols as this libnccl."


@click.group(short_help="Compile the resilient net, or the whole patched NCCL.")
def build() -> None:
    """Compile what runs on the hosts. Nothing is compiled again unless something it depends on changed.

    \b
    Examples:
      r2cc build net
      r2cc build nccl --arch sm_90
    """


@build.command(short_help="Compile the resilient net, the host bench and the sampler.")
@click.option("--source", metavar="PATH", help="NCCL's source, as for `r2cc fork fetch`.")
@click.option(
    "--then",
    metavar="TARGET",
    multiple=True,
    help="Then make this, too: test, test-asan, test-tsan, ... May be repeated.",
)
@click.option("--cpu", metavar="KIND", help="For another kind of CPU: aarch64 or x86_64. Takes a cross compiler.")
@nccl_option()
@json_option("Print the result as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show make's output.")
@quiet_option()
def net(
    *,
    source: str | None,
    then: tuple[str, ...],
    cpu: str | None,
    version: str | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Compile the resilient net as one library, with g++ and CUDA's headers only: no nvcc, no GPU.

    Fetches and patches NCCL, and fetches CUDA's headers, when they are not there. Log: build/net/build.log.

    \b
    Examples:
      r2cc build net
      r2cc build net --then test --then test-asan
      r2cc build net --nccl 2.30.7
      r2cc build net --cpu aarch64 --then release     # into build/net-aarch64
    """
    from harness.build import build_net, run_target
    from harness.progress import show
    from harness.repo import checkout

    layout = checkout(version) if cpu is None else checkout(version).for_cpu(cpu)
    built = build_net(source, show, verbose=verbose and not as_json, layout=layout)
    for target in then:
        log = run_target(target, show, verbose=verbose and not as_json, layout=layout)
        click.echo(f"{target}: passed, see {log}", err=True)
    if as_json:
        click.echo(dumped(built, 1))
    elif not quiet:
        click.echo(f"{'built' if built.rebuilt else 'up to date'}: {built.library} (build {built.build_id})")


@build.command(short_help="Compile the whole patched libnccl.so.2 (nvcc).")
@click.option(
    "--arch", metavar="sm_N", multiple=True, help="A GPU architecture; repeat for more. all: NCCL's own list."
)
@click.option(
    "--funcs", metavar="TEXT", help="Kernels to build, as NCCL's ONLY_FUNCS. Keep SendRecv in it. Without it: all."
)
@click.option("--stock", metavar="FILE", type=FilePath(exists=True, dir_okay=False), help=STOCK)
@click.option("--source", metavar="PATH", help="NCCL's source, as for `r2cc fork fetch`.")
@nccl_option()
@json_option("Print the result as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show make's output.")
@quiet_option()
def nccl(
    *,
    arch: tuple[str, ...],
    funcs: str | None,
    stock: Path | None,
    source: str | None,
    version: str | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Compile the patched NCCL with our sources in it: a drop-in for stock of the same version (docs/howto/gpus.md).

    Takes a CUDA toolkit with nvcc, no GPU. Without --arch: for the GPUs of this machine. Log: build/nccl/build.log.

    \b
    r2cc build nccl                                         # for the GPUs here, all kernels
    r2cc build nccl --nccl 2.30.7                           # into build/nccl-2.30.7
    r2cc build nccl --arch sm_90 --funcs "AllReduce Sum f32|SendRecv"
                                                            # minutes instead of an hour
    LD_PRELOAD=$PWD/build/nccl/lib/libnccl.so.2 python3 train.py
    """
    from harness.build import build_nccl
    from harness.progress import show
    from harness.repo import checkout

    if funcs is not None and not funcs.strip():
        raise click.BadParameter("is empty: leave it out for all kernels", param_hint="--funcs")
    shown = verbose and not as_json
    built = build_nccl(arch, funcs or "", source, show, stock=stock, verbose=shown, layout=checkout(version))
    if as_json:
        click.echo(dumped(built, 1))
    elif not quiet:
        click.echo(f"{'built' if built.rebuilt else 'up to date'}: {built.library} (build {built.build_id})")


@build.command("nccl-tests", short_help="Compile upstream's nccl-tests against the patched NCCL (nvcc).")
@click.option("--source", metavar="PATH|URL", help="A folder, tar archive or git repository. Without it: upstream's.")
@click.option("--ref", metavar="NAME", help="The branch or tag of the repository.")
@click.option(
    "--mpi",
    metavar="DIR",
    type=FilePath(exists=True, file_okay=False),
    help="Build with the MPI in this folder.",
)
@json_option("Print the result as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show make's output.")
@quiet_option()
def nccl_tests(
    *, source: str | None, ref: str | None, mpi: Path | None, as_json: bool, verbose: bool, quiet: bool
) -> None:
    """Compile nccl-tests for the architectures and against the library that `r2cc build nccl` made.

    \b
    r2cc build nccl-tests                                   # upstream's repository
    r2cc build nccl-tests --source ~/nccl-tests.tar.gz --mpi /usr/lib/x86_64-linux-gnu/openmpi
    LD_LIBRARY_PATH=$PWD/build/nccl/lib build/nccl-tests/bin/all_reduce_perf -g 2
    """
    from harness.build import build_nccl_tests
    from harness.progress import show

    built = build_nccl_tests(source, ref, show, mpi=mpi, verbose=verbose and not as_json)
    if as_json:
        click.echo(dumped(built, 1))
    elif not quiet:
        word = "built" if built.rebuilt else "up to date"
        click.echo(f"{word}: {len(built.programs)} programs in {built.folder / 'bin'}")
