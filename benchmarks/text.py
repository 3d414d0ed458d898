"""How fast raw text becomes features, and a model: lineal, scikit-learn and, where it is installed, fastText.

    python -m benchmarks.text --data DIR [--quick] [--sets NAMES] [--fasttext PYTHON] [--json PATH]

Vectorisers: every contestant in this process, on the same strings, after a warm-up; the best of several runs. The
results must be equal: same terms, same entries, weights within float32 rounding. "MB/s" is of UTF-8 bytes. Memory is
what one call adds to the peak of a fresh process that has read the documents.

Models: raw JSON lines to accuracy on the test set, whole processes with cached kernels: `TextFeatures` and
`LinearClassifier` in a script, `lineal train --validate`, `TfidfVectorizer` and `LinearSVC`, and fastText. `--fasttext`
names an interpreter in which `fasttext-numpy2-wheel` is installed: supervised, 2 threads, 5 epochs. fastText reads
text files with one document per line, which its script writes (words in lower case); "learning s" is the part of each
process from strings (of fastText: from these files) to the model.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer

from benchmarks.common import RESULTS, Process, markdown_table, measure, print_table, whole_process, write_json
from lineal import TextFeatures
from lineal.core.threads import available_cores

MB = 1_000_000
SETS = ("20newsgroups", "wiki_toxicity", "clinc150", "ohsumed")

#: Options of both vectorisers.
KINDS: dict[str, dict[str, Any]] = {
    "words": {},
    "words + bigrams": {"ngram_range": (1, 2)},
    "characters 2–4": {"analyzer": "char", "ngram_range": (2, 4)},
    "characters 3–5 in words": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}

READ = """
import json, sys, time
start = time.perf_counter()
def read(part):
    with open(f"{sys.argv[1]}/{part}.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["text"] for row in rows], [str(row["label"]) for row in rows]
options = json.loads(sys.argv[2])
options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith("VmHWM"))
"""

#: Memory that one fit_transform adds to the peak, in MB.
MEMORY = {
    "scikit-learn": """
from sklearn.feature_extraction.text import TfidfVectorizer
features = TfidfVectorizer(**options)
features.fit_transform(["warm up", "warm"])
""",
    "lineal": """
from lineal import TextFeatures
features = TextFeatures(**options)
features.fit_transform(["warm up", "warm"])
""",
}
MEASURED = """
texts, _ = read("train")
before = peak()
X = features.fit_transform(texts)
result = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print(json.dumps({"MB": peak() - before, "result MB": result / 1e6}))
"""

#: Raw text to an evaluated model; each prints its accuracy.
MODELS = {
    "scikit-learn": """
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
(texts, y), (new, wanted) = read("train"), read("test")
began = time.perf_counter()
features = TfidfVectorizer(sublinear_tf=True, **options)
model = LinearSVC().fit(features.fit_transform(texts), y)
learning = time.perf_counter() - began
accuracy = model.score(features.transform(new), wanted)
""",
    "lineal": """
from lineal import LinearClassifier, TextFeatures
(texts, y), (new, wanted) = read("train"), read("test")
began = time.perf_counter()
features = TextFeatures(sublinear_tf=True, **options)
X = features.fit_transform(texts)
model = LinearClassifier(alpha=1 / len(y)).fit(X, y)
learning = time.perf_counter() - began
accuracy = model.score(features.transform(new), wanted)
""",
    "fastText": """
import os, re, tempfile, fasttext
words = re.compile(r"\\w\\w+")
(texts, y), (new, wanted) = read("train"), read("test")
with tempfile.TemporaryDirectory() as folder:
    def write(part, texts, labels):
        with open(f"{folder}/{part}", "w", encoding="utf-8") as file:
            for text, label in zip(texts, labels):
                file.write(f"__label__{label} {' '.join(words.findall(text.lower()))}\\n")
    write("train", texts, y); write("test", new, wanted)
    began = time.perf_counter()
    model = fasttext.train_supervised(
        f"{folder}/train", epoch=5, thread=2, wordNgrams=options.get("ngram_range", (1, 1))[1], verbose=0)
    learning = time.perf_counter() - began
    accuracy = model.test(f"{folder}/test")[1]
