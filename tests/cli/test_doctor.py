"""``invariance doctor``: every part is tried, and a fault is named."""

import json
import re
import tomllib
from pathlib import Path

from tools.lowest import OWN_TOOLS

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
DOCTOR = "invariance.cli._doctor"


def test_a_healthy_machine_is_told_so(command):
    code, said, _ = command("doctor")
    assert code == 0
    assert said.splitlines()[-1] == "Everything works."
    assert "two steps, 256 features" in said


def test_a_fault_is_named_and_fails_the_command(command, monkeypatch):
    def broken(folder):
        raise OSError("the disk is gone")

    monkeypatch.setattr(f"{DOCTOR}.try_loss", broken)
    monkeypatch.setattr(f"{DOCTOR}.try_training", lambda folder: "skipped")
    monkeypatch.setattr(f"{DOCTOR}.find_version", lambda name: None)
    code, said, _ = command("doctor", "--json")
    assert code == 2
    findings = {each["name"]: each for each in json.loads(said)["findings"]}
    assert findings["loss"] == {
        "name": "loss",
        "state": "bad",
        "words": "OSError: the disk is gone",
    }
    assert findings["torch"]["words"] == "missing: pip install torch"
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    for extra in extras.keys() - OWN_TOOLS:
        for package in extras[extra]:
            finding = findings[re.match(r"[\w-]+", package)[0]]
            assert finding["state"] == "optional"
            assert f"'invariance[{extra}]'" in finding["words"]
