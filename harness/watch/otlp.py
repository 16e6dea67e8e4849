"""The metrics of status files as OpenTelemetry has them, pushed by OTLP over HTTP. Needs the extra `otel`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.errors import InfraError, UsageError, extra_hint
from harness.watch.metrics import families
from harness.watch.status import read_folder

SCOPE = "r2cc"
UNITS = {"bytes": "By", "seconds": "s", "ratio": "1"}
NS = 1_000_000_000


class Pusher:
    """Reads the folder anew at each push. UsageError without the packages of the extra, or for what is no URL."""

    def __init__(self, url: str, folder: Path, host: str | None = None) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UsageError(f"'{url}' is no URL of a collector", "as http://collector:4318/v1/metrics")
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        except ImportError as error:
            raise UsageError(f"OTLP needs packages that are not installed: {error}", extra_hint("otel")) from error
        self._url, self._folder, self._host = url, folder, host
        named = bool(urlsplit(url).path.strip("/"))
        self._exporter = OTLPMetricExporter(endpoint=url if named else f"{url.rstrip('/')}/v1/metrics")

    def push(self) -> int:
        """How many data points went. InfraError when the collector does not take them."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        made = metrics_data(families(read_folder(self._folder, self._host)), time.time_ns())
        if self._exporter.export(made) is not MetricExportResult.SUCCESS:
            raise InfraError(f"{self._url} does not take metrics", "is a collector there that takes OTLP over HTTP?")
        scopes = [scope for resource in made.resource_metrics for scope in resource.scope_metrics]
        return sum(len(metric.data.data_points) for scope in scopes for metric in scope.metrics)

    def close(self) -> None:
        self._exporter.shutdown()


def metrics_data(found: Iterable[Any], now_ns: int) -> Any:
    """Of prometheus_client's families: gauges, monotonic sums and histograms, cumulative since each process began."""
    from opentelemetry.sdk.metrics.export import Metric, MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    metrics = [
        Metric(family.name, family.documentation, UNITS.get(family.name.rpartition("_")[2], "1"), data)
        for family in found
        if (data := _data(family, now_ns)) is not None
    ]
    scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, "")
    resource = Resource({"service.name": SCOPE})
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(family: Any, now_ns: int) -> Any:
    """None: it has no samples now."""
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Sum

    if not family.samples:
        return None
    if family.type == "histogram":
        return Histogram(_histograms(family, now_ns), AggregationTemporality.CUMULATIVE)
    points = [_point(sample.labels, sample.value, now_ns) for sample in family.samples]
    if family.type == "counter":
        return Sum(points, AggregationTemporality.CUMULATIVE, True)
    return Gauge(points)


def _point(labels: Mapping[str, str], value: float, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics.export import NumberDataPoint

    return NumberDataPoint(dict(labels), 0, now_ns, value)


def _histograms(family: Any, now_ns: int) -> list[Any]:
    """Prometheus' buckets hold all that is smaller, too; OTLP's do not."""
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        key = tuple(sorted(labels.items()))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    points = []
    for key, each in buckets.items():
        bounds, totals = zip(*sorted(each), strict=True)
        counts = [int(more - less) for less, more in zip((0, *totals), totals, strict=False)]
        where = (dict(key), 0, now_ns, int(totals[-1]), sums.get(key, 0.0), counts, [*bounds[:-1]])
        points.append(HistogramDataPoint(*where, 0.0, 0.0))
    return points