""",
}
END = """
print(json.dumps({"accuracy": accuracy, "learning s": learning, "peak MB": peak()}))
"""

#: What the scripts of `MODELS` are compared with, by the command line.
COMMAND = "lineal train"


def texts_of(folder: Path, name: str, part: str, n: int | None) -> list[dict[str, Any]]:
    """Rows of a set, shuffled with a fixed seed; the first n of them."""
    with gzip.open(folder / name / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    order = np.random.default_rng(0).permutation(len(rows))[:n]
    return [rows[i] for i in order]


def check_equal(ours: Any, theirs: Any) -> None:
    """Raise unless the entries are the same and the values differ by rounding to float32 only."""
    theirs = theirs.tocsr()
    theirs.sort_indices()
    same = ours.shape == theirs.shape and all(
        np.array_equal(getattr(ours, part), getattr(theirs, part)) for part in ("indptr", "indices")
    )
    if not same or (np.abs(ours.data - theirs.data) > 1e-7 * np.abs(theirs.data)).any():
        raise AssertionError("lineal and scikit-learn disagree")


def bench_vectorisers(name: str, train: list[str], test: list[str], kinds: dict[str, Any], repeats: int) -> list[Any]:
    """Rows of the table: fit_transform, transform, and hashing of one set."""
    rows: list[dict[str, Any]] = []
    size, new_size = (sum(len(text.encode()) for text in texts) / MB for texts in (train, test))
    jobs = sorted({1, available_cores()})

    def add(what: str, megabytes: float, theirs: Callable[[], Any], ours: Callable[[int], Callable[[], Any]]) -> None:
        expected = None

        def run_theirs() -> None:
            nonlocal expected
            expected = theirs()

        reference = measure(run_theirs, 1)
        rows.append(row(name, what, "scikit-learn", 1, megabytes, reference, reference))
        for n_jobs in jobs:
            check_equal(ours(n_jobs)(), expected)
            seconds = measure(ours(n_jobs), repeats)
            rows.append(row(name, what, "lineal", n_jobs, megabytes, seconds, reference))

    for kind, options in kinds.items():
        reference = TfidfVectorizer(**options)
        features = {n_jobs: TextFeatures(**options, n_jobs=n_jobs) for n_jobs in jobs}
        add(
            f"{kind}: fit_transform",
            size,
            lambda reference=reference: reference.fit_transform(train),  # type: ignore[misc]
            lambda n_jobs, features=features: lambda: features[n_jobs].fit_transform(train),  # type: ignore[misc]
        )
        add(
            f"{kind}: transform",
            new_size,
            lambda reference=reference: reference.transform(test),  # type: ignore[misc]
            lambda n_jobs, features=features: lambda: features[n_jobs].transform(test),  # type: ignore[misc]
        )
    for kind in [kind for kind in ("words", "words + bigrams") if kind in kinds]:
        options = {**KINDS[kind], "alternate_sign": True}
        add(
            f"{kind}: hashing, 2^20",
            size,
            lambda options=options: HashingVectorizer(**options).transform(train),  # type: ignore[misc]
            lambda n_jobs, options=options: (  # type: ignore[misc]
                lambda: TextFeatures(**options, hashing=20, use_idf=False, n_jobs=n_jobs).transform(train)
            ),
        )
    return rows


def row(
    name: str, what: str, who: str, threads: int, megabytes: float, seconds: float, reference: float
) -> dict[str, Any]:
    """One row of the table of vectorisers."""
    return {
        "set": name, "features": what, "by": who, "threads": threads, "MB": megabytes, "seconds": seconds,
        "MB/s": megabytes / seconds, "ratio": reference / seconds,
    }  # fmt: skip


def run(python: str, script: str, *arguments: str) -> Process:
    """A script that has read the documents."""
    return whole_process([python, "-c", READ + script, *arguments])


def train(folder: str, options: dict[str, Any]) -> Process:
    """`lineal train` on the files of a folder, with the accuracy on its last line."""
    command = [
        sys.executable, "-m", "lineal", "train", f"{folder}/train.jsonl", "--validate", f"{folder}/test.jsonl",
        "--label", "label", "--text", "text", "--ngram", str(options.get("ngram_range", (1, 1))[1]),
        "--model", f"{folder}/model.lineal", "--json",
    ]  # fmt: skip
    done = whole_process(command)
    said = json.loads(done.output)
    answer = {"accuracy": said["validation_accuracy"], "learning s": said["seconds"]["fit"], "peak MB": None}
    return done._replace(output=json.dumps(answer))


def bench_processes(name: str, folder: Path, kinds: dict[str, Any], fasttext: str | None, repeats: int) -> Any:
    """Rows of the tables of memory and of models, from files in the folder."""
    memory, models = [], []
    for kind, options in kinds.items():
        arguments = (str(folder), json.dumps(options))
        for who, script in MEMORY.items():
            found = run(sys.executable, script + MEASURED, *arguments).answer
            memory.append({"set": name, "features": kind, "by": who, **found})
        if not kind.startswith("words"):
            continue
        reference = None
        for who in (*MODELS, COMMAND):
            python = fasttext if who == "fastText" else sys.executable
            if python is None:
                continue
            runs = [
                train(str(folder), options) if who == COMMAND else run(python, MODELS[who] + END, *arguments)
                for _ in range(1 if who == "scikit-learn" else repeats)
            ]
            best = min(runs, key=lambda one: one.seconds)
            reference = reference or best.seconds
            models.append({
                "set": name, "features": kind, "by": who, "seconds": best.seconds, "processor s": best.cpu,
                "ratio": reference / best.seconds, **best.answer,
            })  # fmt: skip
        same = [one for one in models if one["features"] == kind]
        peer = next((one["seconds"] for one in same if one["by"] == "fastText"), None)
        for one in same:
            one["to fastText ratio"] = None if peer is None else peer / one["seconds"]
    return memory, models


def show(title: str, table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print rows, and return them."""
    if table:
        print_table(title, table[0], (one.values() for one in table))
    return table


