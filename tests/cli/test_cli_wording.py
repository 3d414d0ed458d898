"""Messages of the library name options; on the command line they name flags."""

from __future__ import annotations

import pytest
from cli_files import failed, write_iris

from lineal.cli.wording import for_command_line


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("missing='zero' does not apply to svmlight files", "--missing zero does not apply to svmlight files"),
        ("allow it: missing='zero', 'mean' or 'indicator'", "allow it: --missing zero, mean or indicator"),
        ("alpha=-1.0 is not a finite number ≥ 0", "--alpha -1.0 is not a finite number ≥ 0"),
        ("l1=1e-05 and tau=nan; bits=18.", "--l1 1e-05 and --tau nan; --bits 18."),
        ("train with probability=True, or", "train with --probability, or"),
        ("or fit_intercept=False", "or --no-fit-intercept"),
        ("update='soft max': no", "--update 'soft max': no"),
        ("say format=…", "say --format …"),
        ("leave it out with ignore=doc.body", "leave it out with --ignore doc.body"),
        ("alphas=[1.0, 2.0] is not", "--alphas [1.0, 2.0] is not"),
        ("threshold=[[0, 1], [5, 0]] is not", "--threshold [[0, 1], [5, 0]] is not"),
        ("stopped after max_iter=5: raise max_iter, or", "stopped after --max-iter 5: raise --max-iter, or"),
        ("tol is 0.1; raise tol, or leave out alpha", "tol is 0.1; raise --tol, or leave out --alpha"),
        ("say index_base=0 or index_base=1 (--index-base), the", "say --index-base 0 or --index-base 1, the"),
        ("generator=3, calibration=None", "--features 3, no --calibration"),
        ("solver_options={'a': 1} and", "--solver-option {'a': 1} and"),
        ("loss='softmex' is unknown: did you mean 'softmax'?", "--loss softmex is unknown: did you mean 'softmax'?"),
    ],
)  # fmt: skip
def test_options_become_flags(message, expected):
    assert for_command_line(message, []) == expected


@pytest.mark.parametrize(
    "message",
    [
        "column 'label=3' is missing",  # a name of the data
        "found 'missing=zero' in column \"a alpha=3\"",
        "rows/label=3/part.csv does not exist",
        "./text=a.csv, my-label=3 and x.bits=4",
        "the model's rows and the files' labels",
        "the file max_iter.csv, folder/n_jobs, n_jobs/x and my_max_iter",
        "the label and the weight of bits",  # words, not options
        "spam=2 and colour=red",
        "an apostrophe ' alone",
        "",
    ],
)
def test_other_texts_stay(message):
    assert for_command_line(message, []) == message


def test_options_of_solvers_are_no_flags():
    assert for_command_line("use rate=0.5", ["train", "--solver", "hybrid"]) == "use rate=0.5"
    assert for_command_line("use rate=0.5", ["train", "--online"]) == "use --rate 0.5"


def test_what_the_user_typed_stays():
    message = "label=3.csv does not exist; say format='csv'"
    assert for_command_line(message, ["train", "label=3.csv"]) == "label=3.csv does not exist; say --format csv"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--missing", "null"), "--missing null is unknown"),
        (("--index-base", "0"), "--index-base 0 does not apply to csv files"),
        (("--loss", "softmex"), "--loss softmex is unknown"),
        (("--online", "--bits", "3"), "--bits 3 is not an integer from 10 to 30"),
    ],
)
def test_errors_of_commands(flags, expected, tmp_path):
    rows = write_iris(tmp_path / "iris.csv")
    assert expected in failed("train", rows, "-m", tmp_path / "m", *flags)
