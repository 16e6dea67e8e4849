"""Makes what nccl-tests and Megatron-LM print, and dresses it as launchers, containers and terminals do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

NEW = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
OLD = "size count type redop time algbw busbw error time algbw busbw error"
PLAIN = "size count type time algbw busbw error time algbw busbw error"
OLDEST = "bytes N type op root time algbw busbw res time algbw busbw res"


@dataclass(frozen=True)
class Table:
    """One program. `rows`: (size, busbw) of each; everything else is made of these."""

    rows: Sequence[tuple[int, float]] = ((1024, 1.25), (2048, 2.5), (4096, 5.0))
    name: str = ""
    kind: str = "float"
    redop: str = "sum"
    root: int = -1
    header: str = NEW
    checked: str = "0"
    ranks: int = 2
    bounds: str = "0 OK"
    ended: bool = True
    more: Sequence[Table] = field(default=())
    """Other operations under the same header."""

    def text(self) -> str:
        name = f"# Collective test starting: {self.name}_perf\n" if self.name else ""
        devices = "".join(f"#  Rank {r} Group  0 Pid 77{r} on n{r} device 0 [0x1] GPU\n" for r in range(self.ranks))
        head = f"#\n#        out-of-place      in-place\n#  {self.header}\n#  (B)  (elements)   ({self.unit})  (GB/s)\n"
        rows = "".join(self.row(*row) for row in self.rows) + "".join(
            each.row(*row) for each in self.more for row in each.rows
        )
        end = f"# Out of bounds values : {self.bounds}\n# Avg bus bandwidth    : 3.0 \n#\n" if self.ended else ""
        last = f"# Collective test concluded: {self.name}_perf\n" if self.name and self.ended else ""
        return f"{name}# nThread 1 nGpus 1 minBytes 1 maxBytes 9 graph: 0\n#\n{devices}{head}{rows}{end}{last}"

    @property
    def unit(self) -> str:
        return "ms" if self.header == OLDEST else "us"

    def row(self, size: int, busbw: float) -> str:
        return " ".join(self.words(size, busbw)) + "\n"

    def words(self, size: int, busbw: float) -> list[str]:
        value = {
            "size": str(size), "bytes": str(size), "count": str(size // 4), "N": str(size // 4), "type": self.kind,
            "redop": self.redop, "op": self.redop, "root": str(self.root), "time": f"{size / 8:.2f}",
            "algbw": f"{busbw / 2:.3f}", "busbw": f"{busbw:.3f}", "#wrong": self.checked, "error": self.checked,
            "res": self.checked,
        }  # fmt: skip
        return [value[name] for name in self.header.split()]


def rank(form: str) -> Callable[[str], str]:
    """A dress: `form` with {n} (the line's number) and {line}."""

    def dressed(text: str) -> str:
        return "".join(form.format(n=n, line=line) + "\n" for n, line in enumerate(text.split("\n")[:-1], 1))

    return dressed


DRESSES: dict[str, Callable[[str], str]] = {
    "Open MPI 4": rank("[1,0]<stdout>:{line}"),
    "Open MPI 4 with times": rank("Mon Nov  2 03:04:{n:02}.123456 2026[1,0]<stdout>:{line}"),
    "Open MPI 5": rank("[prterun-node-1-2345@1,0]<stdout>: {line}"),
    "Open MPI 5 in detail": rank("2026-11-02T03:04:{n:02}-0600 [1,0][node1:2345]<stdout>: {line}"),
    "srun": rank(" 0: {line}"),
    "srun of many": rank("  0: {line}"),
    "hydra": rank("[0] {line}"),
    "hydra by a pattern": rank("(rank 0) {line}"),
    "kubectl --prefix": rank("[pod/tests-launcher-x7k2p/launcher] {line}"),
    "kubectl --timestamps": rank("2026-11-02T03:04:{n:02}.123456789Z {line}"),
    "stern": rank("\x1b[32mtests-launcher-x7k2p\x1b[0m \x1b[94mlauncher\x1b[0m {line}"),
    "docker compose": rank("\x1b[36mlauncher-1  | \x1b[0m{line}"),
    "CRI": rank("2026-11-02T03:04:{n:02}.5+00:00 stdout F {line}"),
    "torchrun": rank("[default0]:{line}"),
    "pdsh": rank("node-17.example: {line}"),
    "journal": rank("Nov 02 03:04:{n:02} node1 launch[4711]: {line}"),
    "ts": rank("[2026-11-02 03:04:{n:02}] {line}"),
    "dmesg": rank("[   12.{n:06}] {line}"),
    "epoch": rank("17000000{n:02}.25 {line}"),
    "cat -n": rank("{n:6}\t{line}"),
    "grep -n": rank("{n}:{line}"),
    "quoted": rank("> {line}"),
    "indented": rank("\t    {line}"),
    "commented": rank("# {line}"),
    "coloured": rank("\x1b[1;33m{line}\x1b[0m\x1b[K"),
    "coloured, by cat -v": rank("^[[33m{line}^[[0m"),
    "ends of DOS": lambda text: text.replace("\n", "\r\n"),
    "ends of a terminal": lambda text: text.replace("\n", "\r\r\n"),
    "ends of an old Mac": lambda text: text.replace("\n", "\r"),
    "progress bar": rank("step 1\rstep 2\r{line}"),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "NULs": lambda text: "\0" * 40 + text,
}


def step(iteration: int, total: int = 100, *, seconds: bool = False, loss: str = "2.5E+00", end: str = " |") -> str:
    """A line of Megatron-LM, of an iteration that took 100 ms and as many more as its number."""
    took = f"(s): {0.1 + iteration / 1000:.4f}" if seconds else f"(ms): {100.0 + iteration:.1f}"
    speed = "TFLOPs: 142.5" if seconds else "throughput per GPU (TFLOP/s/GPU): 142.5"
    shown = f" | lm loss: {loss}" if loss else ""
    return (
        f" iteration {iteration:8d}/{total:8d} | consumed samples: {8 * iteration:12d}"
        f" | elapsed time per iteration {took}"
        f" | global batch size:     8{shown} | number of skipped iterations:   1 | number of nan iterations:   0"
        f" | {speed}{end}\n"
    )
