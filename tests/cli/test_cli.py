"""The commands on good input: the other commands read what one of them has written."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from cli_files import done, failed, label_sets, run, write_digits, write_iris, write_label_sets
from sklearn.datasets import load_digits

import lineal
from lineal.cli import show
from lineal.data.dataset import Dataset
from lineal.data.holdout import split
from lineal.errors import DataError


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A model trained on svmlight rows, those rows, and others."""
    folder = tmp_path_factory.mktemp("digits")
    rows, others = write_digits(folder)
    model = folder / "digits.model"
    done("train", rows, "--model", model, "--loss", "softmax", "--quiet")
    return model, rows, others


def test_svmlight_round_trip(digits):
    model, _, others = digits
    lines = done("predict", model, others).stdout.splitlines()
    data = lineal.read(others, schema=lineal.load(model).schema)
    assert lines == [str(label) for label in lineal.load(model).predict(data.X)]
    result = json.loads(done("evaluate", model, others, "--json").stdout)
    assert result["accuracy"] == pytest.approx(np.mean(np.array(lines, dtype=int) == data.y))
    assert result["accuracy"] > 0.8
    assert len(result["confusion"]["matrix"]) == 10
    assert set(result) >= {"log_loss", "roc_auc", "pr_auc", "brier", "calibration_error", "macro_f1", "micro_f1"}


def test_standard_input_and_small_blocks(digits):
    model, _, others = digits
    expected = done("predict", model, others).stdout
    assert done("predict", model, others, "--block-bytes", "5000").stdout == expected
    piped = done("predict", model, "-", "--format", "svmlight", input=others.read_bytes())
    assert piped.stdout == expected


@pytest.mark.parametrize("kind", ["proba", "scores"])
def test_columns_of_predictions(digits, kind, tmp_path):
    model, _, others = digits
    known = lineal.load(model)
    X = lineal.read(others, schema=known.schema).X
    values = known.predict_proba(X) if kind == "proba" else known.decision_function(X)
    done("predict", model, others, f"--{kind}", "--output", tmp_path / "out.tsv")
    head, *lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert head.split("\t") == [str(c) for c in range(10)]
    assert np.array_equal(np.array([line.split("\t") for line in lines], dtype=float), values)
    rows = [json.loads(line) for line in done("predict", model, others, f"--{kind}", "--json").stdout.splitlines()]
    named = rows[3]["probabilities" if kind == "proba" else "scores"]
    assert list(named.values()) == values[3].tolist()
    assert rows[3]["label"] == known.predict(X)[3]


def test_csv_with_text_labels_and_categories(tmp_path):
    table = write_iris(tmp_path / "iris.csv")
    model, history = tmp_path / "iris.model", tmp_path / "history.json"
    options = ("--label", "kind", "--loss", "softmax", "--class-weight", "setosa=2,virginica=0.5")
    result = json.loads(done("train", table, "-m", model, *options, "--history", history, "--json").stdout)
    assert result["status"] == "converged"
    assert result["training_accuracy"] > 0.9
    assert result["classes"] == 3
    assert set(result["seconds"]) == {"read", "fit", "save", "measure"}
    steps = json.loads(history.read_text())
    assert len(steps) == result["iterations"] + 1
    assert steps[-1]["objective"] == pytest.approx(result["certificate"]["primal"])
    known = lineal.load(model)
    assert known.options["class_weight"] == [["setosa", 2.0], ["virginica", 0.5]]
    assert "colour=red" in known.feature_names
    labels = done("predict", model, table).stdout.split()
    assert set(labels) == {"setosa", "versicolor", "virginica"}
    unlabelled = tmp_path / "new.csv"
    unlabelled.write_text("colour,d,c,b,a\nred,0.2,1.4,3.5,5.1\n")
    assert done("predict", model, unlabelled).stdout == "setosa\n"
    shown = json.loads(done("inspect", model, "--json", "--top", "2").stdout)
    assert [entry["class"] for entry in shown["top_features"]] == ["setosa", "versicolor", "virginica"]
    assert all(len(entry["features"]) == 2 for entry in shown["top_features"])
    assert "colour" in done("inspect", model, "--top", 99).stdout


def test_labels_the_model_does_not_know(tmp_path, digits):
    model, _, others = digits
    extended = tmp_path / "more.svm"
    extended.write_text(others.read_text() + "77 1:0.5\n78 1:0.5\n79 1:1\n")
    result = run("evaluate", model, extended)
    assert result.exit_code == 0
    assert "3 rows have labels the model does not know" in result.stderr


