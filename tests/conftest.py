"""Fixtures every test may use."""

import jaxtyping
import pytest


@pytest.fixture
def our_errors(monkeypatch):
    """Switch the shape checks of the test run off, to reach the package's own."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
