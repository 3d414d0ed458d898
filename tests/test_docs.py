"""The documentation is true: its code blocks run, its outputs are what it says, its tables name what there is.

Every page runs in a process and a folder of its own, block by block: Python blocks share one namespace, bash and
console blocks run in the shell. A block below ``<!-- not run: reason -->`` is left out. What is checked:

- ``expression  # → text`` in Python: the value's repr, or what it prints; more lines may follow as ``# → text``;
- ``# → text`` in bash: a line of the block's standard output, in this order;
- in a console block, the lines below ``$ command``: all of its output.

"…" stands for any text. A Python block whose first line is ``# file: path`` is not run, but written to that file.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "bash", "console")
MARK = "# →"
FILE = "# file: "
NOT_RUN = re.compile(r"<!-- not run: \S.*-->")

#: Pages that compile kernels which nothing else needs.
LONG = (
    "which-model.md", "small-models.md", "CONTRIBUTING.md", "multi-label.md", "command-line.md", "probabilities.md",
    "ill-conditioned.md", "models.md",
)  # fmt: skip

#: Seconds that a page may take, kernels compiled anew included.
TIMEOUT = 600


class Block(NamedTuple):
    """A fenced block: its language, its text, the line of the page where it starts, whether it is to be run."""

    language: str
    text: str
    line: int
    runs: bool


def blocks_of(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    above, at = "", 0
    while at < len(lines):
        fence = re.match(r"(`{3,})(\w*)", lines[at])
        if not fence:
            above, at = lines[at].strip() or above, at + 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i].rstrip() == fence[1])
        yield Block(fence[2], "\n".join(lines[at + 1 : end]) + "\n", at + 2, not NOT_RUN.fullmatch(above))
        above, at = "", end + 1


def agree(expected: str, found: str) -> bool:
    """Whether a text is as told, with "…" for whatever it may be."""
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, found.strip(), re.DOTALL) is not None


def run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run a block statement by statement, and compare what the marked ones say."""
    lines = block.text.splitlines()
    if lines[0].startswith(FILE):
        path = Path(lines[0].removeprefix(FILE))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return
    for statement in ast.parse(block.text, str(page)).body:
        expected = told(lines, statement.end_lineno or 0)
        # Numba finds a function's source by its line, so that line numbers must be those of the page.
        ast.increment_lineno(statement, block.line - 1)
        if expected is None:
            exec(compile(ast.Module([statement], []), str(page), "exec"), names)
            continue
        assert isinstance(statement, ast.Expr), f"{page}:{statement.lineno}: {MARK} needs an expression"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = eval(compile(ast.Expression(statement.value), str(page), "eval"), names)
        found = printed.getvalue() if value is None else repr(value)
        assert agree(expected, found), f"{page.name}:{statement.lineno}: told {expected!r}, found {found.strip()!r}"


def told(lines: list[str], end: int) -> str | None:
    """What a page says that the statement ending on line `end` gives."""
    first = lines[end - 1].partition(MARK)
    texts = [first[2].strip()] if first[1] else []
    for line in lines[end:]:
        if not line.startswith(MARK):
            break
        texts.append(line.removeprefix(MARK).strip())
    return "\n".join(texts) if texts else None


def shell(text: str) -> str:
    """Standard output of a script."""
    ran = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True)
    assert ran.returncode == 0, f"exit code {ran.returncode} of:\n{text}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def run_bash(block: Block, page: Path) -> None:
    """Run a block and look for the lines that it tells."""
    found = iter(shell(block.text).splitlines())
    for line in block.text.splitlines():
        if line.startswith(MARK):
            wanted = line.removeprefix(MARK)
            assert any(agree(wanted, other) for other in found), f"{page.name}:{block.line}: no line {wanted.strip()!r}"


def run_console(block: Block, page: Path) -> None:
    """Run the commands of a block one by one and compare all that they print."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        found = shell(command)
        assert agree(expected, found), f"{page.name}:{block.line}: $ {command}\ntold:\n{expected}\nfound:\n{found}"


def run_page(page: Path) -> None:
    """Run all blocks of a page, in the current folder."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if not block.runs:
            continue
        if block.language == "python":
            run_python(block, page, names)
        elif block.language == "bash":
            run_bash(block, page)
        elif block.language == "console":
            run_console(block, page)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in LONG else ())
        for page in PAGES
        if any(block.language in RUN and block.runs for block in blocks_of(page))
    ],
    ids=name_of,
)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, __file__, str(page)], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_name_their_language(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language, f"{name_of(page)}:{block.line}: the block names no language"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.partition("#")[0]).exists(), f"{name_of(page)} links to {target}"


