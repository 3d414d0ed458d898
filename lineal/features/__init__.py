"""Generators of features, one per file: with them, least squares comes close to a kernel machine.

A generator learns a little from the rows (`prepare`), then makes features in batches (`make`). A batch is a function of
a seed and the batch's number: features are computed when they are needed and never stored. Each generator is also a
scikit-learn transformer, and is imported on first use.

This folder may import `numerics`, `problem` and what is below. To add a generator, write a file with a subclass of
`Generator` (see `base.py` for the contract) and name it in `_HOME`; users register their own with `register`.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from lineal.errors import OptionError, unknown_value

#: Where the generators are, by the names that model files use.
_HOME = {
    "chain": ("chain", "Chain"),
    "fourier": ("fourier", "RandomFourier"),
    "frequency": ("subset", "FrequencyOrdered"),
    "greedy": ("greedy", "GreedyResidual"),
    "patches": ("convolution", "PatchConvolution"),
    "pca": ("components", "PrincipalComponents"),
    "polynomial": ("polynomial", "Polynomial"),
    "subset": ("subset", "RandomSubset"),
}
_CLASSES = {attribute: f"{__name__}.{module}" for module, attribute in _HOME.values()}

#: Transformers only, which make no batches for stagewise models: one learns from labels, two take text.
_CLASSES["AdaptivePolynomial"] = "lineal.online.adaptive_features"
_CLASSES["HashedTokens"] = f"{__name__}.tokens"
_CLASSES["TextFeatures"] = "lineal.data.terms.text"

#: Transformers that model files can hold besides generators.
_STORED = {"text": ("lineal.data.terms.text", "TextFeatures")}

#: A plus between steps, not within a number such as 1e+3.
_BETWEEN_STEPS = re.compile(r"\+(?!\s*\d)")

#: Generators of users.
_REGISTERED: dict[str, Any] = {}

__all__ = [
    "AdaptivePolynomial",
    "Chain",
    "FrequencyOrdered",
    "GreedyResidual",
    "HashedTokens",
    "PatchConvolution",
    "Polynomial",
    "PrincipalComponents",
    "RandomFourier",
    "RandomSubset",
    "TextFeatures",
    "get",
    "is_known",
    "names",
    "parse",
    "register",
    "stored",
]

if TYPE_CHECKING:
    from lineal.data.terms.text import TextFeatures as TextFeatures
    from lineal.features.chain import Chain as Chain
    from lineal.features.components import PrincipalComponents as PrincipalComponents
    from lineal.features.convolution import PatchConvolution as PatchConvolution
    from lineal.features.fourier import RandomFourier as RandomFourier
    from lineal.features.greedy import GreedyResidual as GreedyResidual
    from lineal.features.polynomial import Polynomial as Polynomial
    from lineal.features.subset import FrequencyOrdered as FrequencyOrdered
    from lineal.features.subset import RandomSubset as RandomSubset
    from lineal.features.tokens import HashedTokens as HashedTokens
    from lineal.online.adaptive_features import AdaptivePolynomial as AdaptivePolynomial


def names() -> list[str]:
    """Names of the generators that model files and the command line know."""
    return sorted({**_HOME, **_REGISTERED})


def get(name: str) -> Any:
    """The class of generators called `name`."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in _HOME:
        raise unknown_value("features", name, names())
    module, attribute = _HOME[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


def is_known(name: str) -> bool:
    """Whether model files can refer to `name`."""
    return name in _HOME or name in _STORED or name in _REGISTERED


def stored(name: str) -> Any:
    """The class that model files call `name`: of generators, or of transformers that make no batches."""
    if name in _STORED:
        module, attribute = _STORED[name]
        return getattr(importlib.import_module(module), attribute)
    return get(name)


def register(cls: Any) -> Any:
    """Make a class of generators known by its `name`, so that model files can refer to it; works as a decorator.

    Loading a model does not import other code: register your own generators before you load a model that uses them.
    """
    from lineal.features.contracts import Named

    name = cls.name if isinstance(cls, Named) else None
    if not isinstance(name, str) or not name:
        raise OptionError(f"{cls.__name__} has no name: set the class attribute `name`")
    known = _REGISTERED.get(name, cls)  # the same one, defined again, replaces itself
    if name in _HOME or name in _STORED or (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise OptionError(f"{cls.__name__} cannot be called {name!r}: that name is taken")
    _REGISTERED[name] = cls
    return cls


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'lineal.features' has no attribute {name!r}")
    return getattr(importlib.import_module(_CLASSES[name]), name)


def __dir__() -> list[str]:
    return __all__


def parse(text: str) -> Any:
    """The generator that a string describes: names with options, joined by "+" to a chain.

    For example ``fourier``, ``fourier:scale=0.8,kernel=matern`` or ``pca:n_components=50+fourier``.
    """
    steps = [_parse_step(step.strip()) for step in _BETWEEN_STEPS.split(text)]
    return steps[0] if len(steps) == 1 else get("chain")(*steps)


def _parse_step(text: str) -> Any:
    name, _, given = text.partition(":")
    cls = get(name.strip())
    options = {}
    for part in filter(None, given.split(",")):
        key, separator, value = part.partition("=")
        if not separator:
            raise OptionError(f"generator {text!r}: {part!r} is not OPTION=VALUE, for example fourier:scale=0.8")
        if key.strip() in options:
            raise OptionError(f"generator {text!r}: {key.strip()} is given twice")
        options[key.strip()] = _parse_value(value.strip())
    from lineal.features.contracts import HasParameters

    known = cls().get_params() if issubclass(cls, HasParameters) else options
    for key in options:
        if key not in known:
            raise unknown_value(f"option of {name}", key, known)
    step = cls(**options)
    from lineal.features.base import Generator

    if isinstance(step, Generator) and name.strip() != "chain":  # before a file is read; a chain has its steps later
        step._check_params()
    return step


def _parse_value(text: str) -> Any:
    """A number, True, False, None, sizes such as 28x28, or the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    sizes = text.split("x")
    return tuple(map(int, sizes)) if len(sizes) > 1 and all(map(str.isdecimal, sizes)) else text
