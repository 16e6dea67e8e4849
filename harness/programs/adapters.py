"""Serving and training frameworks under R2CC: their command lines and environment. Nothing is started here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.launch import preload
from harness.launch.launchers.launcher import JobPlan, ShownCommand
from harness.workloads.bench import MODES, SETTINGS

DEEPSPEED_ENV = "DS_ENV_FILE"
"""Names the file whose variables DeepSpeed's launcher sets on every host; of its own it takes only some along."""


@dataclass(frozen=True)
class Launch:
    """A command, what it adds to the environment, and what other hosts must be told of it."""

    argv: list[str]
    env: dict[str, str]
    exported: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """As one would type it."""
        return shlex.join(["env", *(f"{name}={value}" for name, value in sorted(self.env.items())), *self.argv])

    def planned(self, shown: str) -> JobPlan:
        """`shown`: its name for people."""
        return JobPlan("", [ShownCommand("", shown, self.argv, dict(self.env))], {})

    def env_file(self) -> str:
        """The exported variables, one a line."""
        return "".join(f"{name}={value}\n" for name, value in sorted(self.exported.items()))


def r2cc_env(library: Path | None, mode: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """What puts the patched NCCL under a program; `library` None: whatever NCCL it finds by itself.

    `inherited` is the caller's environment, whose own preloads are kept. UsageError for a mode that does not exist.
    """
    if mode not in MODES:
        raise UsageError(f"R2CC_MODE {mode} does not exist", "0 stock, 1 migrate, 2 balance, 3 allreduce")
    env = {"R2CC_MODE": str(mode)}
    if library is not None:
        env |= preload.variables([library], inherited)
        env["LD_LIBRARY_PATH"] = _before(str(library.parent), inherited.get("LD_LIBRARY_PATH"))
    return env


def _before(first: str, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else first


def settings(env: Mapping[str, str], inherited: Mapping[str, str]) -> list[str]:
    """Names of all that NCCL and R2CC read, of ours and of the caller's, and where libraries are looked for."""
    chosen = {name for name in {**inherited, **env} if name.startswith(SETTINGS)}
    return sorted(chosen | ({"LD_LIBRARY_PATH"} & set(env)))


def vllm_serve(
    model: str, env: Mapping[str, str], library: Path | None, *, tensor_parallel: int = 1, port: int = 8000,
    more: Sequence[str] = (),
) -> Launch:  # fmt: skip
    """`vllm serve`. vLLM opens an NCCL of its own besides torch's, which has to be told."""
    own = {} if library is None else {"VLLM_NCCL_SO_PATH": str(library)}
    words = ["--tensor-parallel-size", str(tensor_parallel), "--port", str(port), *more]
    return Launch(["vllm", "serve", _plain(model), *words], {**env, **own})


def vllm_bench(
    model: str, *, port: int = 8000, prompts: int = 100, input_tokens: int = 1024, output_tokens: int = 128,
    seed: int = 1, more: Sequence[str] = (),
) -> Launch:  # fmt: skip
    """`vllm bench serve` against a server that runs: a client, with no NCCL in it."""
    options: dict[str, object] = {
        "--model": _plain(model),
        "--port": port,
        "--dataset-name": "random",
        "--random-input-len": input_tokens,
        "--random-output-len": output_tokens,
        "--num-prompts": prompts,
        "--seed": seed,
        "--percentile-metrics": "ttft,tpot,itl",
        "--metric-percentiles": "50,99",
    }
    words = [str(word) for option in options.items() for word in option]
    return Launch(["vllm", "bench", "serve", *words, "--ignore-eos", *more], {})


def deepspeed(
    script: Sequence[str], env: Mapping[str, str], inherited: Mapping[str, str], *, hostfile: Path | None = None,
    gpus: int | None = None, master: str | None = None, port: int = 29500,
) -> Launch:  # fmt: skip
    """`deepspeed [--hostfile FILE] SCRIPT ARGS`. Other hosts get what is R2CC's through a file (`Launch.env_file`)."""
    if not script:
        raise UsageError("deepspeed: no script was given", "r2cc run deepspeed --hostfile hosts train.py --args")
    words = [
        *(["--hostfile", str(hostfile)] if hostfile is not None else []),
        *(["--num_gpus", str(gpus)] if gpus is not None else []),
        *(["--master_addr", _plain(master)] if master is not None else []),
        *("--master_port", str(port)),
    ]
    values = {**inherited, **env}
    exported = {name: values[name] for name in (*settings(env, inherited), *({"LD_PRELOAD"} & set(env)))}
    return Launch(["deepspeed", *words, *script], dict(env), exported if hostfile is not None else {})


def _plain(word: str) -> str:
    if word.startswith("-"):
        raise UsageError(f"{word!r} is an option, not a name", "put options of the program after --")
    return word
