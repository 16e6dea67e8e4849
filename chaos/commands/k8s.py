"""`r2cc k8s`: manifests for Kubernetes. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from harness.commands.options import json_option
from harness.errors import UsageError

EXAMPLES = """\b
Examples:
  r2cc k8s render jobset --name train --nodes 4 --image site/train:1 --plugin-image site/net:1 -- torchrun train.py
  r2cc k8s render mpijob --name tests --nodes 2 --image site/mpi:1 --plugin-image site/net:1 -- mpirun all_reduce_perf
  r2cc k8s render trainjob --name train --nodes 4 --resource rdma/hca=8 --status /run/r2cc-status \\\\
      --image site/train:1 --plugin-image site/net:1 -- torchrun train.py | kubectl apply --filename -

\b
Exit codes: 0 printed, 2 something named cannot be.
"""


@click.group(short_help="Make manifests for Kubernetes.")
def k8s() -> None:
    """Manifests of jobs that use R2CC, and of the agents that break NICs for pods (docs/howto/kubernetes.md)."""


@k8s.group()
def render() -> None:
    """Print manifests for `kubectl apply`. Nothing is asked of a cluster."""


def _job(kind: str, text: str) -> None:
    @render.command(kind, epilog=EXAMPLES, short_help=text)
    @click.option("--name", required=True, help="Of the job.")
    @click.option("--namespace", default="default", show_default=True, help="Where it goes.")
    @click.option("--image", required=True, help="Of the job's containers, with NCCL and the program.")
    @click.option("--plugin-image", required=True, help="With the net plugin: scripts/packages/Containerfile.")
    @click.option("--nodes", type=click.IntRange(1, 100_000), required=True, help="How many pods with GPUs.")
    @click.option("--gpus", type=click.IntRange(0, 64), default=8, show_default=True, help="Of each pod.")
    @click.option("--mode", type=click.Choice(["0", "1", "2", "3"]), default="2", show_default=True, help="R2CC_MODE.")
    @click.option("--user", type=click.IntRange(0), default=1000, show_default=True, help="Who the containers run as.")
    @click.option("--env", multiple=True, metavar="NAME=VALUE", help="One more variable; may be repeated.")
    @click.option("--resource", multiple=True, metavar="NAME=AMOUNT", help="One more limit, as rdma/hca=8.")
    @click.option("--host-network", is_flag=True, help="Pods use the node's network.")
    @click.option("--shm", default="16Gi", show_default=True, help="The size of /dev/shm.")
    @click.option("--status", default="", metavar="DIR", help="The node's folder for status files (r2cc metrics).")
    @click.option("--control", default="", metavar="DIR", help="The node's folder that drains are asked in.")
    @json_option("Print JSON, as a List of Kubernetes.")
    @click.argument("command", nargs=-1)
    def one(
        *, as_json: bool, mode: str, env: Sequence[str], resource: Sequence[str], command: Sequence[str], **asked: Any
    ) -> None:
        from harness.kubernetes.jobs import JOBS
        from harness.kubernetes.pod import Asked

        added, limits = _pairs("--env", env), _pairs("--resource", resource)
        _show(JOBS[kind](Asked(command=command, mode=int(mode), env=added, resources=limits, **asked)), as_json=as_json)

    one.help = f"Print {text[0].lower()}{text[1:]}"


_job("mpijob", "An MPIJob of the MPI operator: mpirun in a launcher, sshd of the job's own user in its workers.")
_job("jobset", "A JobSet: one indexed Job, whose torchrun finds its number and rank 0 in variables.")
_job("trainjob", "A TrainJob of Kubeflow's Trainer, with a TrainingRuntime of its own.")


@render.command(short_help="The agents that break NICs for pods.")
@click.option("--namespace", default="r2cc", show_default=True, help="Where they go; it is made.")
@click.option("--image", required=True, help="Made of scripts/packages/Containerfile.agent.")
@click.option("--node-selector", multiple=True, metavar="LABEL=VALUE", help="Only on nodes with this label.")
@json_option("Print JSON, as a List of Kubernetes.")
def agent(*, namespace: str, image: str, node_selector: Sequence[str], as_json: bool) -> None:
    """Print a DaemonSet: one privileged pod on each node, which `r2cc chaos` tells what to break and to undo.

    Install it for experiments, and delete it afterwards: an agent that ends undoes what is broken.

    \b
    Examples:
      r2cc k8s render agent --image site/r2cc-agent:1 | kubectl apply --filename -
      r2cc k8s render agent --image site/r2cc-agent:1 | kubectl delete --filename -

    \b
    Exit codes: 0 printed, 2 something named cannot be.
    """
    from chaos.deadman.agent import manifests
    from harness.kubernetes.pod import IMAGE, NAME

    if not NAME.fullmatch(namespace):
        raise UsageError(f"--namespace '{namespace}' cannot be", "small letters, digits and '-'")
    if not IMAGE.fullmatch(image):
        raise UsageError(f"--image '{image}' cannot be", "it is the name of an image")
    _show(manifests(namespace, image, _pairs("--node-selector", node_selector)), as_json=as_json)


def _pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} '{word}' is no NAME=VALUE", f"{option} NAME=VALUE")
        found[name] = value
    return found


def _show(manifests: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    import json

    from harness.config.yaml_text import dumped

    if as_json:
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*manifests]}, indent=1))
    else:
        apart = json.loads(json.dumps(manifests))  # what is used twice is written twice: no aliases
        click.echo("---\n".join(dumped(each) for each in apart), nl=False)
