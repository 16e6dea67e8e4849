#!/usr/bin/env python3
"""Stands in for a program of nccl-tests 2.19: takes the same options, prints and writes the same form, moves nothing.

STANDIN says what goes wrong, as JSON: `wrong` (row: elements), `die_after` (rows), `hang_after`, `raw` (row: what is
written as its time), `alone` (as without MPI), `exit`, `unchecked` (in place).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
FACTORS = {"broadcast_perf": 1.0, "sendrecv_perf": 1.0}


def size(text: str) -> int:
    return int(float(text[:-1]) * UNITS[text[-1].upper()]) if text[-1].isalpha() else int(text)


def options(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def column(value: float, width: int) -> str:
    text = next((t for digits in (2, 1, 0) if len(t := f"{value:.{digits}f}") <= width), f"{value:.1e}")
    return f"{text:>{width}}"


class Writer:
    """The JSON, written piece by piece, so that one that is killed leaves as much as it had."""

    def __init__(self, path: str | None) -> None:
        self.file = None if path is None else Path(path).open("x")  # noqa: SIM115 - until the end

    def put(self, text: str) -> None:
        if self.file is not None:
            self.file.write(text)
            self.file.flush()

    def text(self, value: str) -> str:
        return json.dumps(value).replace("/", "\\/")


class Standin:
    def __init__(self, program: str, words: list[str], script: dict[str, object]) -> None:
        self.program, self.asked, self.script = program, options(words), script
        self.json = Writer(self.asked.get("-J"))
        self.each = self.asked.get("-I") == "1"
        self.wrong = 0

    def run(self) -> int:
        self.begin()
        if self.script.get("alone"):
            self.header()
        row, smallest, largest = 0, size(self.asked["-b"]), size(self.asked["-e"])
        while smallest <= largest:
            if row == self.script.get("die_after"):
                print(" .. node1 pid 4711: Test failure common.cu:1", file=sys.__stdout__, flush=True)  # on every rank
                return 3
            if row == self.script.get("hang_after"):
                time.sleep(60)
            self.row(row, smallest)
            row, smallest = row + 1, smallest * int(self.asked["-f"])
        return self.end()

    def begin(self) -> None:
        print("# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907")
        print(f"# Collective test starting: {self.program}")
        gpus = int(self.asked["-g"])
        devices = [
            {"rank": r, "group": 0, "pid": os.getpid(), "hostname": "node1", "device": r, "device_hex": f"0000:0{r}:00"}
            for r in range(gpus)
        ]
        for device in devices:
            print(
                f"#  Rank {device['rank']:2} Group  0 Pid {os.getpid():6} on node1 device {device['rank']:2} [x] H100"
            )
        self.header()
        environment = ",".join(self.json.text(f"{name}={value}") for name, value in os.environ.items())
        arguments = ",".join(map(self.json.text, sys.argv))
        self.json.put('{"version":2,"start_time":"2026-01-02 03:04:05",')
        self.json.put(f'"args":[{arguments}],"env":[{environment}],"nccl_version":22907,')
        config = f'"nthreads":1,"ngpus":{gpus},"minimum_bytes":{size(self.asked["-b"])},"blocking_collectives":"false"'
        listed = json.dumps(devices, separators=(",", ":"))
        self.json.put(
            f'"config":{{{config},"per_iter_timing":"{str(self.each).lower()}","devices":{listed}}},"results":['
        )

    def header(self) -> None:
        print("#")
        fixed = f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
        group = f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}  {'#wrong':>6}"
        group += "".join(f"  {name:>7}" for name in ("i_min", "i_max", "i_p99", "i_cv%")) if self.each else ""
        print(f"# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}           out-of-place                       in-place")
        print(f"{fixed}{group}{group} ", flush=True)

    def row(self, number: int, size_bytes: int) -> None:
        redop = "sum" if "reduce" in self.program else "none"
        print(f"{size_bytes:12}  {size_bytes // 4:12}  {'float':>8}  {redop:>6}  {-1:6}", end="")
        self.json.put(("," if number else "") + f'{{"size":{size_bytes},"count":{size_bytes // 4},"type":"float",')
        self.json.put(f'"redop":"{redop}","root":"    -1"')
        for kind in ("out_of_place", "in_place"):
            self.part(number, size_bytes, kind)
        print(flush=True)
        self.json.put(',"actual_iterations":20,"experiment_name":""}')

    def part(self, number: int, size_bytes: int, kind: str) -> None:
        time_us = 10.0 + size_bytes / 1000
        rate = size_bytes / time_us / 1000
        busbw = rate * FACTORS.get(self.program, 1.5)
        wrong = dict(self.script.get("wrong", {})).get(str(number), 0)  # type: ignore[call-overload]
        unchecked = kind == "in_place" and self.script.get("unchecked")
        self.wrong += bool(wrong)
        print(f"  {column(time_us, 7)}  {column(rate, 6)}  {column(busbw, 6)}", end="")
        print("     N/A" if unchecked else f"  {wrong:6g}", end="")
        raw = dict(self.script.get("raw", {})).get(str(number), f"{time_us:.6f}")  # type: ignore[call-overload]
        self.json.put(f',"{kind}":{{"time":{raw},"alg_bw":{rate:.6f},"bus_bw":{busbw:.6f},')
        self.json.put(f'"nwrong":{"null" if unchecked else f"{float(wrong):.6f}"}}}')
        if self.each:
            print("".join(f"  {column(time_us, 7)}" for _ in range(4)), end="")
            times = ",".join(f"{time_us + i:.6f}" for i in range(3))
            self.json.put(f',"{kind}_per_iter":{{"min_us":{time_us:.6f},"times_us":[{times}]}}')

    def end(self) -> int:
        print(f"# Out of bounds values : {self.wrong} {'FAILED' if self.wrong else 'OK'}")
        print("# Avg bus bandwidth    : 1.5 \n#", flush=True)
        self.json.put(f'],"out_of_bounds":{{"count":{self.wrong},"okay":"{str(not self.wrong).lower()}"}},')
        self.json.put('"average_bus_bandwidth":{"bandwidth":1.500000,"okay":"unchecked"},"errors":[""],')
        self.json.put('"end_time":"2026-01-02 03:04:06"}')
        return int(self.script.get("exit", 0)) or (8 if self.wrong else 0)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(Standin(Path(sys.argv[0]).name, sys.argv[1:], json.loads(os.environ.get("STANDIN", "{}"))).run())