@pytest.mark.parametrize("loss", ["logistic", pytest.param("label_ranking", marks=pytest.mark.slow)])
def test_label_sets(tmp_path, loss):
    rows, model = write_label_sets(tmp_path / "sets.svm"), tmp_path / "sets.model"
    result = json.loads(done("train", rows, "-m", model, "--loss", loss, "--holdout", "0.25", "--json").stdout)
    assert (result["rows"], result["holdout_rows"]) == (60, 20)
    measures = json.loads(done("evaluate", model, rows, "--json").stdout)
    assert measures["label_ranking_average_precision"] > 0.9
    assert measures["subset_accuracy"] > 0.5
    assert done("predict", model, rows, "--scores").stdout.splitlines()[0] == "10\t20\t30"
    known = lineal.load(model)
    predicted = known.predict(lineal.read(rows, schema=known.schema).X)
    lines = done("predict", model, rows).stdout.splitlines()
    assert lines == [",".join(str(10 * (j + 1)) for j in np.flatnonzero(row)) for row in predicted]
    first = json.loads(done("predict", model, rows, "--json").stdout.splitlines()[0])
    assert first == {"labels": [int(name) for name in lines[0].split(",")]}


def test_label_columns_in_another_order(tmp_path):
    X, Y = label_sets()
    np.savez(tmp_path / "train.npz", X=X, y=Y, class_names=np.array(["a", "b", "c"]))
    done("train", tmp_path / "train.npz", "-m", tmp_path / "m", "--loss", "logistic", "--quiet")
    columns = np.column_stack([Y[:, 2], Y[:, 0], np.ones(len(Y)), Y[:, 1]])
    np.savez(tmp_path / "other.npz", X=X, y=columns, class_names=np.array(["c", "a", "new", "b"]))
    expected = done("evaluate", tmp_path / "m", tmp_path / "train.npz", "--json").stdout
    result = done("evaluate", tmp_path / "m", tmp_path / "other.npz", "--json")
    assert result.stdout == expected
    assert "80 labels of the rows are unknown to the model" in result.stderr


def test_arrays_keep_their_precision(tmp_path):
    X, y = load_digits(return_X_y=True)
    path, model = tmp_path / "digits.npz", tmp_path / "digits.model"
    np.savez(path, X=(X[:300] / 16).astype(np.float32), y=y[:300])
    result = json.loads(done("train", path, "-m", model, "--loss", "softmax", "--json").stdout)
    assert result["training_accuracy"] > 0.9
    assert lineal.load(model).weights.dtype == np.float32
    assert json.loads(done("inspect", model, "--json").stdout)["dtype"] == "float32"
    scores = done("predict", model, path, "--scores").stdout.splitlines()[1].split("\t")
    known = lineal.load(model)
    assert np.array_equal(np.array(scores, dtype=np.float32), known.decision_function(lineal.read(path).X)[0])


def test_convert_and_train_on_the_result(digits, tmp_path):
    model, rows, others = digits
    converted = tmp_path / "digits.arrow"
    result = json.loads(done("convert", rows, converted, "--json").stdout)
    assert (result["rows"], result["columns"], result["layout"]) == (400, 64, "sparse")
    assert result["bytes"] == converted.stat().st_size
    assert result["stored_values"] == lineal.read(rows).X.nnz
    again = tmp_path / "again.model"
    done("train", converted, "-m", again, "--loss", "softmax", "--quiet")
    assert done("predict", again, others).stdout == done("predict", model, others).stdout
    assert json.loads(done("evaluate", model, converted, "--json").stdout)["rows"] == 400


def test_arrow_tables(tmp_path):
    table = pa.table({"x": [0.0, 1.0, 0.1, 0.9], "kind": ["no", "yes", "no", "yes"]})
    path, model = tmp_path / "table.arrow", tmp_path / "table.model"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    done("train", path, "-m", model, "--label", "kind", "--loss", "softmax", "--quiet")
    assert done("predict", model, path).stdout.split() == ["no", "yes", "no", "yes"]
    head, *lines = done("predict", model, path, "--scores").stdout.splitlines()
    assert head == "yes"
    assert [float(line) > 0 for line in lines] == [False, True, False, True]
    assert done("predict", model, path, "--proba").stdout.splitlines()[0] == "no\tyes"


