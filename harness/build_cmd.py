"""`r2cc build`: compile what runs on the hosts."""

from __future__ import annotations

import json

import click


@click.group(short_help="Compile the resilient net (later: NCCL, nccl-tests).")
def build() -> None:
    """Compile what runs on the hosts. Nothing is compiled again unless something it depends on changed."""


@build.command(short_help="Compile the resilient net, the host bench and the sampler.")
@click.option("--source", metavar="PATH", help="NCCL's source, as for `r2cc fork fetch`.")
@click.option("--then", metavar="TARGET", multiple=True, help="Then make this too: test, test-asan, test-tsan, ...")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show make's output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only errors.")
def net(source: str | None, then: tuple[str, ...], as_json: bool, verbose: bool, quiet: bool) -> None:
    """Compile the resilient net as one library, with g++ and CUDA's headers only: no nvcc, no GPU.

    Fetches and patches NCCL, and fetches CUDA's headers, when they are not there. The log is build/net/build.log.
    """
    from harness.build import build_net, run_target
    from harness.progress import show, silent

    progress = silent if quiet else show
    built = build_net(source, progress, verbose=verbose and not as_json)
    for target in then:
        log = run_target(target, progress, verbose=verbose and not as_json)
        click.echo(f"{target}: passed, see {log}", err=True)
    if as_json:
        click.echo(json.dumps(built.as_dict(), indent=1))
    elif not quiet:
        click.echo(f"{'built' if built.rebuilt else 'up to date'}: {built.library} (build {built.build_id})")
