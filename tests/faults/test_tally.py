"""Whether the count of faults can fail."""

from __future__ import annotations

from pathlib import Path

pytest_plugins = ("pytester",)


def test_a_fault_that_is_not_fine_fails_its_test(pytester):
    pytester.makeconftest((Path(__file__).parent.parent / "fault_tally.py").read_text())
    pytester.makeini("[pytest]\nmarkers = faults: attempts\n")
    pytester.makepyfile(
        """
        def test_good(tally):
            tally("files").attempt("one")
        def test_bad(tally):
            area = tally("files")
            area.attempt("two")
            area.attempt("three", "returned NaN")
        """
    )
    result = pytester.runpytest("-p", "no:xdist")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*three: returned NaN*", "files * 3 attempts, 1 not fine"])
