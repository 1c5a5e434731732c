"""A dry run's memory and time beside those of the run, with two processes.

Memory is that of a whole process: Python and its libraries take some 750 MB of it, the
activations of its share 160 MB, so a tenth would show if they were forgotten. Time is
only looked at: machines that test are busy. One process, and more sizes, are in
benchmarks/results/predictions_cpu.md.
"""

import pytest

from predictions import compare, page


def test_memory_is_as_predicted():
    row = compare("cpu", 2, 512, "simclr", images=512, epochs=2)
    assert float(row["ratio"]) == pytest.approx(1, abs=0.1)
    assert float(row["ratio "]) > 0
    assert "| simclr | tiny, 32 pixels | 2 | 512 |" in page([row], None)
