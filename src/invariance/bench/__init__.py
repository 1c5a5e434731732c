"""What this machine does, beside the reference machine and what it could do at best.

``measure_machine`` times the loss, the views, training steps and decoding, and the four
things that limit them: arithmetic, memory, the start of small operations, and cores.
``invariance bench`` prints what it found.
"""

from ._ceilings import Ceilings, measure_ceilings
from ._machine_report import (
    MachineReport,
    measure_machine,
    read_reference,
    write_reference,
)
from ._timed_work import LIMITS, Work

__all__ = [
    "LIMITS",
    "Ceilings",
    "MachineReport",
    "Work",
    "measure_ceilings",
    "measure_machine",
    "read_reference",
    "write_reference",
]
