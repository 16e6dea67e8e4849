"""Metrics pushed by OTLP: a real HTTP server decodes what came with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from watch_files import nic, status, write

from harness.cli import cli

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otel` is not installed")


class Collector(ThreadingHTTPServer):
    """Keeps what it was sent; answers `code`."""

    code = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.bodies.append((self.path, body))
        self.send_response(self.server.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words: Any) -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def push(folder: Path, url: str) -> Any:
    return CliRunner().invoke(cli, ["metrics", "--status", str(folder), "--otlp", url, "--once"])


def test_what_comes_is_what_the_files_say(collector: Collector, tmp_path: Path) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    stalls = {"bounds_ms": [1, 10, 100], "counts": [3, 0, 2, 1], "sum_s": 0.5}
    value = status(nic("eth0", "down"), nic("eth1"), totals={"failovers": {"netlink": 4}, "stalls": stalls})
    write(tmp_path, value)
    done = push(tmp_path, collector.url)
    assert done.exit_code == 0, done.output
    ((path, body),) = collector.bodies
    assert path == "/v1/metrics"
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "r2cc"
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    up = {of(point)["nic"]: point.as_double for point in metrics["r2cc_nic_up"].gauge.data_points}
    assert up == {"eth0": 0.0, "eth1": 1.0}
    moved = metrics["r2cc_failovers"].sum
    assert moved.is_monotonic and [point.as_double for point in moved.data_points] == [4.0]
    assert of(moved.data_points[0]) == {"job_id": "42", "host": "h1", "rank": "0", "pid": "7", "cause": "link_down"}
    (stood,) = metrics["r2cc_stall_seconds"].histogram.data_points
    assert ([*stood.bucket_counts], [*stood.explicit_bounds]) == ([3, 0, 2, 1], [0.001, 0.01, 0.1])
    assert (stood.count, stood.sum) == (6, 0.5)
    assert metrics["r2cc_nic_bytes"].unit == "By"


def of(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_a_collector_that_refuses(collector: Collector, tmp_path: Path) -> None:
    collector.code = 400
    write(tmp_path, status())
    done = push(tmp_path, f"{collector.url}/other/path")
    assert "does not take metrics" in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == 3
    assert collector.bodies[0][0] == "/other/path"


def test_bad_usage(tmp_path: Path) -> None:
    assert "is no URL of a collector" in str(push(tmp_path, "collector:4318").exception)
    both = CliRunner().invoke(cli, ["metrics", "--status", str(tmp_path), "--otlp", "http://x", "--listen", "9401"])
    assert "are ways for the same" in str(both.exception)


def test_without_the_extra_it_is_said_in_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; from harness.cli import main; main()"
    words = ["metrics", "--status", str(tmp_path), "--otlp", "http://127.0.0.1:9", "--once"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert (
        f"{shlex.quote(sys.executable)} -m pip install 'r2cc[otel]'" in done.stderr and "Traceback" not in done.stderr
    )
