"""All-reduces through the libnccl.so.2 that --library names, one a step; every element is checked.

Only NCCL's oldest calls and CUDA's driver are used, and no other NCCL is in the process: so it runs with NCCL 2.19 to
2.32, whatever the machine's torch brings. Ranks find each other by the variables that torchrun sets, too.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import sys
import time
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import missing  # noqa: F401 - the first of these: see there

# isort: split
import numpy as np
from record import Record

INT32, SUM = 2, 0
ID_BYTES = 128
MEET_S = 60.0


class UniqueId(ctypes.Structure):
    """ncclUniqueId; passed by value."""

    _fields_ = [("internal", c_char * ID_BYTES)]


class Failed(Exception):
    """What this program cannot go on from, in words."""


def opened(library: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(library)
    except OSError as error:
        raise Failed(f"{library} cannot be loaded: {error}") from error


class Gpu:
    """The first GPU that this process sees, by CUDA's driver: a stream and one buffer."""

    def __init__(self, size: int) -> None:
        self._cuda = opened("libcuda.so.1")
        device, context = c_int(), c_void_p()
        self.stream, self.data = c_void_p(), c_uint64()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", byref(self.stream), 0)  # ordered with copies, which use the default stream
        self._call("cuMemAlloc_v2", byref(self.data), c_size_t(size))

    def _call(self, name: str, *words: Any) -> None:
        code = getattr(self._cuda, name)(*words)
        if code:
            raise Failed(f"{name}: CUDA error {code}")

    def put(self, values: np.ndarray) -> None:
        self._call("cuMemcpyHtoD_v2", self.data, c_void_p(values.ctypes.data), c_size_t(values.nbytes))

    def get(self, values: np.ndarray) -> None:
        """Waits for what the stream has to do."""
        self._call("cuStreamSynchronize", self.stream)
        self._call("cuMemcpyDtoH_v2", c_void_p(values.ctypes.data), self.data, c_size_t(values.nbytes))


class Nccl:
    """One communicator of all ranks."""

    def __init__(self, library: ctypes.CDLL, rank: int, ranks: int) -> None:
        self._nccl, self._comm = library, c_void_p()
        self._nccl.ncclGetErrorString.restype = c_char_p
        version, own = c_int(), UniqueId()
        self._call("ncclGetVersion", byref(version))
        self.version = version.value
        if rank == 0:
            self._call("ncclGetUniqueId", byref(own))
        ctypes.memmove(byref(own), met(ctypes.string_at(byref(own), ID_BYTES), rank, ranks), ID_BYTES)
        self._call("ncclCommInitRank", byref(self._comm), c_int(ranks), own, c_int(rank))

    def _call(self, name: str, *words: Any) -> None:
        code = getattr(self._nccl, name)(*words)
        if code:
            raise Failed(f"{name}: {self._nccl.ncclGetErrorString(code).decode()} ({code})")

    def all_reduce(self, gpu: Gpu, count: int) -> None:
        """In place, int32, sum."""
        words = (c_uint64(gpu.data.value), c_uint64(gpu.data.value), c_size_t(count), INT32, SUM)
        self._call("ncclAllReduce", *words, self._comm, gpu.stream)

    def destroy(self) -> None:
        self._call("ncclCommDestroy", self._comm)


def met(own: bytes, rank: int, ranks: int) -> bytes:
    """Rank 0's bytes, at every rank. Raises Failed when ranks do not meet."""
    place = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
    deadline = time.monotonic() + MEET_S
    try:
        if rank == 0:
            with socket.create_server(place) as server:
                server.settimeout(MEET_S)
                for _ in range(ranks - 1):
                    with server.accept()[0] as peer:
                        peer.sendall(own)
            return own
        while True:
            try:
                with socket.create_connection(place, timeout=MEET_S) as found, found.makefile("rb") as words:
                    return words.read(ID_BYTES)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    except OSError as error:
        raise Failed(f"rank {rank} did not meet the others at {place[0]}:{place[1]}: {error}") from error


def run(args: argparse.Namespace) -> int:
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    places = np.arange(args.mib << 18, dtype=np.int32)
    result = np.empty_like(places)
    library = opened(args.library)
    gpu = Gpu(places.nbytes)
    nccl = Nccl(library, rank, ranks)
    print(f"NCCL {nccl.version} from {args.library}", flush=True)
    record = Record()
    for step in range(args.steps):
        base = (places + step) % 1009
        gpu.put(base * np.int32(rank + 1))
        nccl.all_reduce(gpu, places.size)
        gpu.get(result)
        wrong = int((result != base * np.int32(ranks * (ranks + 1) // 2)).sum())
        record.step(step, result.tobytes())
        if wrong:
            print(f"step {step}: {wrong} wrong elements", file=sys.stderr)
            return 1
    record.end()
    nccl.destroy()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="libnccl.so.2", help="NCCL's library (default: the one the loader finds)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--mib", type=int, default=64, help="size of one all-reduce")
    try:
        return run(parser.parse_args())
    except Failed as error:
        print(f"any_nccl: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
