"""Model files that somebody has edited."""

from __future__ import annotations

import json

from safetensors import safe_open
from safetensors.numpy import save_file

from lineal.system.tensor_file import checksum as checksum_of


def rewrite(path, change, checksum=True, out=None):
    """Change the description and the tensors of a model file; with a fitting checksum, as an attacker would."""
    with safe_open(path, framework="numpy") as file:
        description = json.loads(file.metadata()["lineal"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    change(description, tensors)
    text = json.dumps(description, ensure_ascii=False, sort_keys=True)
    save_file(tensors, out or path, {"lineal": text, "blake2b": checksum_of(text, tensors) if checksum else "0"})
    return out or path
