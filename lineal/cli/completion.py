"""`lineal completion`: a script that makes a shell complete commands and flags.

The script holds all names, so that completing needs no start of Python.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lineal.errors import OptionError, nearest

PROGRAM = "lineal"


def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that makes a shell complete commands and flags.

    For bash, add to ~/.bashrc: eval "$(lineal completion bash)". For zsh, the same with zsh in ~/.zshrc, after
    compinit. For fish: lineal completion fish > ~/.config/fish/completions/lineal.fish
    """
    if shell not in SCRIPTS:
        raise OptionError(f"there is no completion for the shell {shell!r}: {nearest(shell, SCRIPTS)}")
    print(SCRIPTS[shell](_flags_of_commands(context.find_root())))


def _flags_of_commands(root: Any) -> dict[str, tuple[str, dict[str, str]]]:
    """For each command its line of help, and its flags with theirs."""
    found = {}
    for name in root.command.list_commands(root):
        command = root.command.get_command(root, name)
        own = command.make_context(name, [], parent=root, resilient_parsing=True)
        flags = {
            flag: getattr(parameter, "help", None) or ""
            for parameter in command.get_params(own)
            if parameter.param_type_name == "option"
            for flag in (*parameter.opts, *parameter.secondary_opts)
        }
        found[name] = (command.get_short_help_str(80), flags)
    return found


def _bash(commands: dict[str, tuple[str, dict[str, str]]]) -> str:
    cases = "\n".join(f'        {name}) words="{" ".join(flags)}" ;;' for name, (_, flags) in commands.items())
    return f"""_{PROGRAM}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || {{ [ "$COMP_CWORD" -eq 2 ] && [ "${{COMP_WORDS[1]}}" = help ]; }}; then
        COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
        return
    fi
    case "$current" in -*) ;; *) return ;; esac
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _{PROGRAM} {PROGRAM}"""


def _zsh(commands: dict[str, tuple[str, dict[str, str]]]) -> str:
    cases = "\n".join(f"        {name}) compadd -- {' '.join(flags)} ;;" for name, (_, flags) in commands.items())
    return f"""#compdef {PROGRAM}
_{PROGRAM}() {{
    if (( CURRENT == 2 )) || {{ (( CURRENT == 3 )) && [[ $words[2] == help ]] }}; then
        compadd -- {" ".join(commands)} --help --version
        return
    fi
    if [[ $words[CURRENT] != -* ]]; then
        _files
        return
    fi
    case $words[2] in
{cases}
    esac
}}
compdef _{PROGRAM} {PROGRAM}"""


def _fish(commands: dict[str, tuple[str, dict[str, str]]]) -> str:
    lines = []
    for name, (text, flags) in commands.items():
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {name} -d {_quoted(text)}")
        for flag, one in flags.items():
            kind = "-l" if flag.startswith("--") else "-s"
            where = f"-n '__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c {PROGRAM} {where} {kind} {flag.lstrip('-')} -d {_quoted(one)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
