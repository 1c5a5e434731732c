"""``invariance sweep``: one run for every combination of values, one page on all."""

import itertools
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvarianceError, SettingError
from ..folder import (
    CONFIG,
    ENCODER,
    differing_settings,
    read_record,
    read_settings,
    show_value,
)
from ..training import Train, check_names, check_numbers, usual_settings
from ..words import count
from ._train_command import train

HELP = """usage: invariance sweep [FLAGS OF TRAIN] --vary NAME VALUE VALUE ...

Train with every combination of values, and compare the runs on one page.
  invariance sweep photos --epochs 9 --vary optim.lr 0.002 0.004 --vary seed 0 1
  --vary NAME VALUE VALUE ...   a setting of 'invariance train' and its values
  --sweep NAME                  name of the sweep. Default: after the data

All other flags are those of 'invariance train'. Runs are folders of
runs/<sweep>, named by what varies. Give the same command again to
continue: finished runs stay, and one that was stopped is resumed."""
PAGE = "comparison.html"
VARY = (
    "--vary needs a setting and two values or more, as in --vary optim.lr 0.002 0.004"
)


@dataclass(frozen=True)
class Sweep:
    """Train with every combination of values, and compare the runs on one page."""

    runs: dict[str, Train]
    """By the name of the run, which says what varies."""
    folder: Path
    command: str
    """What to type to go on."""

    def run(self) -> int:
        """Train what is left, then write the page."""
        for name in self.runs:
            self.check(name)
        failed = {}
        for k, (name, settings) in enumerate(self.runs.items(), 1):
            folder = self.folder / name
            if (folder / ENCODER).exists():
                print(f"{k}/{len(self.runs)} {name}: finished before", flush=True)
                continue
            print(f"{k}/{len(self.runs)} {name}", flush=True)
            if (folder / CONFIG).exists():
                settings = Train(resume=str(folder), quiet=settings.quiet)
            try:
                if train(settings) != 0:  # somebody wants it to stop
                    print(f"Continue the sweep with: {self.command}")
                    return 130
            except InvarianceError as error:
                failed[name] = str(error)
                print(f"invariance: {error}", file=sys.stderr, flush=True)
        return self.summarize(failed)

    def check(self, name: str) -> None:
        """Raise a sentence if a run of that name was made with other settings."""
        folder = self.folder / name
        if not (folder / CONFIG).exists():
            return
        made, asked = read_settings(folder, Train), self.runs[name]
        wanted = differing_settings(asked, Train())
        other = {
            key: (value, theirs)
            for key, (value, theirs) in differing_settings(asked, made).items()
            if key in wanted and key not in ("quiet", "out", "name")
        }
        if other:
            key, (value, theirs) = next(iter(other.items()))
            raise SettingError(
                f"{folder} was made with {key} {show_value(theirs)}, but this sweep "
                f"asks for {show_value(value)}: choose another --sweep NAME."
            )

    def summarize(self, failed: dict[str, str]) -> int:
        """What came of it, and where the page is; 2 if a run failed."""
        from ..report import write_comparison

        done = [self.folder / name for name in self.runs if name not in failed]
        print(f"{count(len(done), 'run')} of {len(self.runs)} finished.")
        if len(done) > 1:
            for folder in done:
                read_record(folder)
            page = write_comparison(done, self.folder / PAGE, usual_settings())
            print(f"comparison: {page}")
        for name, why in failed.items():
            print(f"failed: {name}: {why}", file=sys.stderr)
        return 2 if failed else 0


def read_sweep(words: Sequence[str], parse: Callable[[list[str]], Train]) -> Sweep:
    """The runs that the words ask for; settings nobody can train with are refused now.

    Args:
        words: After 'invariance sweep'.
        parse: Reads the words of 'invariance train'.
    """
    rest, varied, name = split_words(words)
    if not varied:
        raise SettingError(f"{VARY}.")
    base = parse(rest)
    name = name or f"{base.name or Path(base.data).name}-sweep"
    folder = Path(base.out) / name
    runs = {}
    for values in itertools.product(*varied.values()):
        pairs = dict(zip(varied, values, strict=True))
        label = "-".join(
            f"{key.split('.')[-1]}_{value}" for key, value in pairs.items()
        )
        label = label.replace("/", "_")
        flags = [word for key, value in pairs.items() for word in (f"--{key}", value)]
        destination = ["--name", label, "--out", str(folder)]
        runs[label] = parse([*rest, *flags, *destination])
        check_numbers(runs[label])
        check_names(runs[label])
    return Sweep(runs, folder, shlex.join(["invariance", "sweep", *words]))


def split_words(
    words: Sequence[str],
) -> tuple[list[str], dict[str, list[str]], str | None]:
    """The words of 'invariance train', what varies, and the name of the sweep.

    >>> split_words(["shapes", "--vary", "seed", "0", "1", "--epochs", "3"])
    (['shapes', '--epochs', '3'], {'seed': ['0', '1']}, None)
    """
    rest: list[str] = []
    varied: dict[str, list[str]] = {}
    name, k = None, 0
    while k < len(words):
        word, k = words[k], k + 1
        if word not in ("--vary", "--sweep"):
            rest.append(word)
            continue
        end = next((j for j in range(k, len(words)) if words[j].startswith("--")), None)
        given = list(words[k:end])
        if word == "--sweep":
            if not given:
                raise SettingError("--sweep needs a name.")
            name, k = given[0], k + 1
            continue
        k = len(words) if end is None else end
        key, values = given[0] if given else "", list(dict.fromkeys(given[1:]))
        if len(values) < 2:
            raise SettingError(f"{VARY}: got {' '.join([word, *given])}.")
        if key in varied:
            raise SettingError(f"{key} varies twice: name all its values at once.")
        varied[key.replace("_", "-")] = values
    return rest, varied, name
