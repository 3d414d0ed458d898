"""Names given for the columns of CSV files without a header, and the delimiter that was detected."""

from __future__ import annotations

import pytest

import lineal
from lineal.errors import DataError, OptionError

ROWS = "1;red;yes\n2;blue;no\n3;red;yes\n"


@pytest.fixture
def bare(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(ROWS)
    return path


def test_names_make_the_columns(bare):
    data = lineal.read(bare, names="size, colour, bought", label="bought")
    assert data.feature_names == ["size", "colour=blue", "colour=red"]
    assert data.X.tolist() == [[1, 0, 1], [2, 1, 0], [3, 0, 1]]
    assert data.y.tolist() == ["yes", "no", "yes"]
    assert data.schema.settings["header"] is False


def test_names_replace_a_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,0\n2,1\n")
    data = lineal.read(path, names="x,label", header="yes")
    assert (data.feature_names, len(data)) == (["x"], 2)
    with pytest.raises(DataError, match="'a'"):  # without it, the first line is data
        lineal.read(path, names="x,label", numeric="x")


def test_later_files_by_position_by_header_or_with_names(bare, tmp_path):
    data = lineal.read(bare, names="size,colour,bought", label="bought")
    again = tmp_path / "new.csv"
    again.write_text("2,red\n")
    assert lineal.read(again, schema=data.schema, labels=False).X.tolist() == [[2, 0, 1]]
    again.write_text("colour,size\nred,2\n")
    assert lineal.read(again, schema=data.schema, labels=False).X.tolist() == [[2, 0, 1]]
    again.write_text("red,2\n")
    assert lineal.read(again, schema=data.schema, labels=False, names="colour,size").X.tolist() == [[2, 0, 1]]


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("a,b", DataError, "are 2 names, but the first line of .* has 3 cells"),
        ("a,b,a", OptionError, "has the name 'a' twice"),
        ("", DataError, "are 0 names"),
    ],
)
def test_names_that_do_not_fit(bare, names, error, message):
    with pytest.raises(error, match=message):
        lineal.read(bare, names=names)


def test_names_are_for_csv_files(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "label": 0}\n')
    with pytest.raises(OptionError, match="names='a,label' does not apply to jsonl"):
        lineal.read(path, names="a,label")


@pytest.mark.parametrize("given", [None, ";"])
def test_the_detected_delimiter_is_known(bare, given):
    options = {} if given is None else {"delimiter": given}
    data = lineal.read(bare, **options)
    assert data.schema.settings["delimiter"] == (";" if given is None else None)
