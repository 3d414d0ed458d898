"""Help: the options that matter with --help, all of them with --help-all, and `lineal help COMMAND`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from lineal.cli.conversion import skip_needless, skip_needless_help

_COLUMNS = ("label", "weight", "text", "categorical", "ignore")
_READING = ("format", "index_base", "delimiter", "na")

#: The options that --help shows, by command; it shows all of those of other commands.
MAIN = {
    "train": (
        "model", "online", "validate", "holdout", "json", "loss", "penalty", "alpha", "class_weight", "probability",
        "max_time", *_COLUMNS,
    ),
    "path": ("model", "plot", "json", "scoring", "select", "folds", "loss", "penalty", "class_weight", *_COLUMNS),
    "predict": ("output", "proba", "scores", "json", *_READING),
    "evaluate": ("json", "label", "weight", *_READING),
    "inspect": ("top", "features", "json", *_COLUMNS, *_READING),
    "convert": ("json", "dtype", *_COLUMNS, *_READING),
}  # fmt: skip

#: Options that every command has.
_ALWAYS = ("help", "help_all")

_SHOWS_ALL = "lineal.cli.help.all"


class Command(TyperCommand):
    """A command whose help lists its options in sections, and that converts only what must be converted."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        skip_needless(self.params, self.callback)

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        return skip_needless_help(super().get_help_option(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options to the help."""
        shown = None if ctx.meta.get(_SHOWS_ALL) else MAIN.get(str(self.name))
        sections: dict[str, list[tuple[str, str]]] = {}
        hidden = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            if shown is not None and not is_argument and parameter.name not in (*shown, *_ALWAYS):
                hidden += 1
                continue
            title = parameter.rich_help_panel if isinstance(parameter, TyperArgument | TyperOption) else None
            sections.setdefault(title or ("Arguments" if is_argument else "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{hidden} more options: {ctx.command_path} --help-all")


def with_help_all(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the flag --help-all."""
    signature = inspect.signature(command, eval_str=True)
    info = typer.Option(
        "--help-all",
        help="Show all options.",
        is_eager=True,
        expose_value=False,
        callback=_print_all,
        show_default=False,
    )
    added = inspect.Parameter(
        "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, info]
    )

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        values.pop(added.name, None)  # its callback has done what it asks for
        return command(**values)

    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])  # type: ignore[attr-defined]
    run.__annotations__ = {
        **{name: p.annotation for name, p in signature.parameters.items()},
        "help_all": added.annotation,
    }
    return run


def _print_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        print(context.get_help())
        raise typer.Exit


def help(
    context: typer.Context,
    command: Annotated[str | None, typer.Argument(metavar="COMMAND", help="Command to explain.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all options, as --help-all does.")] = False,
) -> None:
    """Explain a command: the same as lineal COMMAND --help."""
    root = context.find_root()
    if command is None:
        print(root.get_help())
        return
    program: Any = root.command
    name, found, _ = program.resolve_command(root, [command])
    own = found.make_context(name, [], parent=root, resilient_parsing=True)
    own.meta[_SHOWS_ALL] = everything
    print(own.get_help())
