"""setup.py of the wheel, in the folder that wheel.py makes: it has libraries, but none for one Python alone."""

from __future__ import annotations

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithLibraries(Distribution):
    """What is in it depends on the machine, so it goes to platlib."""

    def has_ext_modules(self) -> bool:
        return True


class AnyPython(bdist_wheel):
    """Programs and NCCL load our libraries; no Python's ABI is in them."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", os.environ["R2CC_WHEEL_PLATFORM"]


setup(distclass=WithLibraries, cmdclass={"bdist_wheel": AnyPython})
