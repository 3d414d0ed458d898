"""The wheel, built and installed in an environment of its own: it compiles nothing, and nothing makes it fail.

Building it compiles all common kernels for one level, which takes minutes; the next run compiles what has changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from lineal.core import levels, shipped

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

#: Fits as users write them, on other rows than those that the kernels were collected with.
FITS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from scipy import sparse
import lineal
from lineal import dropin
from lineal.core import jit, shipped

rng = np.random.default_rng(1)
results, missing = {}, {}

def fit(name, model, X, y):
    before = len(jit.compiled)
    model.fit(X, y)
    predicted = np.asarray(model.predict(X))
    if hasattr(model, "predict_proba"):
        model.predict_proba(X[:1])
    found = getattr(model, "certificate_", None)
    has_objective = found is not None and found.kind != "none"
    results[name] = [float(np.mean(predicted == y)), found.primal if has_objective else None]
    if jit.compiled[before:]:
        missing[name] = jit.compiled[before:]

def tables(n, d, dense):
    for precision in (np.float32, np.float64):
        if dense:
            X = rng.standard_normal((n, d)).astype(precision)
            yield f"C {precision.__name__}", X
            yield f"F {precision.__name__}", np.asfortranarray(X)
        else:
            X = sparse.random_array((n, d), density=10 / d, rng=rng, format="csr", dtype=precision)
            yield f"CSR {precision.__name__}", X

SHAPES = [
    (60, 5, True), (1500, 30, True), (15000, 80, True), (500, 1200, True), (300, 40, False), (3000, 30000, False),
]
"""
DEFAULTS = (
    FITS
    + """
for n, d, dense in SHAPES:
    for kind, X in tables(n, d, dense):
        for k in (2, 3, 20):
            y = rng.permutation(np.arange(n) % k)
            models = {
                "LinearClassifier": lineal.LinearClassifier(), "logistic": lineal.LinearClassifier("logistic"),
                "softmax": lineal.LinearClassifier("softmax"),
                "l1/l2": lineal.LinearClassifier(penalty="l1/l2", alpha=1e-2),
                "hinge": lineal.LinearClassifier("hinge", max_iter=50),
                "LogisticRegression": dropin.LogisticRegression(), "LinearSVC": dropin.LinearSVC(),
                "RidgeClassifier": dropin.RidgeClassifier(), "SGDClassifier": dropin.SGDClassifier(max_iter=50),
                "OnlineClassifier": lineal.OnlineClassifier(), "LeastSquares": lineal.LeastSquaresClassifier(),
                "passes": lineal.OnlineClassifier(passes=3),
            }
            if d > 5000:
                del models["LeastSquares"]  # a d x d matrix
            if n <= 500:
                models["CV"] = lineal.LinearClassifierCV(n_alphas=4, cv=3, random_state=0)
            for name, model in models.items():
                fit(f"{name}, {n} x {d}, {kind}, {k} classes", model, X, y)
    if dense and n == 1500:
        fit("Stagewise", lineal.StagewiseClassifier(n_blocks=2, random_state=0), X, y)
print(json.dumps({"missing": missing, "level": shipped.find().archive and shipped.find().archive.level}))
"""
)
SOME = (
    FITS
    + """
X = sparse.random_array((400, 300), density=0.05, rng=rng, format="csr")
y = rng.integers(0, 3, 400)
fit("sparse", lineal.LinearClassifier(tol=1e-6, random_state=0), X, y)
fit("dense", lineal.LinearClassifier("softmax", tol=1e-6), X.toarray()[:, :20], y)
fit("online", lineal.OnlineClassifier(), X, y)
fit("drop-in", dropin.LinearSVC(), X, y)
W = lineal.LinearClassifier(tol=1e-6, random_state=0).fit(X, y).coef_
print(json.dumps({"missing": missing, "results": results, "weights": W.tolist(), "versions": shipped.versions()}))
"""
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, request):
    """The wheel for the best level of this machine: one that is there (LINEAL_WHEEL names it), or a new one."""
    if not levels.of_this_machine():
        pytest.skip("no kernels are shipped for this kind of processor")
    if "LINEAL_WHEEL" in os.environ:
        wheel = Path(os.environ["LINEAL_WHEEL"])
    else:
        dist, keep = tmp_path_factory.mktemp("dist"), request.config.cache.mkdir("wheel-kernels")
        build = [sys.executable, str(ROOT / "wheels" / "build.py"), "--dist", str(dist), "--keep", str(keep)]
        subprocess.run(
            [*build, "--levels", levels.of_this_machine()[0]], check=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        (wheel,) = (path for path in dist.glob("*.whl") if "none-any" not in path.name)
    assert wheel.stat().st_size < 40e6
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The interpreter of a new environment with the wheel, and with the packages of this one that it needs."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files are not read
    return python, site


def run(python: Path, code: str, cache: Path | str, **environment: str) -> tuple[dict, str]:
    """The JSON that the code prints, and what it writes to standard error."""
    left_out = ("PYTHONPATH", "NUMBA_CPU_NAME")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, cwd="/", check=False,
        env={**inherited, "LINEAL_CACHE_DIR": str(cache), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_defaults_compile_nothing(installed):
    """With no place for a cache: what is missing in the wheel could come from nowhere."""
    python, site = installed
    assert (
        site in Path(run(python, "import json, lineal; print(json.dumps(lineal.__file__))", "/dev/null/x")[0]).parents
    )
    found, said = run(python, DEFAULTS, "/dev/null/none")
    assert found["missing"] == {}
    assert found["level"] == levels.of_this_machine()[0]
    assert said == ""


def test_results_are_those_of_freshly_compiled_kernels(installed, tmp_path):
    python, _ = installed
    shipped_ones, said = run(python, SOME, tmp_path / "empty")
    assert (shipped_ones["missing"], said) == ({}, "")
    level = {"NUMBA_CPU_NAME": levels.of_this_machine()[0], "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}
    same_level, _ = run(python, SOME, tmp_path / "level", **level)
    assert same_level["missing"]
    assert (same_level["results"], same_level["weights"]) == (shipped_ones["results"], shipped_ones["weights"])
    this_processor, _ = run(python, SOME, tmp_path / "native", LINEAL_SHIPPED_KERNELS="0")
    for name, (accuracy, primal) in this_processor["results"].items():
        assert shipped_ones["results"][name][0] == pytest.approx(accuracy, abs=0.01)
        if primal is not None:
            assert shipped_ones["results"][name][1] == pytest.approx(primal, rel=1e-6)


def changed(installed, folder: Path) -> tuple[Path, Path]:
    """A copy of the installed package that can be damaged, as a folder for PYTHONPATH, and its archive."""
    shutil.copytree(installed[1] / "lineal", folder / "lineal", ignore=shutil.ignore_patterns("__pycache__"))
    (archive,) = (folder / "lineal" / "core" / "shipped_kernels").glob("*.kernels")
    return folder, archive


@pytest.mark.parametrize("damage", ["empty", "half", "index", "kernels"])
def test_a_damaged_archive_costs_time_and_at_most_one_line(installed, tmp_path, damage):
    folder, archive = changed(installed, tmp_path / "copy")
    content = archive.read_bytes()
    length = int.from_bytes(content[len(shipped.MAGIC) :][: shipped.LENGTH_BYTES], "little")
    first = len(shipped.MAGIC) + shipped.LENGTH_BYTES + shipped.CHECKSUM_BYTES + length
    noise = bytes(255 - byte for byte in content[first : first + 100_000])
    archive.write_bytes({
        "empty": b"",
        "half": content[: len(content) // 2],
        "index": content[:60] + b"\0" * 40 + content[100:],
        "kernels": content[:first] + noise + bytes(len(content) - first - len(noise)),
    }[damage])  # fmt: skip
    found, said = run(installed[0], SOME, tmp_path / "cache", PYTHONPATH=str(folder))
    assert found["missing"]
    assert found["results"]["sparse"][0] > 0.4
    assert said.count("\n") <= 1
    assert ("damaged" in said) == (damage in ("empty", "index"))
    again, said = run(installed[0], SOME, tmp_path / "cache", PYTHONPATH=str(folder))
    assert (again["missing"], said) == ({}, "")
    assert again["weights"] == found["weights"]


def test_another_version_of_numba_and_an_older_processor(installed, tmp_path):
    """The kernels are compiled, and one line says why."""
    older = "import numba; numba.__version__ = '0.68.0rc9'\n"
    found, said = run(installed[0], older + SOME, tmp_path / "numba")
    assert found["missing"]
    assert re.fullmatch(r"lineal: .* made for numba \S+, and 0.68.0rc9 is installed; pip install numba==\S+ .*\n", said)
    below = (
        "import llvmlite.binding as b\n"
        "b.get_host_cpu_features = lambda: b.targets.FeatureMap({'sse2': True, 'avx': False})\n"
    )
    found, said = run(installed[0], below + SOME, tmp_path / "processor")
    assert found["missing"]
    assert re.fullmatch(r"lineal: .* this processor has none of the instruction sets \S+\n", said)


def test_a_full_disk(installed, tmp_path):
    """/dev/full stands for a disk that has no room: kernels that the wheel does not have are compiled, and not kept."""
    full = (
        "import io, lineal.core.kernel_files as k\n"
        "def no_room(*given, **names): raise OSError(28, 'No space left on device')\n"
        "k.whole_file = no_room\n"
    )
    found, said = run(installed[0], full + SOME, tmp_path / "full", LINEAL_SHIPPED_KERNELS="0")
    assert found["missing"]
    assert said.count("\n") <= 1
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o500)
    shipped_ones, said = run(installed[0], SOME, folder)
    assert (shipped_ones["missing"], said) == ({}, "")


def test_two_processes_at_once(installed, tmp_path):
    """They compile the same kernels into the same empty cache, and both succeed; a third one compiles nothing."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"LINEAL_CACHE_DIR": str(tmp_path), "LINEAL_SHIPPED_KERNELS": "0"}
    both = [
        subprocess.Popen([installed[0], "-c", SOME], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True)
        for _ in range(2)
    ]
    outputs = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], outputs
    assert [said for _, said in outputs] == ["", ""]
    first, second = (json.loads(out) for out, _ in outputs)
    assert first["weights"] == second["weights"]
    third, _ = run(installed[0], SOME, tmp_path, LINEAL_SHIPPED_KERNELS="0")
    assert (third["missing"], third["weights"]) == ({}, first["weights"])
