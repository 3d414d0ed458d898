"""The application: its commands in the order of its help, and how Typer runs them."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lineal
from lineal.cli.compact import compact
from lineal.cli.completion import completion
from lineal.cli.conversion import skip_needless_help
from lineal.cli.convert import convert
from lineal.cli.demo import demo
from lineal.cli.evaluate import evaluate
from lineal.cli.files import with_checked_files
from lineal.cli.help import Command, help, with_help_all
from lineal.cli.inspect import inspect
from lineal.cli.path import path
from lineal.cli.predict import predict
from lineal.cli.terminal import report, say, say_error
from lineal.cli.train import train
from lineal.cli.warmup import warmup
from lineal.cli.wording import for_command_line, remember_arguments

#: What Typer raises for a wrong command line. Click defines it, which Typer may bring along as its own copy.
USAGE_ERROR: Any = typer.BadParameter.__base__


class Group(TyperGroup):
    """The program. A command returns its exit code or None; an error becomes one line and an exit code."""

    def main(self, args: Any = None, prog_name: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run the program and leave with an exit code."""
        remember_arguments(args)
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except typer.Abort:  # what Click makes of Ctrl-C before a command runs
            code = report(KeyboardInterrupt())
        except USAGE_ERROR as error:
            hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
            code = say_error(f"{error.format_message()}{hint}")
        except Exception as error:
            code = report(error)
        if not standalone_mode:
            return code
        sys.exit(code or 0)

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        return skip_needless_help(super().get_help_option(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Interrupts are caught here, before Click translates them. Warnings become one line each."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: say(f"warning: {for_command_line(str(message))}")
                code = super().invoke(ctx)
            sys.stdout.flush()  # a full disk must fail here, not while the interpreter shuts down
            return code
        except (KeyboardInterrupt, OSError) as error:
            return report(error)


app = typer.Typer(
    name="lineal", cls=Group, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip

for command in (train, path, predict, evaluate, inspect, compact, convert, demo, warmup):
    app.command(cls=Command)(with_help_all(with_checked_files(command)))
app.command(cls=Command)(with_help_all(help))
app.command(cls=Command)(with_help_all(completion))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lineal {lineal.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Large-scale linear classification. Every answer comes with a certificate. New here? Run: lineal demo."""
    if context.invoked_subcommand is None:
        print(context.get_help())
