"""The net plugin for Spack. In a checkout: `spack repo add scripts/packages/spack`, `spack dev-build r2cc@main`."""

import glob
import os

from spack.package import *

NCCL = "2.29.7"


class R2cc(MakefilePackage):
    """Net plugin that keeps NCCL's collectives running through NIC and link failures."""

    license("Apache-2.0")
    version("main")  # built from a checkout: `spack dev-build`

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    depends_on("cuda", type="build")  # its headers alone
    requires("%gcc", msg="it is built with g++")

    resource(
        name="nccl",
        git="https://github.com/NVIDIA/nccl.git",
        commit="b91894bd5b190c874d98a017f93f5daa515b65d0",
        placement="spack-nccl",
    )

    build_directory = "r2cc_patches"

    def edit(self, spec, prefix):
        """What `r2cc fork patch` does."""
        patch = which("patch")
        patches = os.path.join(self.stage.source_path, "r2cc_patches", "patches", NCCL, "*.patch")
        with working_dir("spack-nccl"):
            for each in sorted(glob.glob(patches)):
                patch("--strip=1", "--forward", f"--input={each}")

    @property
    def build_targets(self):
        cuda = f"CUDA_INC={self.spec['cuda'].prefix.include}"
        return ["release", "UNITY=1", "NCCL_TREE=../spack-nccl", "BUILD=../build/spack", cuda]

    def install(self, spec, prefix):
        mkdirp(prefix.lib)
        for name in ("net", "progress", "faults"):
            install(os.path.join("build", "spack", "release", f"libr2cc_{name}.so"), prefix.lib)
        symlink("libr2cc_net.so", os.path.join(prefix.lib, "libnccl-net-r2cc.so"))

    def setup_run_environment(self, env):
        env.set("NCCL_NET_PLUGIN", os.path.join(self.prefix.lib, "libr2cc_net.so"))
