"""How long `invariance train FOLDER` takes to its first step, and what it does so long.

    python benchmarks/start.py photos                      # a folder of your own
    python benchmarks/start.py photos --image-size 32 --again 3

The command is run as a user would run it: the first time, again, and again with a
packed copy of the folder. The clock starts before Python does and stops when the first
step's line is in metrics.jsonl. Meanwhile a thread beside it looks every 10 ms at what
the main thread is doing: which module outside this package it imports, or which of
our functions it is in.

Where Python may not write its bytecode beside the packages, as in a read-only image,
every start compiles all it imports: --bytecode FOLDER lets it keep that elsewhere
(PYTHONPYCACHEPREFIX), as an ordinary installation does.

The tables go to benchmarks/results/start_<device>.md, or to --out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LOOK_SECONDS = 0.01


# ------------------------------------------------- within the command that is timed


def watch(began: float, metrics: Path, report: Path) -> None:
    """Look at the main thread until the first step is recorded; then end the process.

    Args:
        began: When the command was started, by the clock that processes share.
        metrics: Where the run writes its readings.
        report: Where to write what was seen.
    """
    main = threading.main_thread().ident or 0
    seconds, marks = Counter[str](), []
    looked = time.time()
    seconds["Python itself"] = looked - began  # type: ignore[assignment]
    while not (metrics.exists() and metrics.stat().st_size):
        time.sleep(LOOK_SECONDS)
        work, now = name_work(sys._current_frames().get(main)), time.time()
        seconds[work] += now - looked  # type: ignore[assignment]
        looked = now
        if not marks or marks[-1][1] != work:
            marks.append((now - began, work))
    result = {"first step": time.time() - began, "marks": marks}
    result["seconds"] = dict(seconds.most_common())
    report.write_text(json.dumps(result))
    os._exit(0)


def name_work(frame: Any) -> str:
    """What a thread is doing: importing something, or running a function of ours."""
    ours, imported = "", ""
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if "/invariance/" in path and "/benchmarks/" not in path:
            place = path.rsplit("/invariance/", 1)[1]
            ours = ours or (f"{place}: {name}" if name != "<module>" else "imports")
        elif name == "<module>" and not ours:  # the outermost one below our import
            imported = ".".join(frame.f_globals.get("__name__", "?").split(".")[:2])
        frame = frame.f_back
    if imported and imported != "__main__":
        return f"import {imported}"
    return ours or "outside"


def run_watched(arguments: list[str]) -> None:
    """Be the command, with a thread that looks on."""
    began, metrics, report, *command = arguments
    job = float(began), Path(metrics), Path(report)
    threading.Thread(target=watch, args=job, daemon=True).start()
    from invariance.cli import main

    sys.exit(main(command))


# ------------------------------------------------------------------ around it


def time_start(folder: Path, more: list[str], environment: dict[str, str]) -> Any:
    """What ``watch`` reports of one start."""
    with tempfile.TemporaryDirectory() as place:
        metrics = Path(place) / "timed" / "metrics.jsonl"
        report = Path(place) / "report.json"
        command = ["train", str(folder), "--out", place, "--name", "timed", "--quiet"]
        command += ["--log-every", "1", "--no-evaluate", "--epochs", "1", *more]
        program = [sys.executable, __file__, "--watched", str(time.time())]
        done = subprocess.run(
            [*program, str(metrics), str(report), *command],
            stdout=subprocess.DEVNULL,
            env=os.environ | environment,
        )
        if done.returncode or not report.exists():
            raise SystemExit(f"{command} ended with {done.returncode}")
        return json.loads(report.read_text())


def time_imports(environment: dict[str, str]) -> dict[str, float]:
    """Seconds of a Python that imports this and nothing else."""
    seconds = {}
    for name in ("torch", "torch._dynamo", "invariance.training._train"):
        began = time.perf_counter()
        program = [sys.executable, "-c", f"import {name}"]
        subprocess.run(program, check=True, env=os.environ | environment)
        seconds[f"import {name}"] = time.perf_counter() - began
    return seconds


def write_tables(path: Path, starts: dict[str, Any], imports: dict[str, float]) -> None:
    """One row per start, then one table per start of where the time went."""
    lines = ["| | seconds |", "|---|---|"]
    lines += [
        f"| {k}, to the first step | {v['first step']:.2f} |" for k, v in starts.items()
    ]
    lines += [f"| {k} | {v:.2f} |" for k, v in imports.items()]
    for name, start in starts.items():
        lines += ["", f"{name}, the main thread:", "", "| | seconds |", "|---|---|"]
        shown = [(w, s) for w, s in start["seconds"].items() if s >= 0.05]
        lines += [f"| {what} | {s:.2f} |" for what, s in shown]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")
    path.with_suffix(".json").write_text(json.dumps(starts, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--encoder")
    parser.add_argument(
        "--again", type=int, default=1, help="how often the second time"
    )
    parser.add_argument("--no-pack", action="store_true", help="leave out the third")
    parser.add_argument("--bytecode", type=Path, help="where bytecode may be kept")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    size = ["--image-size", str(given.image_size)] if given.image_size else []
    more = size + (["--encoder", given.encoder] if given.encoder else [])
    path = given.out / f"start_{'cuda' if has_gpu() else 'cpu'}"
    with tempfile.TemporaryDirectory() as scratch:
        environment = {"INVARIANCE_DATA": scratch}  # nobody's packs are touched
        if given.bytecode:
            prefix = str(given.bytecode.absolute())
            environment |= {
                "PYTHONPYCACHEPREFIX": prefix,
                "PYTHONDONTWRITEBYTECODE": "",
            }
        starts: dict[str, Any] = {}

        def add(name: str) -> None:
            starts[name] = time_start(given.folder, more, environment)
            print(f"{name:28} {starts[name]['first step']:6.2f} s", flush=True)

        add("the first time")
        for k in range(given.again):
            add(f"again {k + 1}")
        if not given.no_pack:
            command = [sys.executable, "-m", "invariance", "pack", str(given.folder)]
            subprocess.run([*command, *size], check=True, env=os.environ | environment)
            for k in range(1 + given.again):
                add(f"with a packed copy {k + 1}")
        imports = time_imports(environment)
        write_tables(path, starts, imports)
    print(path.with_suffix(".md").read_text())


def has_gpu() -> bool:
    """Whether training would run on one; asked elsewhere, so as to keep it idle."""
    program = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return not subprocess.run([sys.executable, "-c", program]).returncode


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watched"]:
        run_watched(sys.argv[2:])
    else:
        main()
