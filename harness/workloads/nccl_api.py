"""NCCL's own C interface by ctypes, as far as the lifecycle of communicators takes it: facts from nccl.h of 2.29."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

SUCCESS, IN_PROGRESS = 0, 7
FLOAT32, SUM = 7, 0
SHRINK_DEFAULT, SHRINK_ABORT = 0, 1
MAGIC, UNDEFINED = 0xCAFEBEEF, -(2**31)
POLL_S = 0.001
NAMES = (
    "ncclGetVersion", "ncclGetErrorString", "ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommSplit",
    "ncclCommShrink", "ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort", "ncclCommGetAsyncError",
    "ncclGroupStart", "ncclGroupEnd", "ncclAllReduce", "ncclSend", "ncclRecv", "ncclGetLastError",
)  # fmt: skip


class UniqueId(ctypes.Structure):
    """ncclUniqueId; passed by value."""

    _fields_ = [("internal", c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t as of 2.28 and 2.29; a library that knows less of it goes by `size` and `version`."""

    _fields_ = [
        ("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int), ("cgaClusterSize", c_int),
        ("minCTAs", c_int), ("maxCTAs", c_int), ("netName", c_char_p), ("splitShare", c_int), ("trafficClass", c_int),
        ("commName", c_char_p), ("collnetEnable", c_int), ("CTAPolicy", c_int), ("shrinkShare", c_int),
        ("nvlsCTAs", c_int), ("nChannelsPerNetPeer", c_int), ("nvlinkCentricSched", c_int), ("graphUsageMode", c_int),
        ("numRmaCtx", c_int),
    ]  # fmt: skip


def config(version: int, *, blocking: bool) -> Config:
    """NCCL_CONFIG_INITIALIZER, and whether calls wait."""
    unset = {field[0]: UNDEFINED for field in Config._fields_[3:] if field[1] is c_int}
    return Config(**{**unset, "size": ctypes.sizeof(Config), "magic": MAGIC, "version": version, "blocking": blocking})


class NcclError(RuntimeError):
    """A call did not return ncclSuccess; says which, and NCCL's own words."""


def _library(path: str | None) -> ctypes.CDLL:
    """`path`, or what this process has already: preloaded, or loaded by torch. Raises ValueError: there is none."""
    try:
        found = ctypes.CDLL(path)
        if path is None and not hasattr(found, NAMES[0]):
            found = ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD)
    except OSError as error:
        raise ValueError(f"no NCCL to call: {error}") from error
    missing = [name for name in NAMES if not hasattr(found, name)]
    if missing:
        raise ValueError(f"{path or 'the NCCL of this process'} has no {', '.join(missing)}; it takes 2.27 or later")
    return found


class Nccl:
    """The library that torch runs on (or `path`). Every call raises NcclError unless it succeeds."""

    def __init__(self, path: str | None = None, limit_s: float = 30.0) -> None:
        self._lib = _library(path)
        self._limit_s = limit_s
        self._lib.ncclGetErrorString.restype = self._lib.ncclGetLastError.restype = c_char_p
        number = c_int()
        self._call("ncclGetVersion", byref(number))
        self.version = number.value

    def _call(self, name: str, *words: Any, comm: Comm | None = None) -> None:
        """Waits for a communicator that does not block until it has done what it was asked for."""
        code = getattr(self._lib, name)(*words)
        if code == IN_PROGRESS and comm is not None:
            code = self._settled(comm, name)
        if code != SUCCESS:
            raise NcclError(f"{name}: {self._lib.ncclGetErrorString(code).decode()} ({code})")

    def _settled(self, comm: Comm, name: str) -> int:
        deadline = time.monotonic() + self._limit_s
        while True:
            state = c_int()
            self._call("ncclCommGetAsyncError", comm.handle, byref(state))
            if state.value != IN_PROGRESS:
                return state.value
            if time.monotonic() > deadline:
                raise NcclError(f"{name}: in progress for {self._limit_s:g} s")
            time.sleep(POLL_S)

    def unique_id(self) -> bytes:
        found = UniqueId()
        self._call("ncclGetUniqueId", byref(found))
        return ctypes.string_at(byref(found), ctypes.sizeof(found))

    def init(self, ranks: int, told: bytes, rank: int, *, blocking: bool = True) -> Comm:
        wanted = UniqueId()
        ctypes.memmove(byref(wanted), told, ctypes.sizeof(wanted))
        comm, how = Comm(self, rank, ranks), config(self.version, blocking=blocking)
        name = "ncclCommInitRankConfig"
        self._call(name, byref(comm.handle), c_int(ranks), wanted, c_int(rank), byref(how), comm=comm)
        return comm

    def last_error(self) -> str:
        """NCCL's last warning in this process; empty: none."""
        return bytes(self._lib.ncclGetLastError(None) or b"").decode(errors="replace")

    def group(self, *, start: bool) -> None:
        self._call("ncclGroupStart" if start else "ncclGroupEnd")


class Comm:
    """A communicator; `rank` of `ranks` in it."""

    def __init__(self, nccl: Nccl, rank: int, ranks: int) -> None:
        self._nccl, self.rank, self.ranks = nccl, rank, ranks
        self.handle = c_void_p()

    def _call(self, name: str, *words: Any) -> None:
        self._nccl._call(name, *words, comm=self)

    def all_reduce(self, address: int, count: int, stream: int) -> None:
        """In place, float32, sum."""
        data = c_void_p(address)
        self._call("ncclAllReduce", data, data, c_size_t(count), FLOAT32, SUM, self.handle, c_void_p(stream))

    def send(self, address: int, count: int, peer: int, stream: int) -> None:
        self._call("ncclSend", c_void_p(address), c_size_t(count), FLOAT32, peer, self.handle, c_void_p(stream))

    def recv(self, address: int, count: int, peer: int, stream: int) -> None:
        self._call("ncclRecv", c_void_p(address), c_size_t(count), FLOAT32, peer, self.handle, c_void_p(stream))

    def split(self, color: int, key: int, rank: int, ranks: int) -> Comm:
        """`rank` of `ranks` is what the caller will be in it."""
        child = Comm(self._nccl, rank, ranks)
        self._call("ncclCommSplit", self.handle, c_int(color), c_int(key), byref(child.handle), None)
        return child

    def shrink(self, without: Sequence[int], flags: int) -> Comm:
        """All but the ranks `without`, which must not call this; the others keep their order."""
        below = sum(each < self.rank for each in without)
        child = Comm(self._nccl, self.rank - below, self.ranks - len(without))
        left_out = (c_int * len(without))(*without)
        words = (left_out, c_int(len(without)), byref(child.handle), None, c_int(flags))
        self._call("ncclCommShrink", self.handle, *words)
        return child

    def failed(self) -> bool:
        """Whether it has an error of its own accord, as when a peer has gone."""
        state = c_int()
        self._call("ncclCommGetAsyncError", self.handle, byref(state))
        return state.value not in (SUCCESS, IN_PROGRESS)

    def finalize(self) -> None:
        self._call("ncclCommFinalize", self.handle)

    def destroy(self) -> None:
        self._nccl._call("ncclCommDestroy", self.handle)

    def abort(self) -> None:
        self._nccl._call("ncclCommAbort", self.handle)
