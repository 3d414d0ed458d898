"""Compiled kernels without what only a linker or a compiler needs: about two fifths of their size, quicker to load.

Numba keeps a kernel as machine code and, for kernels that call it, as LLVM's bitcode. Kernels that Python calls are not
called by other kernels (`lineal.core.jit` gives those a twin), so all that is used of their bitcode are the names that
it defines, with which Numba finds the machine code.

A kernel also has the environment of each function of Numba that is part of it: constants, and the names of the module
that the function is from. Machine code uses the constants only, but Numba imports the module, and with it most of what
it needs to compile anything: half as long as all other imports of a short program.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

import llvmlite.binding as llvm

from lineal.core.numba_internals import Environment, rebuild_environment


def without_bitcode(data: Any) -> Any:
    """What Numba saves of a kernel, with bitcode that defines the same names and nothing else."""
    (name, kind, content), *rest = data
    if kind != "object":
        return data
    machine_code, bitcode = content
    return (name, kind, (machine_code, _names_of(bitcode))), *rest


def _names_of(bitcode: bytes) -> bytes:
    module = llvm.parse_bitcode(bitcode)
    functions = [f"define void @{_quoted(one.name)}() {{ unreachable }}" for one in _defined(module.functions)]
    variables = [f"@{_quoted(one.name)} = global i8 0" for one in _defined(module.global_variables)]
    names: bytes = llvm.parse_assembly("\n".join((*functions, *variables))).as_bitcode()
    return names


def _defined(values: Any) -> list[Any]:
    return [one for one in values if not one.is_declaration]


def _quoted(name: str) -> str:
    """A name in LLVM's assembly, where bytes that are not plain are written as \\xx."""
    plain = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02x}" for byte in name.encode())
    return f'"{"".join(plain)}"'


def loaded(content: bytes) -> Any:
    """What Numba saved of a kernel, without importing more of Numba than there is."""
    return _Unpickler(io.BytesIO(content)).load()


class _Unpickler(pickle.Unpickler):
    """Unpickler that knows another way to rebuild environments."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle refers to."""
        found = super().find_class(module, name)
        return _environment if found is rebuild_environment else found


def _environment(module: str, constants: Any, name: str) -> Any:
    """Environment of a function; without the names of its module, if that is one of Numba's that nobody has used."""
    if module in sys.modules or not module.startswith("numba."):
        return rebuild_environment(module, constants, name)
    made = Environment({"__name__": module})
    made.consts[:] = constants
    made.env_name = name
    return made
