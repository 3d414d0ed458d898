"""`make wheel`: a wheel for this platform with compiled kernels, one without them, and the source distribution.

    python wheels/build.py [--dist DIR] [--levels NAME,…] [--keep DIR]

Kernels are compiled for each level of instruction sets that this processor can run, because small fits are run to find
out what to compile. `--keep DIR` keeps what was compiled, so that the next build only compiles what has changed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from lineal.core import levels, shipped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

#: Largest size of a wheel, in MB.
LARGEST = 40.0


def archive(level: str, kernels: Path, cache: Path) -> None:
    """Compile what is common for a level, and write its archive."""
    environment = {
        **os.environ, "NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1",
        "LINEAL_CACHE_DIR": str(cache / level), "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0",
    }  # fmt: skip
    command = [sys.executable, str(HERE / "kernels.py")]
    subprocess.run([*command, "compile"], env=environment, check=True)
    subprocess.run([*command, "collect", str(shipped.path_of(level, kernels))], env=environment, check=True)


def main() -> None:
    """Compile and build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the distributions go")
    parser.add_argument("--levels", type=lambda text: text.split(","), help="of the levels that this processor has")
    parser.add_argument("--keep", type=Path, help="folder of kernels that were compiled before")
    arguments = parser.parse_args()
    wanted = arguments.levels or list(levels.of_this_machine())
    missing = [level for level in wanted if level not in levels.of_this_machine()]
    if missing or not wanted:
        parser.error(f"this processor has {', '.join(levels.of_this_machine()) or 'no level'}, not {missing}")
    with TemporaryDirectory() as folder:
        kernels = Path(folder) / "kernels"
        kernels.mkdir()
        cache = (arguments.keep or Path(folder) / "cache").resolve()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(partial(archive, kernels=kernels, cache=cache), wanted))
        _build("--sdist", arguments.dist)
        _build("--wheel", arguments.dist)
        _build("--wheel", arguments.dist, LINEAL_KERNELS=str(kernels))
    for path in sorted(arguments.dist.iterdir()):
        megabytes = path.stat().st_size / 1e6
        print(f"{path}: {megabytes:.1f} MB")
        if megabytes > LARGEST:
            sys.exit(f"{path.name} is larger than {LARGEST:g} MB")


def _build(kind: str, dist: Path, **environment: str) -> None:
    command = [sys.executable, "-m", "build", kind, "--outdir", str(dist), str(ROOT)]
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
