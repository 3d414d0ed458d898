"""Numba's private names that lineal uses, in one place, and the versions of Numba that they were tested with.

Numba may rename or change what is not public in any minor version (the second number). A newer version could therefore
fail with an obscure error, or load a cached kernel that it should have compiled again. So a version beyond the tested
one is refused here, before any private name is touched. To allow the next version: install it, raise `NEWEST` and the
upper bound in pyproject.toml, and run the whole test suite.

===========================  =====================================================================================
``caching._Cache``           the interface of the disk cache, which `lineal.core.jit` implements with its own files
``Cache._index_key``         what a cached kernel depends on besides its sources: signature, CPU, closure
``CompileResult._rebuild``   turns the contents of a cached file back into a kernel
``serialize.dumps``          the inverse: Numba's pickle of a compiled kernel
``CompileResult._reduce``    what is pickled; the first part is machine code and bitcode (`lineal.core.slim`)
``Environment``              constants that a kernel may refer to, beside the names of the module of a function in it
``rtsys``                    defines the functions that compiled code calls for its arrays; loading needs no more
``event``                    tells when a compilation begins and ends
``_OverloadMethodTemplate``  how ``thing.method(…)`` finds its method inside a kernel (`lineal.core.protocol`), and
                             ``_OverloadFunctionTemplate`` how the method is typed and inlined there
``ConfigStack``              settings of the kernel that is being compiled, on which types of methods may depend
``_nrt``                     an option of `njit`: leave out reference counts (`lineal.core.jit.kernel`)
===========================  =====================================================================================
"""

from __future__ import annotations

import re
from typing import Any

import numba

from lineal.errors import DependencyError

#: The newest minor version of Numba that the test suite has passed with.
NEWEST = (0, 68)


def check_version(version: str) -> None:
    """Refuse a Numba that is newer than the tested ones, with an error that says what to install."""
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if found > NEWEST:
        newest, following = f"{NEWEST[0]}.{NEWEST[1]}", f"{NEWEST[0]}.{NEWEST[1] + 1}"
        raise DependencyError(
            f"lineal.core needs Numba up to version {newest}, but {version} is installed, which was not tested: "
            f"install a tested version with  pip install 'numba<{following}'  or a newer lineal"
        )


check_version(numba.__version__)

# After the check: a newer Numba may not have these any more.
from numba.core import caching, config, event  # noqa: E402
from numba.core.compiler import CompileResult  # noqa: E402
from numba.core.environment import Environment, _rebuild_env  # noqa: E402
from numba.core.runtime import rtsys as runtime  # noqa: E402
from numba.core.serialize import dumps  # noqa: E402
from numba.core.targetconfig import ConfigStack  # noqa: E402
from numba.core.typing import templates  # noqa: E402

#: Numba's settings; its module makes the names when it is imported.
settings: Any = config

CacheInterface = caching._Cache
index_key = caching.Cache._index_key
rebuild_result = CompileResult._rebuild
OverloadMethodTemplate = templates._OverloadMethodTemplate
OverloadFunctionTemplate = templates._OverloadFunctionTemplate
compiler_flags = ConfigStack.top_or_none
rebuild_environment = _rebuild_env

__all__ = [
    "NEWEST",
    "CacheInterface",
    "Environment",
    "OverloadFunctionTemplate",
    "OverloadMethodTemplate",
    "check_version",
    "compiler_flags",
    "dumps",
    "event",
    "index_key",
    "rebuild_environment",
    "rebuild_result",
    "runtime",
    "settings",
]
