"""Stands in for nvidia-ml-py: two GPUs that answer as H100s do, as far as the sampler asks. NVML_DOUBLE names what is
otherwise: `old` has no performance monitoring and no counters, `lost` falls off the bus after two looks."""

import os
import time
from types import SimpleNamespace

NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139
NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 197, 198
NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 2, 10
NVML_GPM_METRICS_GET_VERSION = 1
MODE = os.environ.get("NVML_DOUBLE", "")
BEGUN = time.monotonic()
LOOKS = []


class NVMLError(Exception):
    pass


def nvmlInit():
    if MODE == "driver":
        raise NVMLError("Driver/library version mismatch")


def nvmlDeviceGetCount():
    return 2


def nvmlDeviceGetHandleByIndex(index):
    return SimpleNamespace(index=index)


def nvmlDeviceGetHandleByUUID(uuid):
    return SimpleNamespace(index=int(uuid[-1]))


def nvmlDeviceGetUtilizationRates(handle):
    LOOKS.append(handle)
    if MODE == "lost" and len(LOOKS) > 4 and handle.index == 1:
        raise NVMLError("GPU is lost")
    return SimpleNamespace(gpu=100, memory=40)


def nvmlDeviceGetMemoryInfo(handle):
    return SimpleNamespace(used=(handle.index + 1) << 30)


def nvmlDeviceGetClockInfo(handle, kind):
    return {NVML_CLOCK_SM: 1980, NVML_CLOCK_MEM: 2619}[kind]


def nvmlDeviceGetFieldValues(handle, fields):
    """Of PCIe only what is sent is counted; NVLink in KiB, both growing by 1 KiB a millisecond."""
    if MODE == "old":
        raise NVMLError("Not Supported")
    now = round((time.monotonic() - BEGUN) * 1000)
    known = {138: now, 139: now, 197: now * 1024}
    assert all(scope == 0xFFFFFFFF for field, scope in fields if field in (138, 139))
    return [
        SimpleNamespace(
            nvmlReturn=0 if field in known else 3, valueType=3, value=SimpleNamespace(ullVal=known.get(field, 0))
        )
        for field, _ in fields
    ]


def nvmlGpmQueryDeviceSupport(handle):
    if MODE == "old":
        raise NVMLError("Not Supported")
    return SimpleNamespace(isSupportedDevice=1)


def nvmlGpmSampleAlloc():
    return SimpleNamespace(at=None)


def nvmlGpmSampleGet(handle, sample):
    sample.at = time.monotonic()
    sample.index = handle.index


def c_nvmlGpmMetricsGet_t():
    metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(98)]
    return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)


def nvmlGpmMetricsGet(asked):
    """Percent; GPU 1 does not say what its memory does."""
    assert asked.sample2.at > asked.sample1.at
    for metric in asked.metrics[: asked.numMetrics]:
        metric.value = {2: 12.5, 10: 3.0}[metric.metricId]
        metric.nvmlReturn = 3 if metric.metricId == 10 and asked.sample1.index == 1 else 0
