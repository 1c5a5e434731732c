"""Shells complete commands, flags and names; bash is asked itself."""

import subprocess

import pytest

from invariance.cli import COMMANDS
from invariance.encoders import ENCODERS, OTHERS
from invariance.methods import METHODS
from invariance.views import RECIPES

ASK = """
source ./script
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ "$line" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _invariance
    echo "${COMPREPLY[*]}"
done
complete -p invariance
"""


@pytest.fixture
def complete(command, tmp_path):
    """What bash offers for the beginnings of some lines; each ends where one is."""
    _, script, _ = command("completion", "bash")
    (tmp_path / "script").write_text(script)

    def ask(*lines):
        done = subprocess.run(
            ["bash", "--norc", "-c", ASK],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.stderr == "" and done.returncode == 0
        *answers, known = done.stdout.splitlines()
        assert known.endswith("-F _invariance invariance") and "-o default" in known
        return [answer.split() for answer in answers]

    return ask


def test_bash_completes_what_people_type(complete):
    cases = {
        "invariance tr": ["train"],
        "invariance help ev": ["evaluate"],
        "invariance train --ep": ["--epochs"],
        "invariance train --quiet --no-q": ["--no-quiet"],
        "invariance train --method simc": ["simclr", "simcse"],
        "invariance train --optim.name ": ["sgd", "adamw", "lars"],
        "invariance train cifar10": ["cifar10", "cifar100"],
        "invariance train --method simclr cifar10": ["cifar10", "cifar100"],
        "invariance evaluate runs/a --protocols knn linear_": ["linear_sgd"],
        "invariance list m": ["methods"],
        "invariance sweep --vary optim.l": ["optim.lr", "optim.lr-scaling"],
        "invariance completion z": ["zsh"],
        "invariance report runs/a": [],  # then bash offers files
        "invariance train --epochs 3 --limit ": [],
    }
    assert dict(zip(cases, complete(*cases), strict=True)) == cases


def test_everything_by_name_is_offered(complete):
    lines = ["invariance ", "invariance train --method ", "invariance train --views "]
    commands, methods, views, encoders = map(
        set, complete(*lines, "invariance train --encoder ")
    )
    assert commands == {*COMMANDS, "help"}
    assert methods == set(METHODS) and views == {"auto", *RECIPES}
    assert {*ENCODERS, *(n for names in OTHERS.values() for n in names)} <= encoders


def test_other_shells_know_the_same(command):
    _, zsh, _ = command("completion", "zsh")
    _, bash, _ = command("completion", "bash")
    assert "bashcompinit" in zsh
    assert bash.splitlines()[1:] == zsh.splitlines()[4:]
    _, fish, _ = command("completion", "fish")
    lines = fish.splitlines()
    epochs = "-l epochs -r -d 'Passes over the data'"
    start = "complete -c invariance -n '__fish_seen_subcommand_from train'"
    assert f"{start} {epochs}" in lines
    assert all(line.count("'") % 2 == 0 or "\\'" in line for line in lines[1:])
    assert sum(line.startswith(f"{start} -l method ") for line in lines) == 1


def test_the_script_is_made_without_torch(python):
    code = """
import sys
from invariance.cli import main
print(main(["completion", "bash"]), "torch" in sys.modules, file=sys.stderr)
"""
    assert python(code).rstrip().endswith("0 False")


def test_a_shell_nobody_knows_is_refused(command):
    code, _, complained = command("completion", "tcsh")
    assert code == 2 and "fish" in complained
