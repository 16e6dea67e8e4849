"""Builds what runs on the hosts from the patched NCCL and our C++."""

from harness.build.nccl import NcclBuild, build_nccl
from harness.build.nccl_tests import NcclTestsBuild, build_nccl_tests
from harness.build.net import NetBuild, build_net, run_target

__all__ = ["NcclBuild", "NcclTestsBuild", "NetBuild", "build_nccl", "build_nccl_tests", "build_net", "run_target"]
