"""The application: its commands in the order of its help."""

from __future__ import annotations

from typing import Annotated

import typer

import lineal
from lineal.cli.compact import compact
from lineal.cli.convert import convert
from lineal.cli.demo import demo
from lineal.cli.evaluate import evaluate
from lineal.cli.files import with_checked_files
from lineal.cli.inspect import inspect
from lineal.cli.path import path
from lineal.cli.predict import predict
from lineal.cli.shell import Command, Group
from lineal.cli.train import train
from lineal.cli.warmup import warmup

app = typer.Typer(
    name="lineal", cls=Group, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip

for command in (train, path, predict, evaluate, inspect, compact, convert, demo, warmup):
    app.command(cls=Command)(with_checked_files(command))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lineal {lineal.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Large-scale linear classification, with a certificate on every answer. New here? Run: lineal demo."""
    if context.invoked_subcommand is None:
        print(context.get_help())
