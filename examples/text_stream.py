"""Text that streams through a pipe: words are hashed, so that memory stays constant however long the stream is."""

from __future__ import annotations

import json
import random
import subprocess
import sys


def reviews(n: int, seed: int) -> str:
    """Generated reviews as JSON lines."""
    rng = random.Random(seed)
    good, bad = ["lovely", "great", "clever"], ["boring", "awful", "slow"]
    neutral = [f"word{i}" for i in range(200)]
    lines = []
    for _ in range(n):
        label = rng.choice(["good", "bad"])
        words = rng.choices(neutral, k=15) + rng.choices(good if label == "good" else bad, k=2)
        rng.shuffle(words)
        lines.append(json.dumps({"review": " ".join(words), "label": label}))
    return "\n".join(lines) + "\n"


def main() -> None:
    command = [sys.executable, "-m", "lineal"]
    options = ["--format", "jsonl", "--label", "label", "--text", "review", "--levels", "hash"]
    train = [*command, "train", "-", "--online", "--model", "stream.lineal", *options]
    done = subprocess.run(train, input=reviews(20_000, seed=0), check=True, capture_output=True, text=True)
    print(done.stdout)

    new = reviews(1000, seed=1)
    predict = [*command, "predict", "stream.lineal", "-", "--format", "jsonl"]
    labels = subprocess.run(predict, input=new, check=True, capture_output=True, text=True).stdout.split()
    truth = [json.loads(line)["label"] for line in new.splitlines()]
    print(f"accuracy on new reviews: {sum(a == b for a, b in zip(labels, truth)) / len(truth):.3f}")


if __name__ == "__main__":
    main()
