"""Commands as Typer runs them: errors become one line and an exit code, help comes in sections."""

from __future__ import annotations

import sys
from typing import Any

from typer import Abort
from typer.core import TyperCommand, TyperGroup

from lineal.cli.messages import report


class Command(TyperCommand):
    """A command whose help shows its options in sections, where they name one."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The argument and option lists of the help."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(TyperGroup):
    """The program. A command returns its exit code or None; an error it raises becomes one line and a code."""

    def main(self, args: Any = None, prog_name: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run, and leave with an exit code."""
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except Abort:  # what Click makes of Ctrl-C before a command runs
            code = report(KeyboardInterrupt())
        except Exception as error:
            code = report(error)
        if not standalone_mode:
            return code
        sys.exit(code or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Interruptions are caught here, before Click translates them."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()  # a full disk must fail here, not in the interpreter's last moments
            return code
        except (KeyboardInterrupt, OSError) as error:
            return report(error)
