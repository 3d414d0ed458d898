"""Files that are cut into parts: every row is in exactly one part, whoever reads it."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from scipy import sparse

from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.data.options import ReadOptions
from lineal.data.parts import Part, Piece, check_cut, pieces_of, runs_of
from lineal.data.stream import check_parts, count_rows, stream
from lineal.errors import DataError


def write(path, text):
    path.write_bytes(text)
    return str(path)


def bytes_of(pieces):
    found = []
    for path, start, stop in pieces:
        with open(path, "rb") as file:
            found.append(file.read()[start:stop])
    return b"".join(found)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_text_is_cut_at_line_starts(tmp_path, count):
    random = np.random.default_rng(count)
    texts = [
        b"".join(b"1 |f " + b"x" * int(size) + b"\n" for size in random.integers(0, 60, lines))
        for lines in (30, 1, 200)
    ]
    paths = [write(tmp_path / f"{number}.vw", text) for number, text in enumerate(texts)]
    parts = [pieces_of(paths, "vw", Part(number, count)) for number in range(count)]
    for pieces in parts:
        for path, start, _ in pieces:
            assert start == 0 or bytes_of([Piece(path, start - 1, start)]) == b"\n"
    assert b"".join(map(bytes_of, parts)) == b"".join(texts)
    sizes = [len(bytes_of(pieces)) for pieces in parts]
    assert max(sizes) - min(sizes) <= 2 * 67


def test_a_last_line_without_an_end_belongs_to_the_last_part(tmp_path):
    path = write(tmp_path / "a.svm", b"1 0:1\n-1 0:2\n1 0:3")
    assert [bytes_of(pieces_of([path], "svmlight", Part(n, 3))) for n in range(3)] == [
        b"1 0:1\n",
        b"-1 0:2\n",
        b"1 0:3",
    ]


def test_rows_of_parts_are_those_of_the_files(tmp_path):
    random = np.random.default_rng(0)
    X = sparse.random_array((500, 9), density=0.4, rng=random, format="csr", dtype=np.float32)
    y = random.integers(0, 3, 500)
    for number, rows in enumerate((slice(0, 20), slice(20, 480), slice(480, 500))):
        write_layout(Dataset(X[rows], y[rows]), tmp_path / f"{number}.arrow")
    lines = [
        f"{label} " + " ".join(f"{j}:{x:.9g}" for j, x in zip(row.indices, row.data))
        for label, row in zip(y, (X[[i]] for i in range(500)))
    ]
    text = write(tmp_path / "a.svm", b"\xef\xbb\xbf" + "\n".join([*lines, ""]).encode())
    for path in (str(tmp_path / "*.arrow"), text):
        first = next(iter(stream(path)))
        for count in (1, 2, 5):
            found = []
            for number in range(count):
                part = Part(number, count)
                rows = list(stream(path, ReadOptions(block_bytes=700), first.schema, part=part))
                found.append(sum(map(len, rows)))
                assert count_rows(path, "auto", first.schema, part) == found[-1]
                for block in rows:
                    begin = sum(found[:-1])
                    found_X = sparse.vstack([block.X for block in rows])[:, :9]
                    assert (found_X != X[begin : begin + found[-1]]).nnz == 0
                    np.testing.assert_array_equal(np.concatenate([block.y for block in rows]), y[begin : sum(found)])
            assert sum(found) == 500 == count_rows(path, "auto", first.schema)
            assert min(found) > 500 // count - 30


def test_other_files_stay_whole(tmp_path):
    paths = [str(tmp_path / f"{number}.csv") for number in range(5)]
    for number, path in enumerate(paths):
        write(tmp_path / f"{number}.csv", b"a,label\n" + b"1,x\n" * (number + 1) ** 3)
        assert path == paths[number]
    parts = [pieces_of(paths, "csv", Part(number, 3)) for number in range(3)]
    assert [piece for part in parts for piece in part] == [Piece(path) for path in paths]
    assert [len(part) for part in parts] == [3, 1, 1]
    with pytest.raises(DataError, match="6 learners need 6 files of this format, which is not cut, and there are 5"):
        check_cut(paths, "csv", 6)
    packed = tmp_path / "a.svm.gz"
    packed.write_bytes(gzip.compress(b"1 0:1\n" * 100))
    with pytest.raises(DataError, match="2 learners need 2 files"):
        check_parts(str(packed), ReadOptions(), None, 2)


def test_what_cannot_be_cut(tmp_path):
    path = write(tmp_path / "a.svm", b"1 0:1\n0 0:2\n")
    check_cut([path], "svmlight", 2)
    with pytest.raises(DataError, match=r"a\.svm has too few lines for 4 learners: use fewer of them"):
        check_cut([path], "svmlight", 4)
    write_layout(Dataset(np.ones((3, 2)), np.array([0, 1, 0])), tmp_path / "a.arrow")
    with pytest.raises(DataError, match=r"a\.arrow has too few rows for 4 learners"):
        check_parts(str(tmp_path / "a.arrow"), ReadOptions(), None, 4)
    with pytest.raises(DataError, match="<stdin> can be read once"):
        check_cut(["-"], "vw", 2)


def test_runs_have_about_equal_sizes():
    assert runs_of([1, 1, 1, 1], 2) == [range(2), range(2, 4)]
    assert runs_of([100, 1, 1], 3) == [range(1), range(1, 2), range(2, 3)]
    assert runs_of([1, 1, 100], 3) == [range(1), range(1, 2), range(2, 3)]
    sizes = np.random.default_rng(0).integers(1, 20, 100)
    totals = [sizes[list(run)].sum() for run in runs_of(sizes, 7)]
    assert sum(totals) == sizes.sum()
    assert max(totals) - min(totals) < 2 * 20
