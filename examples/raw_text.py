"""From documents as JSON lines to a model file, on the command line: `train`, `evaluate`, `predict` and `inspect`."""

from __future__ import annotations

import json
import random
import subprocess
import sys

#: Words of two kinds of posts, and words of both.
WORDS = {
    "space": ["orbit", "launch", "moon", "shuttle", "satellite", "rocket"],
    "hockey": ["goal", "team", "season", "coach", "ice", "playoff"],
}
COMMON = ["the", "a", "last", "first", "was", "will", "be", "who", "think", "about", "very", "game", "year"]


def write_posts(path: str, n: int, seed: int) -> None:
    """Write generated posts, whose text is in a field of an object."""
    rng = random.Random(seed)
    with open(path, "w") as file:
        for _ in range(n):
            group = rng.choice(list(WORDS))
            words = (
                rng.choices(COMMON, k=20)
                + rng.choices(WORDS[group], k=2)
                + rng.choices([*WORDS["space"], *WORDS["hockey"]], k=1)
            )
            rng.shuffle(words)
            post = {"group": group, "post": {"body": " ".join(words), "lines": rng.randint(1, 50)}}
            file.write(json.dumps(post) + "\n")


def lineal(*arguments: str) -> None:
    """Run a command, and show it and what it prints."""
    print("$ lineal", *arguments, flush=True)
    done = subprocess.run([sys.executable, "-m", "lineal", *arguments], check=True, capture_output=True, text=True)
    print("\n".join(done.stdout.splitlines()[:12]), flush=True)


def main() -> None:
    write_posts("posts.jsonl", 2000, seed=0)
    write_posts("new.jsonl", 200, seed=1)
    lineal("train", "posts.jsonl", "--model", "posts.lineal", "--text", "post.body", "--label", "group", "--ngram", "2")
    lineal("evaluate", "posts.lineal", "new.jsonl")
    lineal("predict", "posts.lineal", "new.jsonl")
    lineal("inspect", "posts.lineal")


if __name__ == "__main__":
    main()
