"""Model files: safetensors with JSON metadata. No pickles, a checksum over everything, a version.

Tensors of linear models: ``weights`` (d, k) and ``intercept`` (k,); for `RowSparse` weights ``rows``, the numbers of
the rows that are not zero (int64, ascending), and those rows as ``weights`` (len(rows), k). Other kinds of models name
their own (`to_parts`). Metadata: one JSON text under "lineal" with the format version, classes, names, options,
certificate and schema (the description), and a checksum of it and the tensors under "blake2b".

The header of a safetensors file, which holds the metadata, has at most 100 MB. A longer description (many or long
names) is stored as a tensor of its UTF-8 bytes, ``description``, and the text under "lineal" only says so.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np

from lineal import __version__
from lineal.core.inputs import MAX_FEATURES
from lineal.data.dataset import Dataset, Schema
from lineal.errors import LinealError, ModelFileError
from lineal.problem.solution import Certificate
from lineal.system.files import whole_file
from lineal.system.tensor_file import LONGEST_HEADER, checksum, read_tensors

if TYPE_CHECKING:
    from lineal.engine.source import Source

#: Raised when older versions of lineal could misread a file. A file has the oldest format that can hold its model:
#: 1 for dense weights, 2 for row-sparse ones, for thresholds, and for models that take some of their files' columns,
#: 3 for models that are not linear, 4 where the description is a tensor (it then has a format of its own) or labels are
#: unsigned numbers beyond int64, 5 for linear models with thresholds for one label per row.
FORMAT_VERSION = 5

#: Formats of linear models.
LINEAR_VERSIONS = (1, 2, 5)

#: Bytes of a description that still go into the header: quotes and backslashes take two there.
LONGEST_TEXT = 40_000_000

#: NumPy kinds of labels that a file can hold.
LABEL_KINDS = {"i": "int", "u": "int", "f": "float", "b": "bool", "U": "str"}

#: Errors that mean that a file holds values that no model can have.
_MISFITS = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, MemoryError,
)  # fmt: skip


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`, atomically."""
    from safetensors.numpy import save as to_bytes

    try:
        values, tensors = _to_json(model)
        text = _as_text(values)
        again, encoded = _from_json(json.loads(text), tensors), text.encode()
        if len(encoded) > LONGEST_TEXT or again.classes.dtype == np.uint64:
            tensors = {**tensors, DESCRIPTION: np.frombuffer(encoded, np.uint8)}
            text = _as_text({"format_version": 4, "lineal_version": __version__, "description": DESCRIPTION})
        content = to_bytes(tensors, {"lineal": text, "blake2b": checksum(text, tensors)})
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"the model cannot be saved: {error}") from None
    if again.classes.tolist() != model.classes.tolist():
        raise ModelFileError("labels cannot be saved: some would not be the same when loaded")
    if int.from_bytes(content[:8], "little") > LONGEST_HEADER:
        raise ModelFileError(f"the model cannot be saved: {len(tensors)} arrays are too many for one file")
    with whole_file(path) as file:
        file.write(content)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model; everything in the file is checked, and an error says what is wrong with it."""
    path = os.fspath(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError(f"{path} is not a file")
        with open(path, "rb") as file:
            metadata, tensors = read_tensors(file)
    except FileNotFoundError:
        raise ModelFileError(f"no model file {path}") from None
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from None
    except MemoryError:
        raise ModelFileError(f"{path} needs more memory than there is") from None
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"{path} is cut, damaged or not a model file ({_short(error)})") from None
    if "lineal" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not a model of lineal")
    description = _parse(path, metadata["lineal"])
    try:
        if metadata.get("blake2b") != checksum(metadata["lineal"], tensors):
            raise ModelFileError(f"{path} is damaged: its checksum does not fit its contents")
        if description["format_version"] == 4:
            description = _parse(path, _text_of(description, tensors))
        return _from_json(description, tensors)
    except ModelFileError:
        raise
    except MemoryError:
        raise ModelFileError(f"{path} needs more memory than there is") from None
    except LinealError as error:
        raise ModelFileError(f"{path} cannot be used: {error}") from None
    except _MISFITS as error:
        raise ModelFileError(f"{path} is damaged: {type(error).__name__} {_short(error)}") from None


#: Name of the tensor that holds a long description.
DESCRIPTION = "description"


def _as_text(values: dict[str, Any]) -> str:
    """Convert to JSON; in ASCII if a string has half of a surrogate pair, which UTF-8 cannot represent."""
    text = json.dumps(values, ensure_ascii=False, sort_keys=True, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(values, sort_keys=True, allow_nan=False)
    return text


def _text_of(outer: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    """Remove the description that was stored as a tensor from `tensors`, and return it."""
    if outer.get("description") != DESCRIPTION:
        raise ValueError("the header does not say where the description is")
    stored = tensors.pop(DESCRIPTION)
    if stored.dtype != np.uint8 or stored.ndim != 1:
        raise ValueError("the description is not a text")
    return stored.tobytes().decode()


def _short(error: BaseException) -> str:
    """The message of an error, without the values that a forged file may hold at length."""
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:200] + "…"


def _parse(path: str, text: str) -> dict[str, Any]:
    try:
        description = json.loads(text)
        version = description["format_version"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ModelFileError(f"{path} is damaged: its description is not readable") from None
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        writer = description.get("lineal_version", "unknown")
        raise ModelFileError(
            f"{path} has model format {version} (written by lineal {writer}); this is lineal {__version__}, which "
            f"reads formats up to {FORMAT_VERSION}: upgrade lineal"
        )
    return description


def label_kind(classes: np.ndarray) -> str:
    """Name of the kind of labels; raises an error for labels that a file cannot store."""
    if classes.dtype == object and all(isinstance(label, str) for label in classes):
        return "str"
    if classes.dtype.kind not in LABEL_KINDS or classes.dtype == np.longdouble:
        raise ModelFileError(f"labels of type {classes.dtype} cannot be saved: use numbers or strings")
    return LABEL_KINDS[classes.dtype.kind]


def check_names(rows: Dataset | Source) -> None:
    """Refuse, before they are trained on, rows whose labels or names no model file could hold."""
    y = rows.y if isinstance(rows, Dataset) else None  # those of a source are surveyed later
    for labels in (y if y is not None and y.ndim == 1 else None, rows.class_names):
        if labels is not None:
            label_kind(np.asarray(labels))
    other = next((name for name in rows.feature_names or () if not isinstance(name, str)), None)
    if other is not None:
        raise ModelFileError(f"feature names must be strings to be saved, found {other!r}")


def _common_to_json(model: Any) -> dict[str, Any]:
    """The values that models of all kinds have."""
    return {
        "lineal_version": __version__,
        "classes": model.classes.tolist(),
        "label_kind": label_kind(model.classes),
        "is_multilabel": model.is_multilabel,
        "feature_names": model.feature_names,
        "schema": None if model.schema is None else model.schema.to_json(),
        "options": model.options,
        "certificate": None if model.certificate is None else model.certificate.to_json(),
        "status": model.status,
        "solver": model.solver,
    }


#: Module and class of each kind of model. Files of linear models are older than the other kinds: they do not name
#: their kind, and their own values stand beside those of all models.
_KINDS = {
    "linear": ("lineal.linear.model", "Model"),
    "voting": ("lineal.linear.voting", "VotingModel"),
    "calibrated": ("lineal.least_squares.model", "CalibratedModel"),
    "stagewise": ("lineal.stagewise.model", "StagewiseModel"),
    "online": ("lineal.online.model", "OnlineModel"),
}


def _to_json(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the tensors of a model."""
    own, tensors = model.to_parts()
    values = _common_to_json(model)
    if model.kind == "linear":
        values = {**values, **own}
    else:
        values = {**values, "format_version": 3, "kind": model.kind, "own": own}
    return values, {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def _from_json(values: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    """Inverse of `_to_json`; raises a ValueError if the parts do not fit."""
    is_linear = values["format_version"] in LINEAR_VERSIONS
    kind = "linear" if is_linear else values["kind"]
    if kind not in _KINDS or (kind == "linear") != is_linear:
        raise ValueError(f"unknown kind of model {kind!r}")
    module, name = _KINDS[kind]
    cls = getattr(importlib.import_module(module), name)
    model = cls.from_parts(values if is_linear else values["own"], tensors, _common_from_json(values))
    least = 0 if model.is_number else 1 if model.is_multilabel or kind == "online" else 2
    if len(model.classes) < least or (model.feature_names is not None and len(model.feature_names) != model.n_features):
        raise ValueError("classes, names and weights do not fit each other")
    return dataclasses.replace(model, schema=_schema(values["schema"], model.n_features))


def _common_from_json(values: dict[str, Any]) -> dict[str, Any]:
    """The values that models of all kinds have, except the schema, which depends on the number of features."""
    classes = _labels(values["classes"], values["label_kind"])
    names, certificate = values["feature_names"], values["certificate"]
    if names is not None and not (isinstance(names, list) and set(map(type, names)) <= {str}):
        raise ValueError("feature names are not strings")
    return {
        "classes": classes,
        "is_multilabel": bool(values["is_multilabel"]),
        "feature_names": names,
        "options": dict(values["options"]),
        "certificate": None if certificate is None else Certificate.from_json(certificate),
        "status": str(values["status"]),
        "solver": str(values.get("solver", "")),  # files of older versions do not name it
    }


#: Types of the labels in JSON, by what a file calls them.
_LABEL_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


def _labels(values: Any, kind: str) -> np.ndarray:
    """Classes of a model; raises a ValueError unless they are different labels of one kind."""
    wanted = _LABEL_TYPES[kind]
    if not isinstance(values, list) or not all(type(label) is wanted for label in values):
        raise ValueError(f"classes are not labels of kind {kind!r}")
    if len(set(values)) != len(values) or any(label != label for label in values):
        raise ValueError("classes are not different labels")
    if wanted is str:
        classes = np.array(values, np.str_)
        return classes if classes.tolist() == values else np.array(values, object)  # zero bytes at the end of a text
    if wanted is int:
        return np.array(values, np.uint64 if values and max(values) >= 2**63 else np.int64)
    return np.array(values, np.dtype(wanted))


def _schema(values: dict[str, Any] | None, width: int) -> Schema | None:
    if values is None:
        return None
    schema = Schema.from_json(values)
    if not 0 <= schema.n_features <= MAX_FEATURES:
        raise ValueError(f"{schema.n_features} is not a valid number of features")
    if schema.columns is not None and schema.width != width:
        raise ValueError(f"the schema picks {schema.width} columns for {width} features")
    return schema
