"""``invariance completion``: a script that lets a shell complete what is typed.

All names are in the script, so that a key press starts no program. It is made from the
settings, as flags are.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro import conf

from ..data import DATA_SETS
from ..methods import METHODS
from ..training import STRATEGIES, VIEWS
from ._flags import Flag, list_flags

ENCODERS = (
    *("auto", "tiny", "mlp", "resnet18", "resnet50", "vit_tiny_patch16_224"),
    *("text_tiny", "text_small", "text_base", "cpc_small", "cpc_conv", "cpc_audio"),
    *("gin", "gin_mean"),
)
# What a setting may be called where any text is read: other names are no error.
NAMES: dict[str, Iterable[str]] = {
    "data": DATA_SETS,
    "device": ("auto", "cpu", "cuda"),
    "encoder": ENCODERS,
    "machine.strategy": STRATEGIES,
    "method": METHODS,
    "views": ("auto", *VIEWS),
}
BASH = """\
# Completes 'invariance' in {shell}; made by: invariance completion {shell}
{start}_invariance() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" flag="" words="" place
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    if [[ "$word" == -* ]]; then
        case "${{COMP_WORDS[1]}}" in
{flags}
        esac
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    for ((place = COMP_CWORD - 1; place > 1; place--)); do
        if [[ "${{COMP_WORDS[place]}}" == -* ]]; then
            flag="${{COMP_WORDS[place]}}"
            break
        fi
    done
    case "$flag" in  # the others take one value, or none
        {many}) ;;
        *) ((place == COMP_CWORD - 1)) || flag="" ;;
    esac
    case "${{COMP_WORDS[1]}} $flag" in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _invariance invariance
"""
ZSH_START = """\
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print a script with which a shell completes commands, flags and names."""

    shell: Annotated[Literal["bash", "zsh", "fish"], conf.Positional]
    """Which shell. One line in its startup file is enough: 'eval "$(invariance
    completion bash)"' in ~/.bashrc, the same with zsh in ~/.zshrc, and 'invariance
    completion fish | source' in ~/.config/fish/config.fish."""

    def run(self) -> int:
        """Print the script."""
        from ._main import COMMANDS

        flags = list_all_flags(COMMANDS)
        make = make_fish_script if self.shell == "fish" else make_bash_script
        print(make(flags, self.shell), end="")
        return 0


def list_all_flags(commands: Mapping[str, Any]) -> dict[str, list[Flag]]:
    """What every command can be told; a sweep takes all that training does."""
    flags = {
        name: list_flags(kind) for name, kind in commands.items() if name != "sweep"
    }
    settings = tuple(flag.names[0][2:] for flag in flags["train"] if flag.names)
    vary = Flag("vary", ("--vary",), "NAME VALUE ...", settings, "", "What varies.")
    sweep = Flag("sweep", ("--sweep",), "NAME", (), "", "Name of the sweep.")
    flags["sweep"] = [*flags["train"], vary, sweep]
    what = Flag("command", (), "COMMAND", tuple(commands), "", "Which command.")
    return {name: flags[name] for name in commands} | {"help": [what]}


def find_words(flag: Flag) -> tuple[str, ...]:
    """The values that are offered for a flag."""
    return flag.choices or tuple(NAMES.get(flag.setting, ()))


def takes_many(flag: Flag) -> bool:
    """Whether several values may follow it."""
    return "..." in flag.value


def make_bash_script(flags: Mapping[str, list[Flag]], shell: str = "bash") -> str:
    """For bash, and for zsh, which reads bash's completions."""
    names = {
        command: [
            *(n for flag in command_flags for n in flag.names),
            "--help",
            "--help-all",
        ]
        for command, command_flags in flags.items()
    }
    by_words: dict[str, list[str]] = {}  # where each list of words is offered
    for command, command_flags in flags.items():
        for flag in command_flags:
            if words := " ".join(find_words(flag)):
                by_words.setdefault(words, []).extend(
                    f'"{command} {name}"' for name in flag.names or ("",)
                )
    many = {
        n: 1
        for command_flags in flags.values()
        for f in command_flags
        if takes_many(f)
        for n in f.names
    }
    indent = " " * 8
    return BASH.format(
        shell=shell,
        start=ZSH_START if shell == "zsh" else "",
        commands=" ".join(flags),
        flags="\n".join(
            f'{indent}{command}) words="{" ".join(flag_names)}" ;;'
            for command, flag_names in names.items()
        ),
        many=" | ".join(many),
        values="\n".join(
            f'{indent}{" | ".join(places)}) words="{words}" ;;'
            for words, places in by_words.items()
        ),
    )


def make_fish_script(flags: Mapping[str, list[Flag]], shell: str = "fish") -> str:
    """For fish, which also shows what a flag does."""
    lines = [
        f"# Completes 'invariance' in {shell}; made by: invariance completion fish"
    ]
    first = "complete -c invariance -n __fish_use_subcommand -f -a"
    lines += [f"{first} '{name}'" for name in flags]
    for command, command_flags in flags.items():
        start = f"complete -c invariance -n '__fish_seen_subcommand_from {command}'"
        for flag in command_flags:
            words = " ".join(find_words(flag))
            offered = f" -a '{words}'" if words else ""
            if not flag.names:
                lines += [start + offered] if words else []
                continue
            about = re.split(r"[.;:] ", flag.help)[0].rstrip(".").replace("'", "\\'")
            for name in flag.names:
                long = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                value = " -r" + offered if flag.value else ""
                lines.append(f"{start} {long}{value} -d '{about}'")
    return "\n".join(lines) + "\n"
