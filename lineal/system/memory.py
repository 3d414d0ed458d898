"""How much memory is available, checked before a fit takes it: the system kills processes that take too much."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lineal.errors import DataError, OptionError

#: Smaller amounts are not checked: asking the system would cost more than it helps.
WORTH_ASKING = 16 << 20


def check_fit(solver: str, needed: int, shape: tuple[int, int], n_columns: int) -> None:
    """Refuse a fit whose weights and workspace do not fit into the available memory."""
    check_room(
        f"{solver} needs {size(needed)} of memory ({needed} bytes) for {shape[1]} features × {n_columns} classes and "
        f"{shape[0]} rows",
        needed,
        "use fewer features (--n-features, --bits), fewer classes or float32 data",
    )


def check_budget(solver: str, needed: int, room: int) -> None:
    """Refuse a fit whose weights and workspace do not fit into what a memory budget leaves for them.

    At least one quarter of what a budget is raised by is for them: the rest is for blocks of rows and their state.
    """
    if needed > room:
        raise DataError(
            f"memory_budget is too small: {solver} needs {size(needed)} besides the rows, and {size(room)} are left "
            f"for it; raise the budget by {4 * (needed - room) // 10**6 + 1}MB"
        )


def check_room(what: str, needed: int, advice: str) -> None:
    """Refuse to take more memory than is available; `what` says what needs how much."""
    available = available_memory() if needed >= WORTH_ASKING else None
    if available is not None and needed > available:
        raise DataError(f"{what}, but only {size(available)} are available: {advice}")


def has_room(needed: int) -> bool:
    """Whether that many bytes are available; True if nothing is known about the machine."""
    available = available_memory() if needed >= WORTH_ASKING else None
    return available is None or needed <= available


def own_memory() -> int | None:
    """Number of bytes that this process holds in memory, without pages of files; None if the system does not tell."""
    resident = _named(Path("/proc/self/status"), "RssAnon:")
    return None if resident is None else 1024 * resident


def available_memory(root: str | os.PathLike[str] = "/") -> int | None:
    """Number of bytes that can be taken without harm to other programs; None if nothing is known.

    It is the smallest of three amounts: what the machine has left (its whole memory if only that is known), what the
    control groups of this process (containers, batch jobs) allow, and what its own limits (`ulimit -v`) allow. `root`
    is the folder that holds `proc` and `sys`.
    """
    places = Path(root)
    found = (_of_machine(places), _of_groups(places), _of_limits(places))
    known = [amount for amount in found if amount is not None]
    return min(known, default=None)


def _of_machine(root: Path) -> int | None:
    available = _named(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        return available * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_limits(root: Path) -> int | None:
    """What the limit of the address space of this process leaves; None without a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, used = resource.getrlimit(resource.RLIMIT_AS)[0], _named(root / "proc/self/status", "VmSize:")
    return None if limit == resource.RLIM_INFINITY or used is None else max(limit - 1024 * used, 0)


#: For each version of control groups: where they are mounted, the files with limit and use, and the names of file
#: pages in memory.stat.
_GROUPS = {
    2: ("sys/fs/cgroup", "memory.max", "memory.current", ("inactive_file", "active_file")),
    1: (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
}


def _of_groups(root: Path) -> int | None:
    """What the tightest control group leaves, of this process or above it; None without a limit.

    Pages of files count as use there, but the system gives them back as soon as a program needs them.
    """
    left = []
    for version, path in _own_groups(root):
        mount, limit_name, use_name, file_pages = _GROUPS[version]
        top = root / mount
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # outside of what this container sees
            parts = []
        for depth in range(len(parts), -1, -1):
            group = top.joinpath(*parts[:depth])
            limit, use = _number(group / limit_name), _number(group / use_name)
            if limit is not None and use is not None:
                files = sum(_named(group / "memory.stat", name) or 0 for name in file_pages)
                left.append(max(limit - max(use - files, 0), 0))
    return min(left, default=None)


def _own_groups(root: Path) -> list[tuple[int, str]]:
    """Version and path of the control groups of this process that can limit its memory."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return []
    found = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found.append((2, path))
        elif "memory" in controllers.split(","):
            found.append((1, path))
    return found


def _number(path: Path) -> int | None:
    """The number in a file; None if there is no file, or if it says something else, such as "max" for no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _named(path: Path, name: str) -> int | None:
    """The number after a name at the beginning of a line; None if there is no such line."""
    try:
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == name:
                return int(words[1])
    except (OSError, ValueError):
        pass
    return None


#: Units of `parse_size`, in bytes; those with an i are powers of 1024.
UNITS = {"": 1, "B": 1, **{f"{letter}B": 1000**p for p, letter in enumerate("KMGT", 1)}}
UNITS |= {letter: 1000**p for p, letter in enumerate("KMGT", 1)}
UNITS |= {f"{letter}IB": 1024**p for p, letter in enumerate("KMGT", 1)}


def parse_size(value: str | int) -> int:
    """A number of bytes: an integer, or text such as "500MB", "2GB" or "1.5GiB"."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", str(value))
    unit = None if found is None else UNITS.get(found[2].upper())
    if isinstance(value, bool) or found is None or unit is None:
        raise OptionError(f"memory_budget={value!r} is not a number of bytes: write for example 500MB or 2GB")
    return int(float(found[1]) * unit)


def size(count: int) -> str:
    """A number of bytes as text, with a unit."""
    number = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000.0:
            return f"{number:.4g} {unit}"
        number /= 1000.0
    return f"{number:.4g} TB"
