"""`lineal inspect` of data: the numbers are those of the file, and the solver is the one that training takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_files import done, failed, run, write_iris, write_label_sets

TABLE = """age,city,joined,remark,label
20,Oslo,2024-01-01,very good quick answer,yes
40,,2024-01-03,no answer for weeks,no
,Riga,2024-01-05,good and friendly people,yes
60,Oslo,2024-01-07,never again thank you,yes
"""


def profile(path, *flags, **extra):
    return json.loads(done("inspect", path, "--json", *flags, **extra).stdout)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize("flags", [(), ("--scale", "none"), ("--dtype", "float32")])
def test_columns_of_a_table(table, flags):
    found = profile(table, *flags)
    columns = {one["column"]: one for one in found["columns"]}
    assert {name: one["holds"] for name, one in columns.items()} == {
        "age": "number", "city": "category", "joined": "date", "remark": "text"
    }  # fmt: skip
    age = columns["age"]
    assert (age["missing"], columns["city"]["missing"], columns["joined"]["missing"]) == (1, 1, 0)
    filled = np.array([20.0, 40.0, 40.0, 60.0])
    numbers = [age[name] for name in ("mean", "sd", "min", "max")]
    assert numbers == pytest.approx([40.0, filled.std(), 20.0, 60.0], rel=1e-6)
    assert found["rows"] == 4
    assert found["label"] == "label (by its name)"
    assert found["classes"] == [
        {"class": "yes", "rows": 3, "share": 0.75}, {"class": "no", "rows": 1, "share": 0.25}
    ]  # fmt: skip


def test_flags_change_the_roles(table):
    found = profile(table, "--categorical", "age", "--ignore", "remark", "--label", "joined", "--missing", "mean")
    assert {one["column"]: one["holds"] for one in found["columns"]}["age"] == "category"
    assert "remark" not in {one["column"] for one in found["columns"]}
    assert found["label"] == "joined (given)"


def test_the_solver_is_the_one_of_training(tmp_path):
    rows = write_iris(tmp_path / "iris.csv")
    trained = json.loads(done("train", rows, "-m", tmp_path / "m", "--json").stdout)
    assert profile(rows)["solver"].split(":")[0] == trained["solver"].split(":")[0]


def test_text_formats_label_sets_and_pipes(tmp_path):
    sets = write_label_sets(tmp_path / "sets.svm")
    found = profile(sets)
    assert {one["class"] for one in found["classes"]} == {10, 20, 30}
    assert found["model"].startswith("linear")
    assert "columns" not in found
    assert "standard deviations" in found["scales"]
    piped = profile("-", "--format", "svmlight", input=sets.read_bytes())
    assert piped | {"file": str(sets)} == found


def test_what_cannot_be_classified_is_said(tmp_path):
    rows = tmp_path / "t.csv"
    rows.write_text("a,price\n" + "".join(f"{i},{i * 1.25}\n" for i in range(40)))
    result = run("inspect", rows)
    assert result.exit_code == 0
    assert "40 different numbers" in result.stderr
    assert "solver" not in result.stdout


def test_tables_on_paper(table, tmp_path):
    shown = done("inspect", table).stdout
    assert "age\tnumber\t1\t2\t40\t" in shown
    assert "yes\t3\t75.0%" in shown
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join([*(f"c{i}" for i in range(60)), "label"]) + "\n" + ("1," * 60 + "0\n" + "2," * 60 + "1\n"))
    assert "10 more columns" in done("inspect", wide).stderr


def test_flags_of_the_other_kind_of_file(table, tmp_path):
    assert "--features is for models" in failed("inspect", table, "--features")
    done("train", write_iris(tmp_path / "i.csv"), "-m", tmp_path / "m", "--max-iter", "1", "--quiet")
    assert "--label is for data" in failed("inspect", tmp_path / "m", "--label", "x")
    named_like_data = tmp_path / "m.csv"
    named_like_data.write_bytes((tmp_path / "m").read_bytes())
    assert "non-zero weights" in done("inspect", named_like_data).stdout
    assert "does not exist" in failed("inspect", tmp_path / "none.csv")


def test_json_lines_whose_first_field_holds_an_object_are_data(tmp_path):
    path = tmp_path / "t.jsonl"  # the 9th and 10th characters are those of model files
    path.write_text("".join(f'{{"doc": {{"n": {i}}}, "label": "{"ab"[i % 2]}"}}\n' for i in range(20)))
    assert [one["column"] for one in profile(path)["columns"]] == ["doc.n"]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_of_a_large_table_the_first_rows(name, tmp_path, monkeypatch):
    path, n = tmp_path / name, 200_000
    with open(path, "w") as file:
        if name == "t.csv":
            file.write("a,label\n")
            file.writelines(f"{i},{'yes' if i % 2 else 'no'}\n" for i in range(n))
        else:
            file.writelines(f'{{"a": {i}, "label": "{"yes" if i % 2 else "no"}"}}\n' for i in range(n))
    assert profile(path)["rows"] == n
    assert not profile(path)["has_more_rows"]
    monkeypatch.setattr("lineal.cli.profile.PROFILE_BYTES", 1000)
    monkeypatch.setattr("lineal.data.tables.reader.JSON_BYTES", 1 << 20)
    result = done("inspect", path, "--json")
    found = json.loads(result.stdout)
    assert 1000 < found["rows"] < n
    assert found["has_more_rows"]
    (column,) = found["columns"]
    assert (column["min"], column["max"]) == pytest.approx((0.0, found["rows"] - 1.0))
    assert f"the profile of the first {found['rows']}" in result.stderr
