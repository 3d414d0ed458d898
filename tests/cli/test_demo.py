"""`lineal demo`: what it says is true, and it needs no download."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from cli_files import done

from lineal.cli import demo_rows
from lineal.problem.solution import Certificate


def test_demo():
    text = done("demo").stdout
    assert text.startswith("lineal learns to recognise handwritten digits")
    assert "predictions agree" in text
    assert re.search(r"digits +lineal .* within [0-9.]+ %\n", text)
    assert re.search(r"text +scikit-learn .* within [0-9.]+ %\n", text)
    assert "lineal train" in text
    result = json.loads(done("demo", "--json").stdout)
    for data, tol in (("digits", 1e-4), ("text", 1e-5)):
        ours, theirs = result[data]["results"]
        assert (ours["program"], theirs["program"]) == ("lineal", "scikit-learn")
        assert abs(ours["objective"] - result[data]["certificate"]["primal"]) <= 1e-6 * ours["objective"]
        assert ours["objective"] <= theirs["objective"] * (1 + tol)
        assert 0 <= ours["distance"] <= 1.1 * result[data]["certificate"]["value"] + 1e-6
        assert theirs["distance"] <= 1e-2  # the same objective, at another point
        assert result[data]["certificate"]["value"] <= tol
        assert ours["test_accuracy"] > 0.5
    assert result["reloaded_model_agrees"] is True


def test_both_programs_have_one_thread():
    """In a new process, where no library is loaded yet that could be limited by chance."""
    code = """
from lineal.cli.demo import _one_thread
with _one_thread():
    from lineal.core.threads import thread_count
    import sklearn.linear_model, sklearn.svm, scipy.linalg
    from threadpoolctl import threadpool_info
    found = threadpool_info()
    print(len(found) > 1, {one["num_threads"] for one in found}, thread_count(None))
"""
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "True {1} 1\n"


def test_documentation_rows_are_the_same_each_time_and_no_file_is_on_both_sides(tmp_path):
    (tmp_path / "tests").mkdir()
    for number in range(40):
        paragraph = " ".join(f"word{chr(97 + number % 26)} of some file" for _ in range(4))
        (tmp_path / f"{number}.py").write_text(f'"""{paragraph} {"x" * (number + 2)}\n\nshort\n"""\n')
    (tmp_path / "tests" / "left_out.py").write_text('"""one two three four five six seven eight nine tests"""\n')
    (tmp_path / "broken.py").write_bytes(b'"""\xff"""')
    found = list(demo_rows._paragraphs(tmp_path))
    assert found == list(demo_rows._paragraphs(tmp_path))
    assert len(found) == 40
    assert sum(is_test for _, is_test in found) in (9, 10, 11)
    assert list(demo_rows._paragraphs(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("primal", "dual", "said"),
    [
        (1.0, 0.99994, "within 0.006 % of the best possible"),
        (0.5176, 0.51759962, "within 0.000073 % of the best possible"),
        (1.0, 1.0, "within 0 % of the best possible"),
        (2.0, 0.5, "within 300 % of the best possible"),
        (1.0, -0.5, "no useful bound yet"),
    ],
)
def test_a_certificate_says_how_close_it_is(primal, dual, said):
    """In percent, without an exponent."""
    text = str(Certificate.of_gap(primal, dual))
    assert said in text
    assert "e-" not in text.partition("(")[0]
