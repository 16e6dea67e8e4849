"""Builds what runs on the hosts from the patched NCCL and our C++."""

from harness.build.net import NetBuild, build_net, run_target

__all__ = ["NetBuild", "build_net", "run_target"]