def test_a_model_of_arrays_reads_narrow_text(tmp_path):
    estimator = lineal.LinearClassifier(loss="softmax").fit(np.eye(5)[[0, 4, 0, 4]], [0, 1, 0, 1])
    estimator.save(tmp_path / "m")
    (tmp_path / "rows.svm").write_text("0 1:1\n0 2:1\n")
    assert "trained on arrays" in failed("predict", tmp_path / "m", tmp_path / "rows.svm")
    lines = done("predict", tmp_path / "m", tmp_path / "rows.svm", "--index-base", "1").stdout.splitlines()
    assert lines[0] == "0"


def test_validation_and_what_was_skipped(digits, tmp_path):
    _, rows, others = digits
    damaged = tmp_path / "damaged.svm"
    damaged.write_text(rows.read_text() + "1 2:oops\n")
    options = ("--loss", "softmax", "--validate", others, "--max-bad-lines", "1", "--max-iter", "1", "--json")
    result = done("train", damaged, "-m", tmp_path / "m", *options)
    report = json.loads(result.stdout)
    assert report["bad_lines"] == 1
    assert report["validation_rows"] == 200
    assert report["status"] == "max_iter"
    assert "1 malformed lines were skipped" in result.stderr
    assert "raise --max-iter" in result.stderr


def test_output_in_pipes_is_plain(digits, tmp_path):
    model, rows, others = digits
    result = done("train", rows, "-m", tmp_path / "m", "--loss", "softmax", "--holdout", "0.2", "--random-state", 3)
    assert result.stderr == ""
    entries = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert entries["features"] == "64"
    assert "% of the best possible" in entries["certificate"]
    assert "holdout accuracy" in entries
    assert "accuracy: " in done("evaluate", model, others).stdout
    assert done("train", rows, "-m", tmp_path / "m", "--loss", "softmax", "--quiet").output == ""
    assert "iteration" in done("train", rows, "-m", tmp_path / "m", "--loss", "softmax", "--verbose").stderr


def test_tables_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    show.pairs("title", {"a [red]label[/red]": 0.25, "nothing": None})
    show.table("counts", ["name", "count"], [["x", 3]])
    text = screen.getvalue()
    assert "[red]label[/red]" in text  # the user's text is not markup
    assert "│" in text
    assert "0.25" in text


def test_split_is_stratified_and_seeded():
    y = np.repeat([0, 1, 2], [50, 30, 1])
    data = Dataset(np.arange(81.0)[:, None], y)
    train, held = split(data, 0.2, 7)
    again, _ = split(data, 0.2, 7)
    other, _ = split(data, 0.2, 8)
    assert np.array_equal(train.X, again.X)
    assert not np.array_equal(train.X, other.X)
    assert sorted(np.concatenate([train.X, held.X])[:, 0]) == list(range(81))
    assert abs(int((held.y == 0).sum()) - 10) <= 1
    assert abs(int((held.y == 1).sum()) - 6) <= 1
    assert (train.y == 2).sum() == 1
    with pytest.raises(DataError, match="leaves no row"):
        split(Dataset(np.zeros((3, 1)), np.array([0, 1, 1])), 0.01, 0)


@pytest.fixture(scope="module")
def odd_labels(tmp_path_factory):
    """A model whose labels hold tabs, line ends and backslashes, and its rows."""
    folder = tmp_path_factory.mktemp("odd")
    rows, model = folder / "rows.jsonl", folder / "rows.model"
    labels = ["a\tb", "c\nd", "e\\f"]
    rows.write_text("".join(json.dumps({"x": i % 3, "z": i % 2, "kind": labels[i % 3]}) + "\n" for i in range(12)))
    done("train", rows, "-m", model, "--label", "kind", "--loss", "softmax", "--quiet")
    return model, rows, labels


@pytest.mark.parametrize("wanted", ["--scores", "--proba"])
def test_labels_in_json_are_plain(odd_labels, wanted):
    model, rows, labels = odd_labels
    result = json.loads(done("predict", model, rows, "--json", wanted).stdout.splitlines()[0])
    assert list(result["scores" if wanted == "--scores" else "probabilities"]) == labels
    assert result["label"] in labels


def test_labels_in_pipes_are_escaped(odd_labels):
    model, rows, _ = odd_labels
    spelled = ["a\\tb", "c\\nd", "e\\\\f"]
    assert done("predict", model, rows, "--proba").stdout.splitlines()[0].split("\t") == spelled
    lines = done("evaluate", model, rows).stdout.splitlines()
    assert lines[-4].split("\t") == ["true", *spelled]
    assert [line.split("\t")[0] for line in lines[-3:]] == spelled
    lines = done("inspect", model).stdout.splitlines()
    assert "classes: a\\tb, c\\nd, e\\f" in lines
    assert {line.split("\t")[0] for line in lines if line.count("\t") == 2} == {"class", *spelled}


