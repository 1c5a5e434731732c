"""Help is quick because it imports no torch; ``list`` names what there is."""

import json
import os
import subprocess
import sys

import pytest

import invariance as inv
from invariance.cli import COMMANDS as BY_NAME
from invariance.cli import list_flags, parse
from invariance.data import DATA_SETS
from invariance.encoders import ENCODERS, OTHERS
from invariance.errors import SettingError
from invariance.estimators import ESTIMATORS
from invariance.evaluation import PRESETS
from invariance.methods import METHODS
from invariance.objectives import OBJECTIVES
from invariance.training import Train, check_names
from invariance.views import RECIPES

Evaluate = BY_NAME["evaluate"]
COMMANDS = ("train", "evaluate", "diagnose", "embed", "export", "list", "report")
COMMANDS += (
    "search",
    "estimate",
    "pack",
    "bench",
    "reproduce",
    "doctor",
    "share",
    "views",
    "sweep",
    "watch",
    "completion",
)
HELP = """
import sys
from invariance.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as left:
    code = left.code
print("left with", code)
heavy = [m for m in ("torch", "timm", "numpy", "lightning_fabric") if m in sys.modules]
print("heavy:", heavy)
"""


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["estimate", "-h"], ["bench", "-h"], []]
)
def test_help_imports_no_torch(words, python):
    said = python(HELP, *words)
    assert "left with 0" in said and said.rstrip().endswith("heavy: []")
    assert "invariance" in said
    if words[:1] == ["train"]:
        assert "--batch-size" in said and "Passes over the data" in said


@pytest.mark.parametrize(
    "what, names",
    [
        ("methods", METHODS),
        ("objectives", OBJECTIVES),
        (
            "encoders",
            [
                *(name for names in (ENCODERS, *OTHERS.values()) for name in names),
                *("NAME", "torchvision/NAME", "transformers/NAME", "geometric/NAME"),
            ],
        ),
        ("estimators", ESTIMATORS),
        ("data", [*DATA_SETS, "PATH"]),
        ("views", RECIPES),
        ("presets", PRESETS),
    ],
)
def test_list_names_everything(what, names, command):
    code, said, _ = command("list", what)
    assert code == 0
    lines = [line.split() for line in said.splitlines() if not line.startswith(" ")]
    assert [line[0] for line in lines] == list(names)
    assert all(len(line) > 1 for line in lines)


def test_every_method_says_when_to_take_it(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, said, _ = command("list", "methods")
    assert said.splitlines()[0] == "simclr              the first to try, on any data"
    assert len(said.splitlines()) == len(METHODS)  # a line for each
    assert all(method.use for method in METHODS.values())


@pytest.mark.parametrize("what", ["objectives", "presets"])
def test_list_fits_the_terminal(what, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, said, _ = command("list", what)
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("   ") for line in lines)


def test_list_says_what_a_method_can_be_told(command):
    code, said, _ = command("list", "methods", "kcl")
    assert code == 0
    kernel = "gaussian, log, imq, riesz, gaussian_riesz  How nearness is measured."
    assert f"kernel     gaussian  {kernel}" in said.splitlines()
    code, said, _ = command("list", "methods", "moco")
    lines = {line.split(" ")[0]: line.split() for line in said.splitlines()}
    assert lines["momentum"][1:5] == ["0.99", "0", "to", "1"]
    assert lines["size"][1] == "4096" and "--temperature" in said
    code, said, _ = command("list", "methods", "simsiam")
    assert code == 0 and "none" in said.splitlines()
    assert "\nreleased: facebookresearch/simsiam: SGD at 0.05 x batch / 256" in said
    assert "\nhere, as for every method: adamw at 0.004 for 256 samples, decay" in said


def test_list_says_what_views_are_made_of(command):
    code, said, _ = command("list", "views", "simclr")
    assert code == 0
    assert "at 32 pixels, 2 views by default: crop, flip, color, gray" in said
    assert "at 224 pixels, 2 views by default: crop, flip, color, gray, blur" in said
    assert "strength  none  0 to 2.5, or none  Of the colors;" in said
    code, said, _ = command("list", "views", "identity")
    assert code == 0 and "1 view by default: nothing random" in said


@pytest.mark.parametrize(
    "words, message",
    [
        (("methods", "kxl"), "Unknown method 'kxl'. Did you mean 'kcl'?"),
        (("views", "symclr"), "Unknown views 'symclr'. Did you mean 'simclr'?"),
        (("data", "shapes"), "Methods and views can be chosen by name, and runs by an"),
    ],
)
def test_what_list_does_not_know(words, message, command):
    code, _, complained = command("list", *words)
    assert code == 2 and message in complained


@pytest.mark.parametrize(
    "expression, answer",
    [
        ("lr < 0.1", "Unknown setting 'lr'. Did you mean 'optim.lr'?"),
        ("warmup > 0", "Unknown setting 'warmup'. Did you mean 'optim.warmup'?"),
        ("epoch_count < 1", "Unknown setting 'epoch_count'. Did you mean"),
    ],
)
def test_a_setting_without_its_group_is_recognized(
    expression, answer, command, tmp_path
):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "config.yaml").write_text("{}")
    code, _, complained = command("list", "runs", expression)
    assert code == 2 and answer in complained and "Known:" not in complained


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_name_can_be_printed_whatever_the_output_takes(encoding, tmp_path):
    """Emoji, and bytes that are no text, as old archives have them in file names."""
    for name in (b"caf\xc3\xa9", "\N{CAMERA}".encode(), b"caf\xe9"):
        folder = tmp_path / "runs" / os.fsdecode(name)
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "invariance", "list", "runs"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.count(b"runs/") == 3 and b"stopped" in done.stdout


