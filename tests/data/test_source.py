"""Paths, compression and chunks of lines."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import threading
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lineal.data import chunks as line_reader
from lineal.data.byte_stream import open_bytes, spooled
from lineal.data.chunks import line_chunks
from lineal.data.source import expand
from lineal.errors import DataError, ParseError

TEXT = b"".join(b"line %d of a file that compresses\n" % number for number in range(3000))


def zstd(text: bytes) -> bytes:
    return pa.compress(text, codec="zstd", asbytes=True)


COMPRESSORS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstd}


def write(folder, name: str, content: bytes) -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def set_stdin(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))


def test_expand(tmp_path):
    b, a = write(tmp_path, "b.svm", b""), write(tmp_path, "a.svm", b"")
    (tmp_path / "c.svm").mkdir()
    assert expand(a) == [a]
    assert expand(tmp_path / "a.svm") == [a]
    assert expand(str(tmp_path / "*.svm")) == [a, b]
    assert expand("-") == ["-"]


def test_a_name_with_glob_characters_is_itself(tmp_path):
    path = write(tmp_path, "a[1].svm", b"")
    assert expand(path) == [path]


@pytest.mark.parametrize(
    ("name", "message"), [("no", "does not exist"), ("*.no", "no file matches"), ("", "directory")]
)
def test_expand_refuses(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        expand(os.path.join(tmp_path, name))


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_known_by_content_not_by_name(tmp_path, kind):
    path = write(tmp_path, "data.txt", COMPRESSORS[kind](TEXT))
    with open_bytes(path) as stream:
        assert stream.read() == TEXT


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstd"])
def test_several_members(tmp_path, kind):
    pack = COMPRESSORS[kind]
    path = write(tmp_path, "data", pack(TEXT) + pack(b"more\n"))
    with open_bytes(path) as stream:
        assert stream.read() == TEXT + b"more\n"


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstd"])
def test_truncated(tmp_path, kind):
    packed = COMPRESSORS[kind](TEXT)
    path = write(tmp_path, "data", packed[: len(packed) // 2])
    with pytest.raises(DataError, match=rf"data: the {kind} data is truncated"), open_bytes(path) as stream:
        stream.read()


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstd"])
def test_corrupt(tmp_path, kind):
    packed = bytearray(COMPRESSORS[kind](TEXT))
    # Near the start: zstd frames as most tools write them have no checksum, so damaged literals alone go unnoticed.
    packed[12:40] = bytes(255 - byte for byte in packed[12:40])
    path = write(tmp_path, "data", bytes(packed))
    with pytest.raises(DataError, match=rf"data: the {kind} data is (corrupt|truncated)"), open_bytes(path) as stream:
        stream.read()


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstd"])
def test_a_damaged_later_member_loses_no_lines(tmp_path, kind):
    pack = COMPRESSORS[kind]
    path = write(tmp_path, "data", pack(TEXT) + b"X" + pack(TEXT)[1:])
    with pytest.raises(DataError, match=rf"data: the {kind} data is corrupt"), open_bytes(path) as stream:
        stream.read()


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstd"])
def test_garbage_after_the_magic(tmp_path, kind):
    head = COMPRESSORS[kind](b"x")[:4]
    path = write(tmp_path, "data", head + b"this was never compressed" * 10)
    with pytest.raises(DataError, match=kind):
        list(line_chunks(path, 100))


def test_unreadable(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        open_bytes(str(tmp_path / "missing"))
    with pytest.raises(DataError, match="cannot read"):
        list(line_chunks(str(tmp_path / "missing"), 10))


@pytest.mark.core
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 10**6])
@pytest.mark.parametrize(
    "text", [b"a\nbb\n\nccc\n", b"a\nbb", b"\n", b"one line without an end", b"x" * 500 + b"\ny\n"]
)
def test_chunks_are_whole_lines(tmp_path, text, chunk_bytes, packed):
    path = write(tmp_path, "data", gzip.compress(text) if packed else text)
    chunks = list(line_chunks(path, chunk_bytes))
    joined = b"".join(chunk.data.tobytes() for chunk in chunks)
    assert joined == (text if text.endswith(b"\n") else text + b"\n")
    seen = 0
    for chunk in chunks:
        assert chunk.data[-1] == line_reader.NEWLINE
        assert not chunk.data.flags.writeable
        assert chunk.data.dtype == np.uint8
        assert chunk.first_line == seen + 1
        assert chunk.is_in_memory == packed
        seen += chunk.data.tobytes().count(b"\n")


@pytest.mark.parametrize("packed", [False, True])
def test_empty_file(tmp_path, packed):
    assert list(line_chunks(write(tmp_path, "data", gzip.compress(b"") if packed else b""), 10)) == []


@pytest.mark.parametrize("packed", [False, True])
def test_byte_order_mark_is_left_out(tmp_path, packed):
    text = b"\xef\xbb\xbfa\n"
    path = write(tmp_path, "data", gzip.compress(text) if packed else text)
    assert [chunk.data.tobytes() for chunk in line_chunks(path, 10)] == [b"a\n"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", [b"", b"\nafter\n"])
def test_overlong_line(tmp_path, monkeypatch, packed, end):
    monkeypatch.setattr(line_reader, "MAX_LINE_BYTES", 1000)
    text = b"a\nb\n" + b"x" * 5000 + end
    path = write(tmp_path, "data", gzip.compress(text) if packed else text)
    with pytest.raises(ParseError, match="1000 bytes or more") as caught:
        list(line_chunks(path, 100))
    assert caught.value.line == 3


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_stdin(monkeypatch, kind):
    set_stdin(monkeypatch, COMPRESSORS[kind](TEXT))
    chunks = list(line_chunks("-", 1000))
    assert b"".join(chunk.data.tobytes() for chunk in chunks) == TEXT
    assert chunks[0].path == "<stdin>"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_named_pipe(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: Path(path).write_bytes(TEXT))
    writer.start()
    assert expand(path) == [path]
    assert b"".join(chunk.data.tobytes() for chunk in line_chunks(path, 1000)) == TEXT
    writer.join()


def test_spooled_makes_stdin_readable_twice(monkeypatch, tmp_path):
    set_stdin(monkeypatch, TEXT)
    plain = write(tmp_path, "plain", b"x\n")
    with spooled([plain, "-"]) as (same, copy):
        assert same == plain
        for _ in range(2):
            assert b"".join(chunk.data.tobytes() for chunk in line_chunks(copy, 1000)) == TEXT
    assert not os.path.exists(copy)