def main() -> None:
    """Run everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--sets", default=",".join(SETS), help="names of data sets, with commas in between")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of terms, with commas in between")
    parser.add_argument("--only", choices=("vectorisers", "models"), help="one of both parts; models with memory")
    parser.add_argument("--quick", action="store_true", help="2000 documents of each set, words and bigrams only")
    parser.add_argument("--fasttext", help="interpreter in whose environment fastText is installed")
    parser.add_argument("--json", type=Path, default=RESULTS / "text.json")
    arguments = parser.parse_args()
    kinds = {kind: KINDS[kind] for kind in (list(KINDS)[:2] if arguments.quick else arguments.kinds.split(","))}
    repeats = 2 if arguments.quick else 5
    TextFeatures().fit_transform(["warm up"] * 3)
    vectorisers, memory, models = [], [], []
    for name in arguments.sets.split(","):
        rows = {
            part: texts_of(arguments.data, name, part, 2000 if arguments.quick else None) for part in ("train", "test")
        }
        texts = {part: [one["text"] for one in rows[part]] for part in rows}
        if arguments.only != "models":
            vectorisers += show(
                "Text to features (equal results)", bench_vectorisers(name, *texts.values(), kinds, repeats)
            )
        if arguments.only == "vectorisers":
            continue
        with tempfile.TemporaryDirectory() as folder:
            for part in rows:
                with open(Path(folder) / f"{part}.jsonl", "w", encoding="utf-8") as file:
                    file.writelines(
                        json.dumps({"text": one["text"], "label": one["label"]}) + "\n" for one in rows[part]
                    )
            found = bench_processes(name, Path(folder), kinds, arguments.fasttext, min(repeats, 3))
        memory += show("Memory that fit_transform adds", found[0])
        models += show("Raw text to an evaluated model, whole processes", found[1])
    tables = {"vectorisers": vectorisers, "memory": memory, "models": models}
    write_json(arguments.json, tables)
    pages = [markdown_table(what, rows[0], (one.values() for one in rows)) for what, rows in tables.items() if rows]
    arguments.json.with_suffix(".md").write_text("\n".join(pages))


if __name__ == "__main__":
    main()