def test_list_runs(command, tmp_path):
    code, said, complained = command("list", "runs")
    assert (code, said) == (0, "") and complained.startswith("no runs in runs:")
    for name in ("begun", "done"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text("{}")
    done = tmp_path / "runs" / "done"
    (done / "metrics.jsonl").write_text('{"epoch": 1, "knn": 0.5}\n{"epoch": 1.5}\n')
    (done / "encoder.safetensors").write_text("")
    code, said, _ = command("list", "runs")
    assert code == 0
    assert [" ".join(line.split()) for line in said.splitlines()] == [
        "run method data batch epochs rate kNN linear state",
        "runs/begun simclr shapes 128 0/20 0.004 stopped",
        "runs/done simclr shapes 128 1.5/20 0.004 (50.0) finished",
        "(in brackets: among training samples, while it trained)",
    ]


def test_settings_that_a_run_chose_are_listed(command, tmp_path):
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("batch_size: null\nencoder: auto\nseed: 1\n")
    chosen = {"batch_size": 96, "encoder": "resnet18"}
    (folder / "env.json").write_text(json.dumps({"used": chosen}))
    assert "runs/a  simclr  shapes     96" in command("list", "runs")[1]
    assert command("list", "runs", "batch_size < 100 and encoder == 'resnet18'")[1]


def test_runs_are_sorted_by_what_one_asks_for(command, tmp_path):
    for name, method, rate, knn in (
        ("a", "moco", 0.1, 0.2),
        ("b", "dcl", 0.3, None),
        ("c", "simclr", 0.2, 0.6),
    ):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(f"method: {method}\noptim:\n  lr: {rate}\n")
        reading = {"epoch": 1} | ({} if knn is None else {"knn": knn})
        (folder / "metrics.jsonl").write_text(json.dumps(reading) + "\n")

    def order(name):
        _, said, _ = command("list", "runs", "--sort", name, "--json")
        return "".join(json.loads(line)["folder"][-1] for line in said.splitlines())

    assert order("training_knn") == "cab"  # the largest first, none at all last
    assert order("optim.lr") == "bca"
    assert order("method") == "bac"
    table = command("list", "runs", "--sort", "training_knn")[1].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["runs/c", "runs/a", "runs/b"]
    code, _, complained = command("list", "runs", "--sort", "optim.l")
    assert code == 2 and "Did you mean 'optim.lr'?" in complained
    code, _, complained = command("list", "methods", "--sort", "name")
    assert code == 2 and "Only runs are sorted" in complained


@pytest.mark.parametrize(
    "name", ["short", "photos-simclr-lr_0.004-seed_0-again-and-more"]
)
def test_the_table_of_runs_fits_80_columns(name, command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "runs" / name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("method: multi_view\n")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.yaml").write_text("[1, 2]")
    _, said, _ = command("list", "runs")
    assert max(map(len, said.splitlines())) <= 80
    assert "config.yaml cannot be read" in said and "stopped" in said


def test_two_knn_scores_are_never_mixed(command, tmp_path):
    for name in ("scored", "watched"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("{}")
        (folder / "metrics.jsonl").write_text('{"epoch": 1, "knn": 0.6}\n')
        about = {"name": "train", "parent": name, "fingerprint": f"of {name}"}
        (folder / "env.json").write_text(json.dumps({"images": about}))
    row = {"features": "trained encoder", "protocol": "knn", "metric": "accuracy"}
    row |= {"data": "train", "fingerprint": "of scored", "value": 0.4, "settings": {}}
    (tmp_path / "runs/scored/evaluation.jsonl").write_text(json.dumps(row))
    _, scored, watched, _ = command("list", "runs")[1].splitlines()
    assert " scored/train " in scored and " 40.0 " in scored
    assert " watched/train " in watched and " (60.0) " in watched
    assert command("list", "runs", "knn > 0.5")[1] == ""
    assert command("list", "runs", "knn > 0.3")[1].split("\n")[1].startswith("runs/sc")
    assert command("list", "runs", "training_knn > 0.5")[1].count("runs/") == 2
    lines = map(json.loads, command("list", "runs", "--json")[1].splitlines())
    assert [(run["knn"], run["training_knn"]) for run in lines] == [
        (0.4, 0.6),
        (None, 0.6),
    ]
    assert command("list", "methods", "--json")[0] == 2


def test_an_unknown_kind_is_refused(command):
    code, _, complained = command("list", "dogs")
    assert code == 2 and "methods" in complained


def test_a_reader_who_goes_away_is_no_error(python):
    code = """
import subprocess, sys
words = [sys.executable, "-m", "invariance", "list", "methods"]
pipe = subprocess.PIPE
with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, bufsize=1) as run:
    run.stdout.close()
    print(repr(run.stderr.read()), run.wait())
"""
    assert python(code).strip() == "'' 141"


def test_what_the_system_refuses_is_one_sentence(command, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "runs")

    monkeypatch.setattr("invariance.folder.overviews", refuse)
    code, said, complained = command("list", "runs")
    assert (code, said) == (2, "")
    assert complained == "invariance: 'runs': Permission denied.\n"


@pytest.mark.parametrize(
    "words, message",
    [
        (("trian", "photos"), "Unknown command 'trian'. Did you mean 'train'?"),
        (
            ("here",),
            "'here' is not a command: 'invariance train here' would train on it.",
        ),
        (("help", "trian"), "Unknown command 'trian'. Did you mean 'train'?"),
        (("versoin",), "Unknown command 'versoin'. Did you mean 'version'?"),
    ],
)
def test_what_is_no_command(command, tmp_path, words, message):
    (tmp_path / "here").mkdir()
    code, said, complained = command(*words)
    assert (code, said) == (2, "") and complained == f"invariance: {message}\n"


def test_version_and_help_as_people_ask_for_them(command):
    for word in ("--version", "-V", "version"):
        code, said, _ = command(word)
        assert code == 0 and said == f"invariance {inv.__version__}\n"
    for words in (["help"], ["--help"], []):
        code, said, _ = command(*words)
        assert code == 0 and "invariance train FOLDER" in said
    code, said, _ = command("help", "train")
    assert code == 0 and "[DATA]" in said and "--config FILE" in said
    assert command("train", "-h")[:2] == command("train", "--help")[:2] == (0, said)


@pytest.mark.parametrize("name, kind", [("train", Train), ("evaluate", Evaluate)])
def test_help_is_short_first_and_names_the_rest(name, kind, command):
    code, short, _ = command(name, "--help")
    assert code == 0 and len(short.splitlines()) <= 50
    assert short.splitlines()[-1].endswith(f"invariance {name} --help-all")
    examples = short[short.index("examples:") :]
    assert examples.count(f"  invariance {name}") == 3
    code, whole, _ = command(name, "--help-all")
    assert code == 0 and len(whole) > 3 * len(short)
    for flag in list_flags(kind):
        shown = any(f"  {typed} " in short for typed in (*flag.names, flag.value))
        assert shown or flag.setting not in kind.shown_first, flag.setting
        assert all(typed in whole for typed in flag.names)


def test_examples_of_the_help_are_commands():
    for kind in (Train, Evaluate):
        for line in kind.examples:
            words = line.split("  ")[0].split()[1:]
            assert isinstance(parse(words), kind)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "sweep"])
def test_flags_are_those_that_are_read(name, command, monkeypatch):
    """Short help and completion list flags by themselves; tyro must know the same."""
    monkeypatch.setenv("COLUMNS", "80")  # wider, there would be two groups per line
    _, whole, _ = command(name, "--help-all")
    starts = [line[2:].split("  ")[0].replace(",", "") for line in whole.splitlines()]
    words = {word for start in starts if start[:1] == "-" for word in start.split()}
    read = {word for word in words if word[0] == "-" and word.strip("-")}
    listed = {typed for flag in list_flags(BY_NAME[name]) for typed in flag.names}
    assert read - {"-h", "--help"} == listed


def test_help_fits_a_terminal_of_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    every = [[name, flag] for name in COMMANDS for flag in ("-h", "--help-all")]
    for words in (["help"], *every):
        _, said, _ = command(*words)
        assert max(map(len, said.splitlines())) <= 80, words
        assert "(default: )" not in said
    _, said, _ = command("help", "evaluate")
    words = " ".join(said.replace("│", " ").split())
    assert "Default: knn, linear, few_labels_linear" in words


def test_a_setting_that_may_be_unset_is_shown_by_its_kind(command, tmp_path):
    _, said, _ = command("train", "--help-all")
    assert "--limit INT" in said and "{None}" not in said and "(default: )" not in said
    (tmp_path / "mine.yaml").write_text("limit: 1\n")
    words = ("--config", "mine.yaml", "--limit", "unset", "--epochs", "0")
    code, _, complained = command("train", *words)
    assert code == 2 and "epochs must be at least 1" in complained


def test_choices_come_in_their_order(command):
    code, _, complained = command("train", "--head", "mlp9")
    words = " ".join(complained.replace("│", " ").split())
    assert code == 2 and "('none', 'linear', 'mlp2', 'mlp3', 'unset'" in words


def test_a_switch_with_three_answers_takes_any_spelling(command):
    for word, value in (("true", True), ("False", False), ("AUTO", "auto")):
        assert parse(["train", "--machine.compile", word]).machine.compile == value
    code, _, complained = command("train", "--machine.compile", "nope")
    assert code == 2 and "expected one of auto, true, false" in complained


def test_views_are_known_by_name_without_torch():
    for name in RECIPES:
        check_names(Train(views=name))
    with pytest.raises(SettingError) as error:
        check_names(Train(views="none of them"))
    assert str(error.value).endswith(f"Known: {', '.join(sorted(RECIPES))}.")


def test_only_flags_of_the_command_are_suggested(command):
    code, _, complained = command("report", "runs/a", "--epochs", "3")
    assert code == 2 and "invariance report --help" in complained
    assert "Passes over the data" not in complained
    code, _, complained = command("evaluate", "runs/a", "--config", "mine.yaml")
    assert code == 2 and "--config" in complained


@pytest.mark.parametrize(
    "words, message",
    [
        (["train", "--epochs", "0"], "epochs must be at least 1: got 0."),
        (["train", "--batch-size", "1"], "batch_size must be at least 2: got 1."),
        (["train", "--machine.devices", "0"], "machine.devices must be at least 1"),
        (
            ["train", "--machine.strategy", "foo"],
            "Unknown strategy 'foo'. Known: auto, ddp, fsdp.",
        ),
        (["train", "--temperature", "0"], "temperature must be a positive number"),
        (["train", "--method", "simclrr"], "Did you mean 'simclr'?"),
        (["train", "--views", "simclrr"], "Unknown views 'simclrr'. Did you mean"),
        (["train", "--image-size", "0"], "image_size must be at least 1: got 0."),
        (["train", "--workers", "5000"], "workers is at most"),
        (["train", "nope"], "There is no folder 'nope' either."),
        (["train", "--resume", "nope"], "There is no run to resume at 'nope'"),
        (["embed", "nope", "shapes", "-o", "a.npz"], "There is no run or encoder file"),
        (["embed", ".", "nope", "-o", "a.npz"], "There is no folder 'nope' either."),
        (
            ["embed", ".", "shapes", "-o", "a.npz", "--batch-size", "0"],
            "batch_size is 1 or more: got 0.",
        ),
        (["search", "nope", "shapes", "-q", "a.jpg"], "There is no run or encoder"),
        (["export", "nope", "--to", "onnx"], "There is no run or encoder file"),
        (["estimate", "nope.npy", "nope.npy"], "There is no file 'nope.npy'."),
        (["evaluate", "nope"], "There is no run at 'nope'"),
        (["diagnose", "nope"], "There is no run at 'nope'"),
    ],
)
def test_what_needs_no_torch_is_refused_without_it(words, message, python):
    code = """
import sys
from invariance.cli import main
print(main(sys.argv[1:]), "torch" in sys.modules)
"""
    said = python(code, *words)
    assert "2 False" in said and message in said


def test_methods_are_listed_without_torch(python):
    said = python(HELP, "list", "methods")
    assert "simclr" in said and said.rstrip().endswith("heavy: []")


def test_a_format_nobody_knows_is_answered_with_those_there_are(command):
    code, _, complained = command("export", "runs/a", "--to", "x.onnx")
    words = " ".join(complained.replace("│", " ").split())
    assert code == 2 and "('safetensors', 'timm', 'pt2', 'onnx')" in words


def test_closed_outputs_are_no_error(python):
    code = """
import os, subprocess, sys
words = [sys.executable, "-m", "invariance", *sys.argv[1:]]
for closed in ([1], [2], [1, 2]):
    shut = lambda: [os.close(number) for number in closed]
    print(subprocess.run(words, preexec_fn=shut).returncode)
"""
    said = python(code, "list", "views")
    assert said.splitlines()[-1] == "0" and "Traceback" not in said
    said = python(code, "train", "--epochs", "0")
    assert said.split().count("2") == 3 and "Traceback" not in said
