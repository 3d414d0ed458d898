"""Labels that no classifier can learn are refused before the fit, with what to do."""

from __future__ import annotations

import numpy as np
import pytest
from cli_files import done, failed, run

from lineal.cli.labels import check_values
from lineal.errors import DataError


def table(path, labels, name="price"):
    rng = np.random.default_rng(0)
    path.write_text("\n".join([f"a,b,{name}", *(f"{rng.random():.3f},{rng.random():.3f},{one}" for one in labels)]))
    return path


@pytest.mark.parametrize("command", [("train",), ("path",), ("train", "--online")])
@pytest.mark.parametrize(
    ("labels", "what"),
    [
        ([f"{i * 1.25:.2f}" for i in range(30)], "30 different numbers (0, 1.25, 2.5, …), of which some are not whole"),
        ([str(i * 7) for i in range(1001)], "1001 different numbers (0, 7, 14, …), most of which occur once or twice"),
    ],
)
def test_numbers_to_predict_are_refused(command, labels, what, tmp_path, monkeypatch):
    monkeypatch.setattr("lineal.cli.train.fit_rows", None)  # nothing may be fitted
    rows = table(tmp_path / "t.csv", labels)
    message = failed(*command, rows, "-m", tmp_path / "m", "--label", "price")
    assert f"the label column 'price' of {rows} has {what}" in message
    assert "--label" in message
    assert "--online --regression" in message
    assert "--classify" in message
    assert not (tmp_path / "m").exists()


def test_text_formats_are_checked_too(tmp_path):
    rows = tmp_path / "t.svm"
    rows.write_text("".join(f"{i * 0.5} 1:1\n" for i in range(40)))
    message = failed("train", rows, "-m", tmp_path / "m")
    assert f"the label of {rows} has 40 different numbers" in message
    assert "name another label column" not in message


def test_override(tmp_path):
    rows = table(tmp_path / "t.csv", [f"{i % 21 + 0.5}" for i in range(63)])
    assert "--classify" in failed("train", rows, "-m", tmp_path / "m")
    done("train", rows, "-m", tmp_path / "m", "--classify", "--max-iter", "1", "--quiet")
    message = failed("train", "--online", rows, "-m", tmp_path / "m", "--classify", "--regression")
    assert "--classify is for labels of which nothing else is said" in message


@pytest.mark.parametrize(
    "labels",
    [
        np.repeat(np.arange(2000), 3),  # many classes with several rows each
        np.arange(1000),  # few enough
        np.arange(20) + 0.5,
        np.array([str(i) for i in range(2000)]),
    ],
)
def test_classes_are_accepted(labels):
    check_values(labels, None, "t.csv", classify=False)


def test_labels_that_are_missing_do_not_count():
    with pytest.raises(DataError, match="21 different numbers"):
        check_values(np.append(np.arange(21) + 0.5, np.nan), None, "t.vw", classify=False)


@pytest.mark.parametrize("command", ["train", "path"])
def test_constant_label(command, tmp_path):
    rows = table(tmp_path / "t.csv", ["x"] * 30, "label")
    message = failed(command, rows, "-m", tmp_path / "m")
    assert f"the label column 'label' of {rows} has only one value, 'x'" in message
    assert "--label" in message


@pytest.mark.parametrize("as_classes", [False, True])
def test_constant_label_of_a_stream(as_classes, tmp_path):
    rows = table(tmp_path / "t.csv", ["x"] * 30, "label")
    extra = ("--classes", "x,y") if as_classes else ()
    result = run("train", "--online", rows, "-m", tmp_path / "m", "--quiet", *extra)
    assert result.exit_code == 0
    assert ("all labels are 'x'" in result.stderr) is not as_classes


def test_rate_is_a_number_or_tune(tmp_path):
    rows = table(tmp_path / "t.csv", ["x", "y"] * 15, "label")
    assert "rate: tune" not in done("train", "--online", rows, "-m", tmp_path / "m", "--rate", "tune").stdout
    assert "rate: 0.25" in done("train", "--online", rows, "-m", tmp_path / "m", "--rate", "0.25").stdout
    assert "is not a finite number > 0" in failed("train", "--online", rows, "-m", tmp_path / "m", "--rate", "fast")


def test_labels_are_printed_as_predict_writes_them(tmp_path):
    rows, model = tmp_path / "rows.csv", tmp_path / "m"
    for names in (("false", "true"), ("0.5", "1234567.5")):
        rows.write_text("a,label\n" + "".join(f"{i},{names[i > 9]}\n" for i in range(20)))
        done("train", rows, "-m", model, "--label", "label", "--quiet", "--classify")
        first, second = sorted(set(done("predict", model, rows).stdout.split()), key=str.lower)
        lines = [line.split("\t") for line in done("evaluate", model, rows).stdout.splitlines()]
        assert lines[-3] == ["true", first, second]
        assert [line[0] for line in lines[-2:]] == [first, second]
        assert done("inspect", model).stdout.splitlines()[-1].startswith(f"{second}\ta\t")
        assert f"\n{second}\t10\t50.0%" in done("inspect", rows, "--label", "label").stdout


def test_rows_with_several_labels_need_flags_that_a_message_names(tmp_path):
    rows = tmp_path / "t.svm"
    rows.write_text("1 1:1\n1,2 2:1\n" * 20)
    line = ("train", "--online", rows, "-m", tmp_path / "m")
    assert "say --label-sets and name the labels (--classes 1,2,3), or read" in failed(*line)
    assert "classes: 2" in done(*line, "--label-sets", "--classes", "1,2").stdout
