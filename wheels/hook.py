"""Hatch's hook: with LINEAL_KERNELS, a folder of archives, the wheel carries them and is for this platform only."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Numba's own wheels need this version of the C library.
GLIBC = "manylinux_2_28"


class KernelsHook(BuildHookInterface):
    """Puts archives of kernels beside the code that loads them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder, if there is one."""
        folder = os.environ.get("LINEAL_KERNELS")
        if not folder or version == "editable":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{sys.version_info[0]}{sys.version_info[1]}-none-{_platform()}"
        build_data["force_include"][folder] = "lineal/core/shipped_kernels"


def _platform() -> str:
    if sys.platform == "linux":
        return f"{GLIBC}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
