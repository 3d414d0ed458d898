"""Compile the common kernels for one level of instruction sets, and write the archive that a wheel carries.

    python wheels/kernels.py compile            # fills LINEAL_CACHE_DIR
    python wheels/kernels.py collect PATH       # in a second process: what it loads goes to the archive

`wheels/build.py` starts both with the environment that names the level. Kernels that are only parts of others are not
loaded, and so are not in the archive. Some fits choose by the clock: a kernel that only the second process has needed
is compiled then, and is in the archive as well.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lineal.cli import common_fits
from lineal.core import ahead, jit, shipped
from lineal.core.kernel_files import KernelFiles, Key, cache_folder, name_of


def run_tasks() -> None:
    """Run everything that is common, in this process alone."""
    ahead.this.is_on = False
    with TemporaryDirectory() as folder:
        tasks = common_fits.tasks(folder)
        for number, task in enumerate(tasks, start=1):
            print(f"{number}/{len(tasks)} {task.name}: {len(jit.compiled)} compiled", file=sys.stderr, flush=True)
            common_fits.run(task)


def collect(path: Path) -> None:
    """Write the archive of the kernels that the tasks load, or still compile."""
    names: set[str] = set()
    load, save = KernelFiles.load, KernelFiles.save

    def loaded(files: KernelFiles, key: Key) -> Any:
        found = load(files, key)
        if found is not None:
            names.add(name_of(files.base, key))
        return found

    def saved(files: KernelFiles, key: Key, data: Any) -> None:
        names.add(name_of(files.base, key))
        save(files, key, data)

    KernelFiles.load, KernelFiles.save = loaded, saved  # type: ignore[method-assign]
    run_tasks()
    folder = cache_folder()
    assert folder is not None
    shipped.write(path, {name: (folder / name).read_bytes() for name in names})
    late = f", {len(jit.compiled)} of them compiled late" if jit.compiled else ""
    print(f"{path}: {len(names)} kernels, {path.stat().st_size / 1e6:.1f} MB{late}")


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        run_tasks()
    else:
        collect(Path(sys.argv[2]))
