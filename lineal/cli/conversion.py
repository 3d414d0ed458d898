"""Values of the command line without conversions that change nothing.

For a value that is not text, some versions of Typer import Pydantic and build a validator. For texts, and for options
that are not given, there is nothing to convert.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, get_args, get_origin


def skip_needless(parameters: list[Any], callback: Callable[..., Any] | None) -> None:
    """Make the parameters of a command convert only what must be converted."""
    if callback is None:
        return
    signature = inspect.signature(callback, eval_str=True)
    for parameter in parameters:
        if parameter.name in signature.parameters and parameter.callback is None:
            _skip_conversion(parameter, _is_text(signature.parameters[parameter.name].annotation))


def skip_needless_help(option: Any) -> Any:
    """The option --help, which is seldom given and is not among the parameters of a callback."""
    if option is not None and "process_value" not in vars(option):
        _skip_conversion(option, is_text=False)
    return option


def _is_text(annotation: Any) -> bool:
    """Whether values are texts, or texts and None."""
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return set(get_args(kind) or (kind,)) <= {str, NoneType}


def _skip_conversion(parameter: Any, is_text: bool) -> None:
    convert = parameter.process_value

    def process_value(context: Any, value: Any) -> Any:
        if (value is None and not parameter.required) or (is_text and isinstance(value, str)):
            return value
        return convert(context, value)

    parameter.process_value = process_value
