"""`r2cc k8s`: manifests for Kubernetes. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from harness.errors import UsageError

OTHERS = """\b
Examples:
  r2cc k8s render jobset --name train --nodes 4 --image site/train:1 --plugin-image site/r2cc:1 -- torchrun train.py
  r2cc k8s render metrics --image site/r2cc:1 > metrics.yaml
  r2cc k8s render agent --image site/r2cc:1 > agent.yaml
"""
EXAMPLES = {
    "mpijob": "-- mpirun all_reduce_perf -b 1G",
    "jobset": "-- torchrun train.py",
    "trainjob": "-- torchrun train.py",
}


@click.group(short_help="Make manifests for Kubernetes.", epilog=OTHERS)
def k8s() -> None:
    """Manifests of jobs that use R2CC, of their metrics, and of agents that break NICs (docs/howto/kubernetes.md)."""


@k8s.group(epilog=OTHERS)
def render() -> None:
    """Print manifests for `kubectl apply`. Nothing is asked of a cluster."""


def _examples(kind: str) -> str:
    line = f"r2cc k8s render {kind} --name j1 --nodes 4 --image site/job:1 --plugin-image site/r2cc:1"
    return f"""\b
Examples:
  {line} {EXAMPLES[kind]}
  {line} --gpus 4 --resource rdma/hca=4 {EXAMPLES[kind]}
\b
Exit codes: 0 printed, 2 something named cannot be.
"""


def _job(kind: str, text: str) -> None:
    @render.command(kind, epilog=_examples(kind), short_help=text)
    @click.option("--name", required=True, help="The name of the job.")
    @click.option("--namespace", default="default", show_default=True, help="The namespace it goes to.")
    @click.option("--image", required=True, help="Of the job's containers, with NCCL and the program.")
    @click.option("--plugin-image", required=True, help="With the net plugin: `make image`.")
    @click.option("--nodes", type=click.IntRange(1, 100_000), required=True, help="How many pods with GPUs.")
    @click.option("--gpus", type=click.IntRange(0, 64), default=8, show_default=True, help="How many each pod has.")
    @click.option("--mode", type=click.IntRange(0, 3), default=2, show_default=True, help="R2CC_MODE of the ranks.")
    @click.option("--user", type=click.IntRange(0), default=1000, show_default=True, help="Who the containers run as.")
    @click.option("--env", multiple=True, metavar="NAME=VALUE", help="One more variable; may be repeated.")
    @click.option("--resource", multiple=True, metavar="NAME=AMOUNT", help="One more limit, as rdma/hca=8.")
    @click.option("--host-network", is_flag=True, help="Pods use the node's network.")
    @click.option("--shm", default="16Gi", show_default=True, help="The size of /dev/shm.")
    @click.option("--status", default="", metavar="DIR", help="The node's folder for status files (r2cc metrics).")
    @click.option("--control", default="", metavar="DIR", help="The node's folder that drains are asked in.")
    @click.argument("command", nargs=-1)
    def one(*, env: Sequence[str], resource: Sequence[str], command: Sequence[str], **asked: Any) -> None:
        from harness.kubernetes.jobs import JOBS
        from harness.kubernetes.pod import Asked

        added, limits = _pairs("--env", env), _pairs("--resource", resource)
        _show(JOBS[kind](Asked(command=command, env=added, resources=limits, **asked)))

    one.help = f"Print {text[0].lower()}{text[1:]}"


_job("mpijob", "An MPIJob of the MPI operator: mpirun in a launcher, sshd of the job's own user in its workers.")
_job("jobset", "A JobSet: one indexed Job, whose torchrun finds its number and rank 0 in variables.")
_job("trainjob", "A TrainJob of Kubeflow's Trainer, with a TrainingRuntime of its own.")


@render.command(short_help="The agents that break NICs for pods.")
@click.option("--namespace", default="r2cc", show_default=True, help="Where they go; it is made, too.")
@click.option("--image", required=True, help="With R2CC: `make image`.")
@click.option("--node-selector", multiple=True, metavar="LABEL=VALUE", help="Only on nodes with this label.")
def agent(*, namespace: str, image: str, node_selector: Sequence[str]) -> None:
    """Print a DaemonSet: one privileged pod on each node, which `r2cc chaos` tells what to break and to undo.

    Install it for experiments, and delete it afterwards: an agent that ends undoes what is broken.

    \b
    Examples:
      r2cc k8s render agent --image site/r2cc:1 > agent.yaml
      r2cc k8s render agent --image site/r2cc:1 --node-selector gpu=yes > agent.yaml

    \b
    Exit codes: 0 printed, 2 something named cannot be.
    """
    from chaos.deadman.agent import manifests

    _check(namespace, image)
    _show(manifests(namespace, image, _pairs("--node-selector", node_selector)))


@render.command(short_help="What gives Prometheus the metrics of each node.")
@click.option("--namespace", default="default", show_default=True, help="The namespace it goes to.")
@click.option("--image", required=True, help="With R2CC: `make image`.")
@click.option("--status", default="/run/r2cc-status", show_default=True, metavar="DIR",
              help="The node's folder for status files; jobs are rendered with the same.")  # fmt: skip
@click.option("--port", type=click.IntRange(1024, 65535), default=9401, show_default=True, help="Where it answers.")
@click.option("--node-selector", multiple=True, metavar="LABEL=VALUE", help="Only on nodes with this label.")
def metrics(*, namespace: str, image: str, status: str, port: int, node_selector: Sequence[str]) -> None:
    """Print a DaemonSet: `r2cc metrics` on each node, and the node's folder, in which every job may write.

    How a node is, is asked there, too: `kubectl exec POD -- r2cc health --status DIR`.

    \b
    Examples:
      r2cc k8s render metrics --image site/r2cc:1 > metrics.yaml
      r2cc k8s render metrics --image site/r2cc:1 --namespace monitoring --node-selector gpu=yes > metrics.yaml

    \b
    Exit codes: 0 printed, 2 something named cannot be.
    """
    from harness.kubernetes.pod import FOLDER
    from harness.kubernetes.watch import manifests

    _check(namespace, image)
    if not FOLDER.fullmatch(status):
        raise UsageError(f"--status '{status}' cannot be", "it is a folder of the node, as /run/r2cc-status")
    _show(manifests(namespace, image, status, port, _pairs("--node-selector", node_selector)))


def _check(namespace: str, image: str) -> None:
    from harness.kubernetes.pod import IMAGE, NAME

    if not NAME.fullmatch(namespace):
        raise UsageError(f"--namespace '{namespace}' cannot be", "small letters, digits and '-'")
    if not IMAGE.fullmatch(image):
        raise UsageError(f"--image '{image}' cannot be", "it is the name of an image")


def _pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} '{word}' is no NAME=VALUE", f"{option} NAME=VALUE")
        found[name] = value
    return found


def _show(manifests: Sequence[dict[str, Any]]) -> None:
    import json

    from harness.config.yaml_text import dumped

    apart = json.loads(json.dumps(manifests))  # what is used twice is written twice: no aliases
    click.echo("---\n".join(dumped(each) for each in apart), nl=False)
