"""Fixtures every test may use."""

import os
import signal

import jaxtyping
import pytest
import torch

# The fused kernels run on a CUDA device or, in a call of their own, interpreted: the
# variable must be set before anything imports Triton (see the Makefile).
CAN_FUSE = os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.is_available()
collect_ignore = [] if CAN_FUSE else ["fused"]


@pytest.fixture
def our_errors(monkeypatch):
    """Switch the shape checks of the test run off, to reach the package's own."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """Tables and help are as wide as they come, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def hear_hangups():
    """Processes that a test starts hear SIGHUP, also where nohup runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