def test_rows_to_predict_need_no_labels(digits, tmp_path):
    model, _, others = digits
    bare = tmp_path / "bare.svm"
    bare.write_text("".join(line.split(" ", 1)[1] for line in others.read_text().splitlines(keepends=True)))
    assert done("predict", model, bare).stdout == done("predict", model, others).stdout
    assert "label missing" in failed("evaluate", model, bare)


def test_unseen_categories_are_reported(tmp_path):
    rows, others, model = tmp_path / "rows.csv", tmp_path / "others.csv", tmp_path / "m"
    rows.write_text("colour,size,kind\n" + "red,1,a\nblue,2,b\n" * 4)
    others.write_text("colour,size,kind\nred,1,a\ngreen,2,b\nblack,2,b\n")
    done("train", rows, "-m", model, "--loss", "softmax", "--quiet")
    warning = "warning: values that training did not see count as zeros, in these columns (number of cells): colour (2)"
    for result in (
        done("predict", model, others, "--block-bytes", "1"),
        done("evaluate", model, others),
        done("train", rows, "-m", tmp_path / "n", "--loss", "softmax", "--validate", others, "--quiet"),
    ):
        assert result.stderr.splitlines() == [f"lineal: {warning}"]
    assert done("predict", model, rows).stderr == ""


def test_a_csv_file_without_header(tmp_path):
    """Every row counts, the decision is reported, and other rows of the same file can be predicted."""
    rows = ["20,Private,86555,Bachelors,<=50K", "38,State-gov,77516,HS-grad,>50K"] * 10
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "u.csv").write_text("\n".join(rows[1:4]) + "\n")
    model = tmp_path / "m.model"
    for more in ([], ["--online"]):
        trained = done("train", tmp_path / "t.csv", "-m", model, *more)
        note = "t.csv has no header, and its columns are f0, f1, …; if its first line is one, say --header yes"
        assert trained.stderr.count(note) == 1
        assert done("predict", model, tmp_path / "u.csv").stdout.split() == [">50K", "<=50K", ">50K"]
    assert note in done("convert", tmp_path / "t.csv", tmp_path / "t.arrow").stderr
    assert "note" not in done("train", tmp_path / "t.arrow", "-m", model).stderr
    given = done("train", tmp_path / "t.csv", "-m", model, "--header", "no", "--json")
    assert "note" not in given.stderr
    assert json.loads(given.stdout)["rows"] == 20
    (tmp_path / "v.csv").write_text("colour,size,buy\nblue,small,no\nred,big,yes\nred,small,no\n")
    text = done("train", tmp_path / "v.csv", "-m", model).stderr
    assert "the first line of " in text
    assert "was taken for column names; if it is data, say --header no" in text


def test_large_labels_are_predicted_as_they_were(tmp_path):
    labels = ["18446744073709551615", "18446744073709551614"]
    (tmp_path / "t.svm").write_text("".join(f"{labels[i % 2]} {1 + i % 2}:1\n" for i in range(20)))
    (tmp_path / "t.csv").write_text("a,label\n" + "".join(f"{i % 2},{labels[i % 2]}\n" for i in range(20)))
    for name in ("t.svm", "t.csv"):
        done("train", tmp_path / name, "-m", tmp_path / "m.model")
        assert done("predict", tmp_path / "m.model", tmp_path / name).stdout.split() == labels * 10


def test_the_delimiter_is_said_and_columns_are_named(tmp_path):
    rows = tmp_path / "t.csv"
    rows.write_text("1;2;yes\n2;1;no\n" * 5)
    names = ("--names", "size,weight,bought", "--label", "bought")
    result = done("train", rows, "-m", tmp_path / "m", *names, "--max-iter", "1", "--quiet")
    assert "separated by semicolons" in result.stderr
    assert "f0" not in result.stderr
    assert lineal.load(tmp_path / "m").feature_names == ["size", "weight"]
    result = done("train", rows, "-m", tmp_path / "m", *names, "--delimiter", ";", "--max-iter", "1", "--quiet")
    assert "separated" not in result.stderr
    message = failed("train", rows, "-m", tmp_path / "m", "--names", "a,b")
    assert "--names a,b are 2 names, but the first line" in message