def parts() -> list[str]:
    from lineal import losses, penalties, solvers

    return [*losses.names(), *penalties.names(), *solvers.names()]


def reading_options() -> list[str]:
    from lineal.data.options import ReadOptions

    return [field.name for field in dataclasses.fields(ReadOptions)]


def training_flags() -> list[str]:
    from lineal.cli.flags import flag_of
    from lineal.linear.options import TrainOptions
    from lineal.system.options import OF_FEATURES

    left_out = ("verbose", *OF_FEATURES)
    names = [field.name for field in dataclasses.fields(TrainOptions) if field.name not in left_out]
    return [flag_of(name) for name in names]


def solver_options() -> list[str]:
    from lineal.solvers.options import OPTIONS

    fields = [field for options in OPTIONS.values() for field in dataclasses.fields(options)]
    return [*OPTIONS, *(name for field in fields for name in (field.name, *field.metadata.get("choices", ())))]


def commands() -> list[str]:
    from lineal.cli.app import app

    return [f"lineal {command.name or command.callback.__name__}" for command in app.registered_commands]


def statuses() -> list[str]:
    return ["converged", "max_iter", "max_time", "stopped", "interrupted", "stalled", "one pass"]


@pytest.mark.parametrize(
    ("page", "names_of"),
    [
        ("README.md", parts),
        ("README.md", commands),
        ("docs/guide/objectives.md", parts),
        ("docs/guide/data.md", reading_options),
        ("docs/guide/command-line.md", training_flags),
        ("docs/guide/command-line.md", commands),
        ("docs/guide/certificates.md", statuses),
        ("docs/guide/which-model.md", solver_options),
    ],
)
def test_pages_leave_nothing_out(page: str, names_of: Callable[[], list[str]]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in names_of() if f"`{name}`" not in text] == []


def test_files_that_are_named_exist() -> None:
    """Backticked names of Python files, in pages and in the package, are ends of paths that exist."""
    sources = [
        path for folder in ("lineal", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
    ]
    known = ["/" + path.relative_to(ROOT).as_posix() for path in sources]
    texts = {path: path.read_text(encoding="utf-8") for path in (*PAGES, *(ROOT / "lineal").rglob("*.py"))}
    named = {(path, name) for path, text in texts.items() for name in re.findall(r"`([\w/]+\.py)`", text)}
    assert len(named) > 100
    missing = [f"{path}: {name}" for path, name in named if not any(one.endswith("/" + name) for one in known)]
    assert sorted(missing) == []


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "lineal").glob("*/**/__init__.py")), ids=lambda path: path.parent.name
)
def test_folders_say_what_they_may_import_and_how_to_add_to_them(folder: Path) -> None:
    text = ast.get_docstring(ast.parse(folder.read_text(encoding="utf-8"))) or ""
    assert re.search(r"\b[Mm]ay import\b", text), f"{folder} does not say what it may import"
    assert re.search(r"\b([Tt]o (add|use)|[Aa]dd|A new)\b", text), f"{folder} does not say how to add to it"


def test_guarantees_name_tests_that_exist() -> None:
    page = (ROOT / "docs" / "guide" / "robustness.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 50
    missing = [
        f"{path}::{name}" for path, name in named if not re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M)
    ]
    assert missing == []


def test_false_claims_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # restored afterwards
    page = tmp_path / "page.md"
    for claim in ("```python\n1 + 1  # → 3\n```", "```bash\necho 2\n# → 3\n```", "```console\n$ echo 2\n3\n```"):
        page.write_text(claim)
        with pytest.raises(AssertionError):
            run_page(page)
        page.write_text(claim.replace("3", "2"))
        run_page(page)
        page.write_text("<!-- not run: it is wrong -->\n" + claim)
        run_page(page)


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    pytest.importorskip("mkdocstrings", reason="the docs extra is not installed")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "WARNING" not in ran.stderr


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("MPLCONFIGDIR", scratch)
        run_page(Path(sys.argv[1]).resolve())
