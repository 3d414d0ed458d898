"""Any bytes give a Dataset or a DataError: no other exception, no access out of bounds, no dependence on chunks."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineal.data.options import ReadOptions
from lineal.data.text import assemble, svmlight, vw
from lineal.errors import DataError, ParseError

READERS = {"svmlight": svmlight.read, "vw": vw.read}
EXAMPLES = int(os.environ.get("LINEAL_FUZZ_EXAMPLES", "200"))

FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)

SEEDS = [
    b"1 1:0.5 3:2e-3 7:-1 # comment",
    b"1,2,30 qid:4 1:1 2:12345678901234567890.125 0:3",
    b" 5:1e308 4:4.9e-324\r",
    b"+1.5 10:1 2:2 3:3 9:9 4:4",
    b"1 2.5 'tag|a x:1 y |b:0.5 12 :3 z:0",
    b"0,3 |words the cat sat on the mat|n 1:2 1:3",
    b"-1 1 0 t| plain:1e-5 \xc3\xa9:2",
    b"qid:1 1:1",
]
BYTES = b"0123456789 :.,#|'eE+-\n\r\tqidnaf\0\xff"

any_bytes = st.binary(max_size=200)
format_bytes = st.lists(st.sampled_from(list(BYTES)), max_size=120).map(bytes)


@st.composite
def mutated_lines(draw):
    """Valid lines with a few bytes changed, put in or taken out."""
    text = bytearray(b"\n".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=5))))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        text[place : place + draw(st.integers(0, 2))] = draw(st.sampled_from([b"", *(bytes([b]) for b in BYTES)]))
    return bytes(text)


def outcome(read, path: str, options: ReadOptions):
    """The result of reading, in a form that can be compared."""
    try:
        data = read([path], options)
    except ParseError as error:
        return error.line, error.column, error.found, error.expected
    except DataError as error:
        return str(error)
    X, y = data.X, data.y
    assert X.shape[0] == X.indptr.size - 1 > 0
    assert X.indptr[0] == 0
    assert X.indptr[-1] == X.data.size == X.indices.size
    assert np.all(np.diff(X.indptr) >= 0)
    assert np.all(np.isfinite(X.data))
    if X.indices.size:
        assert X.indices.min() >= 0
        assert X.indices.max() < X.shape[1]
        inner = np.diff(X.indices.astype(np.int64))
        inner[X.indptr[1:-1][(X.indptr[1:-1] > 0) & (X.indptr[1:-1] < X.indices.size)] - 1] = 1
        assert np.all(inner > 0), "columns of a row must ascend"
    assert y is None or y.shape[0] == X.shape[0]
    labels = None if y is None else y.toarray().tolist() if data.is_multilabel else y.tolist()
    return X.data.tolist(), X.indices.tolist(), X.indptr.tolist(), labels, data.schema, data.bad_lines


@pytest.mark.core
@pytest.mark.parametrize("name", READERS)
@FUZZ
@given(text=st.one_of(any_bytes, format_bytes, mutated_lines()), max_bad_lines=st.sampled_from([0, 0, 1, 100]))
def test_fuzz(tmp_path, monkeypatch, name, text, max_bad_lines):
    path = tmp_path / "data"
    path.write_bytes(text)
    options = replace(ReadOptions(), max_bad_lines=max_bad_lines, bits=10)
    whole = outcome(READERS[name], str(path), options)
    with monkeypatch.context() as patch:
        patch.setattr(assemble, "CHUNK_BYTES", 10)
        assert outcome(READERS[name], str(path), options) == whole


@pytest.mark.slow
@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="this is the inner run")
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python checks bounds by itself")
def test_fuzz_with_bounds_checks():
    """The fuzz tests pass in a process whose kernels check every index."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "LINEAL_FUZZ_EXAMPLES": "60"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_fuzz", __file__]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 passed" in done.stdout
