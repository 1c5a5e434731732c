"""The processes of a run: started here, or by torchrun or srun, and watched together.

Each runs the whole command. The first one on each machine starts the others there, as
many as ``machine.devices`` says, unless torchrun or srun has started them all.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ..devices import started_outside, usable_cores
from ..errors import SettingError
from ..words import count
from ._lightning import (
    ClusterEnvironment,
    Fabric,
    LightningEnvironment,
    SLURMEnvironment,
)
from ._peers import Peers
from ._settings import Machine

STARTED: dict[int, "subprocess.Popen[bytes]"] = {}
"""What this process has started, by rank: they also run what follows in a script."""
PATIENCE = 15  # seconds until a word about machines that have not come
VARIABLES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMP_NUM_THREADS",
)


def settle_machine(machine: Machine) -> Machine:
    """The machine with its numbers: those asked for, torchrun's or srun's, or 1.

    >>> settle_machine(Machine()).devices
    1
    """
    outside = started_outside()
    if outside is None:
        return dataclasses.replace(
            machine, devices=machine.devices or 1, nodes=machine.nodes or 1
        )
    who, devices, nodes = outside
    if machine.devices not in (None, devices) or machine.nodes not in (None, nodes):
        raise SettingError(
            f"{who} has started {count(devices, 'process', 'processes')} on "
            f"{count(nodes, 'machine')}, but the settings ask for "
            f"{machine.devices or devices} on {machine.nodes or nodes}: leave "
            f"machine.devices and machine.nodes out, and set them only in {who}."
        )
    return dataclasses.replace(machine, devices=devices, nodes=nodes)


def choose_environment() -> ClusterEnvironment | None:
    """Whose variables say which process this is; None leaves that to Fabric."""
    outside = started_outside()
    if outside is not None and outside[0] == "srun":
        # Fabric insists on it, and srun sets it only where it was asked for so
        os.environ.setdefault("SLURM_NTASKS_PER_NODE", str(outside[1]))
        return SLURMEnvironment()
    if outside is None and "SLURM_JOB_ID" in os.environ:
        return LightningEnvironment()  # a job's numbers are not those of processes
    return None


@contextlib.contextmanager
def launch(fabric: Fabric, say: Callable[[str], None]) -> Iterator[Peers]:
    """Start the processes, join them, and watch them until the block ends.

    A process that dies or hangs ends this one too, with a sentence that says which.

    Args:
        fabric: As ``make_fabric`` made it.
        say: Called with a sentence before this process is ended.
    """
    strategy: Any = fabric.strategy
    environment = getattr(strategy, "cluster_environment", None)
    n = 1
    if environment is not None:
        n = strategy.num_processes * strategy.num_nodes
    if dist.is_initialized() and dist.get_world_size() not in (1, n):
        raise SettingError(
            f"This process is one of {dist.get_world_size()} already, by an earlier "
            f"run or its script, and a run on {n} would mix up their samples: train "
            "on the same number again, or in a separate script."
        )
    if environment is None:
        fabric.launch()
        yield Peers(say)
        return
    parent = None
    with contextlib.ExitStack() as held:
        if not environment.creates_processes_externally:
            held.enter_context(keep_environment())
            start_processes(environment, strategy.num_processes, strategy.num_nodes)
        elif started_outside() is None and environment.local_rank() > 0:
            parent = os.getppid()
        peers = held.enter_context(Peers(say, children=STARTED, parent=parent))
        one_machine = strategy.num_nodes == 1
        with explain_meeting(environment, one_machine, say):
            fabric.launch()
        peers.meet(
            fabric.global_rank,
            fabric.world_size,
            fabric.broadcast,
            "127.0.0.1" if one_machine else environment.main_address,
        )
        yield peers


@contextlib.contextmanager
def explain_meeting(
    environment: ClusterEnvironment, one_machine: bool, say: Callable[[str], None]
) -> Iterator[None]:
    """Say in words what the processes wait for, and why they cannot meet."""
    address, port = environment.main_address, environment.main_port
    where = f"{address}, port {port}"
    wait = (
        f"Waiting at {where} for the processes of the other machines: start the same "
        "command there, each with its own NODE_RANK."
    )
    timer = threading.Timer(PATIENCE, say, [wait])
    timer.daemon = True
    if not one_machine:
        timer.start()
    try:
        yield
    except dist.DistNetworkError as cause:
        if "EADDRINUSE" in str(cause):  # the one cause with a cure of its own
            raise SettingError(
                f"The processes cannot meet at {where}, which another program uses: "
                "set MASTER_PORT to a free port."
            ) from None
        raise SettingError(
            f"The processes cannot meet at {where}: check that MASTER_ADDR and "
            "MASTER_PORT are those of the first machine, that it can be reached from "
            f"here, and that all commands were started ({first_line(cause)})."
        ) from None
    finally:
        timer.cancel()


def first_line(error: Exception) -> str:
    """What an error says first."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@contextlib.contextmanager
def keep_environment() -> Iterator[None]:
    """Let the variables of a run end with it: a script may start commands afterwards.

    Only how many processes this machine has is still said, since they go on together.
    """
    before = {name: os.environ.get(name) for name in VARIABLES}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def start_processes(
    environment: ClusterEnvironment, n_processes: int, n_nodes: int
) -> None:
    """Start the other processes of this machine: the same command, with a number.

    Fabric's own launcher would end a run whose process dies by killing all others,
    itself among them, without a word.
    """
    known = os.environ
    if n_nodes > 1 and not {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} <= known.keys():
        raise SettingError(
            f"A run on {n_nodes} machines needs to know where they meet: set "
            "MASTER_ADDR and MASTER_PORT to an address and a free port of the first "
            "machine, and NODE_RANK to 0, 1, ... on each; or start it with torchrun "
            "or srun."
        )
    known["MASTER_ADDR"] = environment.main_address
    known["MASTER_PORT"] = str(environment.main_port)
    known["NODE_RANK"] = str(environment.node_rank())
    known["LOCAL_RANK"] = "0"
    known["LOCAL_WORLD_SIZE"] = str(n_processes)
    known["WORLD_SIZE"] = str(n_processes * n_nodes)
    if "OMP_NUM_THREADS" not in known:  # the cores are shared out
        threads = max(usable_cores() // n_processes, 1)
        known["OMP_NUM_THREADS"] = str(threads)
        torch.set_num_threads(threads)
    if STARTED:  # by an earlier run: they have come to this one too
        return
    first = environment.node_rank() * n_processes
    for k in range(1, n_processes):
        STARTED[first + k] = subprocess.Popen(
            this_command(), env={**known, "LOCAL_RANK": str(k)}
        )


def this_command() -> list[str]:
    """The command that this process was started with."""
    main: Any = sys.modules["__main__"]
    if main.__spec__ is None:
        return [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]  # noqa: PTH100
    name = main.__spec__.name.removesuffix(".__main__")
    return [sys.executable, "-m", name, *sys.argv[1:]]
