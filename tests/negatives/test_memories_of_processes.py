"""A memory in a loop of one's own, on two processes, and the page that shows it."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from tests.processes import on_processes

import invariance as inv

PAGE = Path(__file__).parents[2] / "docs" / "many_devices.md"
KEYS = torch.nn.functional.normalize(torch.randn(9, 4, dtype=torch.float64), dim=1)
IDS = torch.arange(9)
SHARES = (5, 4)


def memories():
    return inv.Queue(12, width=4).double(), inv.Bank(9, width=4, seed=0).double()


@pytest.fixture(scope="module")
def remembered():
    """By one process that is given all rows."""
    one = memories()
    for memory in one:
        memory.remember(KEYS, IDS)
    return [memory.state_dict() for memory in one]


def remember_own_rows(rank):
    keys, ids = KEYS.split(SHARES)[rank], IDS.split(SHARES)[rank]
    states = []
    for memory in memories():
        memory.gather = True
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            memory.remember(keys, ids)
        states.append(memory.state_dict())
    silent, *_ = memories()
    with pytest.warns(UserWarning, match="set its gather to True"):
        silent.remember(keys, ids)
    return states


def test_with_gather_every_process_remembers_the_rows_of_all(remembered, tmp_path):
    for states in on_processes(2, remember_own_rows, tmp_path):
        for state, expected in zip(states, remembered, strict=True):
            for name, value in expected.items():
                torch.testing.assert_close(state[name], value)


def run_the_page(rank):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    code = code.replace('dist.init_process_group("gloo")', "")  # there is one
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exec(compile(code, str(PAGE), "exec"), names)
    return [p.detach() for p in names["network"].parameters()], names["queue"].z


def test_the_loop_on_the_page_runs_and_keeps_processes_alike(tmp_path):
    first, second = on_processes(2, run_the_page, tmp_path)
    torch.testing.assert_close(first, second)
