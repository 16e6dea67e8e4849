"""The load of a host's GPUs, as JSON lines: `python3 gpu_sampler.py [--interval-ms 100] [--gpus 0,1] [--seconds 0]`.

Runs beside r2cc_sampler and needs nvidia-ml-py, which `r2cc deploy` brings to hosts. Writes a line `gpu` for each GPU
and interval (docs/reference/contracts.md) until stdin closes, or SIGTERM, or for so many seconds. Without NVML it
writes one line `log` that says why, and waits: nothing else changes. `--gpus` counts as CUDA does here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

DOUBLE, UNSIGNED, LONG, LONG_LONG = 0, 1, 2, 3
"""Of nvmlValueType_t."""
ALL_LINKS = 0xFFFFFFFF
KIB = 1024
DEPLOYED = Path(__file__).parents[2] / "nvidia"
"""Where `r2cc deploy` puts pynvml; what the host's own Python has goes before it."""


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval-ms", type=float, default=100)
    parser.add_argument("--gpus", default="", help="their numbers; without it: all that there are")
    parser.add_argument("--seconds", type=float, default=0, help="ends after so long; 0: never")
    return parser.parse_args(words)


class Card:
    """One GPU. What it does not measure is left out of its lines."""

    def __init__(self, nvml: Any, handle: Any, number: int) -> None:
        self._nvml, self._handle, self._number = nvml, handle, number
        self._counters = {
            "nvlink_tx_bytes": (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS, KIB),
            "nvlink_rx_bytes": (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS, KIB),
            "pcie_tx_bytes": (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0, 1),
            "pcie_rx_bytes": (nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0, 1),
        }
        self._activity = Activity.of(nvml, handle)

    def line(self) -> dict[str, Any]:
        """Its load since the last line."""
        nvml, handle = self._nvml, self._handle
        load = nvml.nvmlDeviceGetUtilizationRates(handle)
        found = {
            "t_ns": time.monotonic_ns(),
            "event": "gpu",
            "gpu": self._number,
            "busy": load.gpu / 100,
            "memory_busy": load.memory / 100,
            "used_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
            "sm_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        }
        return {**found, **self._activity.shares(), **self._moved()}

    def _moved(self) -> dict[str, int]:
        fields = [(field, scope) for field, scope, _ in self._counters.values()]
        try:
            values = self._nvml.nvmlDeviceGetFieldValues(self._handle, fields)
        except self._nvml.NVMLError:
            self._counters = {}
            return {}
        named = zip(self._counters.items(), values, strict=True)
        read = {name: (unit, value) for (name, (_, _, unit)), value in named if value.nvmlReturn == 0}
        self._counters = {name: self._counters[name] for name in read}
        return {name: unit * number(value) for name, (unit, value) in read.items()}


def number(value: Any) -> int:
    """Of a field, whose value is a union."""
    kinds = {DOUBLE: "dVal", UNSIGNED: "uiVal", LONG: "ulVal", LONG_LONG: "ullVal"}
    return int(getattr(value.value, kinds.get(value.valueType, "sllVal")))


class Activity:
    """The share of multiprocessors at work and of memory's bandwidth in use, between two looks. Here: unknown.

    NVML's own "utilization" is the time in which any kernel ran: one of NCCL's that waits for data counts.
    """

    @staticmethod
    def of(nvml: Any, handle: Any) -> Activity:
        """Measured where the GPU can: Hopper and later."""
        try:
            if nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                return Measured(nvml, handle)
        except (nvml.NVMLError, AttributeError):
            pass  # older GPUs, drivers, or versions of nvidia-ml-py
        return Activity()

    def shares(self) -> dict[str, float]:
        return {}


class Measured(Activity):
    """By NVML's GPU performance monitoring."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._metrics = {"sm": nvml.NVML_GPM_METRIC_SM_UTIL, "memory_busy": nvml.NVML_GPM_METRIC_DRAM_BW_UTIL}
        self._before, self._now = (nvml.nvmlGpmSampleAlloc() for _ in range(2))
        nvml.nvmlGpmSampleGet(handle, self._before)

    def shares(self) -> dict[str, float]:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(self._metrics)
        for place, metric in enumerate(self._metrics.values()):
            asked.metrics[place].metricId = metric
        try:
            nvml.nvmlGpmSampleGet(self._handle, self._now)
            asked.sample1, asked.sample2 = self._before, self._now
            nvml.nvmlGpmMetricsGet(asked)
        except nvml.NVMLError:
            return {}
        self._before, self._now = self._now, self._before
        found = zip(self._metrics, asked.metrics, strict=False)
        right = {name: each.value for name, each in found if each.nvmlReturn == 0 and math.isfinite(each.value)}
        return {name: min(1.0, max(0.0, round(value / 100, 4))) for name, value in right.items()}


def cards(nvml: Any, wanted: str) -> list[Card]:
    """Those asked for, else all. CUDA counts the GPUs that CUDA_VISIBLE_DEVICES names, in that order."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(index) for index in range(nvml.nvmlDeviceGetCount())]
    numbers = [int(word) for word in wanted.split(",")] if wanted else range(len(names))
    return [Card(nvml, _handle(nvml, names[each].strip()), each) for each in numbers]


def _handle(nvml: Any, name: str) -> Any:
    return nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdecimal() else nvml.nvmlDeviceGetHandleByUUID(name)


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def explain(why: object) -> None:
    """Once, in the journal; what is measured otherwise does not change."""
    say({"t_ns": time.monotonic_ns(), "event": "log", "message": f"the load of GPUs is not measured: {why}"})


def closed(until: float) -> bool:
    """Waits until then; True when stdin has closed: nobody listens any more."""
    left = max(0.0, until - time.monotonic())
    return bool(select.select([sys.stdin], [], [], left)[0]) and not os.read(0, 4096)


def sample(found: Sequence[Card], interval_s: float, seconds: float) -> None:
    """Until stdin closes, or for so long. A GPU that is lost ends nothing but its lines."""
    begun = due = time.monotonic()
    alive = list(found)
    while not seconds or due - begun < seconds:
        due = max(due + interval_s, time.monotonic())
        if seconds:
            time.sleep(max(0.0, due - time.monotonic()))
        elif closed(due):
            return
        for card in list(alive):
            try:
                say(card.line())
            except Exception as error:  # noqa: BLE001 - whatever NVML raises, the run goes on
                alive.remove(card)
                explain(error)


def main(words: Sequence[str] | None = None) -> int:
    """Always 0: a run never fails for want of these lines."""
    signal.signal(signal.SIGTERM, _ended)
    given = options(words)
    found: list[Card] = []
    try:
        sys.path.append(str(DEPLOYED))
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        found = cards(nvml, given.gpus)
    except ImportError:
        explain("this Python has no pynvml: pip install nvidia-ml-py")
    except Exception as error:  # noqa: BLE001 - the same for what the driver says
        explain(error)
    sample(found, given.interval_ms / 1000, given.seconds)
    return 0


def _ended(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
