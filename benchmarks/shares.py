"""What one process's share of a loss takes, of 1, 2, 4 and 8 processes.

    python benchmarks/shares.py             # on a CPU: processes of one thread each
    python benchmarks/shares.py --device cuda

Forward and backward of NT-Xent over processes. On a CPU, one process and then two
(gloo, one thread each) take the same batch; shown are wall time and processor time of
the slower process's best step. On one GPU the shares of P processes run one after
another: what they would send each other is remembered from one round to the next, so
that after some rounds every share has what it would have had, and the gradients of all
shares are compared with those of one process. Time is that of the computation, with the
other processes' rows copied but not sent. Writes shares_<device>.md into ``--out``.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

import invariance as inv
from checks import require_cuda
from invariance.partition import Share

HERE = Path(__file__).parent
WIDTH, SEED = 128, 0
ROUNDS = 4  # rows, then their largest sums, then the sums, then all of it


def make_views(pairs: int, dtype: torch.dtype, device: str) -> Tensor:
    generator = torch.Generator(device).manual_seed(SEED)
    shape = (2, pairs, WIDTH)
    return torch.randn(shape, generator=generator, device=device).to(dtype)


def take_step(views: Tensor, gather: object) -> tuple[Tensor, Tensor]:
    """Loss and gradient."""
    views = views.detach().requires_grad_()
    loss = inv.nt_xent(*views, gather=gather)
    return loss.detach(), torch.autograd.grad(loss, views)[0]


# ---------------------------------------------------------------- on one GPU


class Rehearsal:
    """Stands in for other processes that run one after another in this one.

    Each collective returns what all processes gave to it in the last round.
    """

    def __init__(self, n_processes: int) -> None:
        self.last: list[list[Tensor]] = [[] for _ in range(n_processes)]
        self.now: list[list[Tensor]] = [[] for _ in range(n_processes)]
        self.rank = 0

    def start(self, rank: int) -> None:
        self.rank, self.now[rank] = rank, []

    def finish_round(self) -> None:
        self.last, self.now = self.now, [[] for _ in self.now]

    def meet(self, x: Tensor) -> list[Tensor]:
        number = len(self.now[self.rank])
        self.now[self.rank].append(x.clone())
        given = [
            calls[number] if rank != self.rank and number < len(calls) else x
            for rank, calls in enumerate(self.last)
        ]
        return [g if g.shape == x.shape else x for g in given]

    def all_gather(self, everything: Tensor, x: Tensor) -> None:
        torch.cat(self.meet(x), out=everything)

    def all_reduce(self, x: Tensor, op: object = dist.ReduceOp.SUM) -> None:
        given = torch.stack(self.meet(x))
        biggest = op == dist.ReduceOp.MAX
        x.copy_(given.amax(0) if biggest else given.sum(0))


def measure_shares(pairs: int, n_processes: int, device: str, dtype: torch.dtype):
    """Milliseconds of every share, and how far gradients are from one process's."""
    views = make_views(pairs, dtype, device)
    if n_processes == 1:
        return [_time(lambda: take_step(views, False), device)], 0.0
    n = pairs // n_processes
    stand_in, sizes = Rehearsal(n_processes), (n,) * n_processes
    dist.all_gather_into_tensor = stand_in.all_gather
    dist.all_reduce = stand_in.all_reduce
    times, gradients = [], []
    for _ in range(ROUNDS):
        gradients.clear()
        for rank in range(n_processes):
            own = views[:, rank * n : (rank + 1) * n]
            stand_in.start(rank)
            loss, gradient = take_step(own, Share(sizes, rank))
            gradients.append(gradient / n_processes)
        stand_in.finish_round()
    for rank in (0, n_processes - 1):  # the others do as much
        own = views[:, rank * n : (rank + 1) * n]
        again = partial(repeat, stand_in, own, Share(sizes, rank))
        times.append(_time(again, device))
    together = torch.cat(gradients, 1).float()
    del gradients
    loss_alone, alone = take_step(views, False)
    assert abs(float(loss - loss_alone)) < 5e-3, (loss, loss_alone)
    error = (together - alone.float()).norm() / alone.float().norm()
    return times, float(error)


def repeat(stand_in: Rehearsal, own: Tensor, share: Share) -> None:
    stand_in.start(share.rank)
    take_step(own, share)


def _time(function, device: str, repeats: int = 3) -> float:
    """Median milliseconds."""
    function()
    times = []
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def run_on_gpu(options: argparse.Namespace) -> list[str]:
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    lines = [
        "| pairs | processes | ms of a share | of one | ideal | gradients off |",
        "|---|---|---|---|---|---|",
    ]
    for pairs in options.pairs:
        whole = 0.0
        for n_processes in options.processes:
            times, error = measure_shares(pairs, n_processes, options.device, dtype)
            slowest = max(times)
            whole = whole or slowest
            part = f"{slowest / whole:.3f} | {1 / n_processes:.3f} | {error:.1e} |"
            lines.append(f"| {pairs:,} | {n_processes} | {slowest:.2f} | {part}")
            print(lines[-1], flush=True)
    return lines


# ---------------------------------------------------------------- on a CPU


def run_processes(n_processes: int, pairs: int, steps: int) -> tuple[float, float]:
    """Seconds of a step by the clock and of the processor, of the slower process."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        job = (n_processes, pairs, steps, f"{folder}/store", queue)
        processes = [
            context.Process(target=work, args=(rank, *job))
            for rank in range(n_processes)
        ]
        for process in processes:
            process.start()
        told = [queue.get() for _ in processes]
        for process in processes:
            process.join()
    return max(wall for wall, _ in told), max(used for _, used in told)


def work(rank, n_processes, pairs, steps, store, queue) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if n_processes > 1:
        where = dist.FileStore(store, n_processes)
        dist.init_process_group("gloo", store=where, rank=rank, world_size=n_processes)
    n = pairs // n_processes
    own = make_views(pairs, torch.float32, "cpu")[:, rank * n : (rank + 1) * n]
    take_step(own, True)
    walls, used = [], []
    for _ in range(steps):
        if n_processes > 1:
            dist.barrier()
        wall, processor = time.perf_counter(), time.process_time()
        take_step(own, True)
        walls.append(time.perf_counter() - wall)
        used.append(time.process_time() - processor)
    queue.put((min(walls), min(used)))
    if n_processes > 1:
        dist.barrier()
        dist.destroy_process_group()


def run_on_cpu(options: argparse.Namespace) -> list[str]:
    lines = [
        "| pairs | processes | seconds | of one | processor seconds | of one |",
        "|---|---|---|---|---|---|",
    ]
    for pairs in options.pairs:
        first = None
        for n_processes in options.processes:
            wall, used = run_processes(n_processes, pairs, options.steps)
            first = first or (wall, used)
            lines.append(
                f"| {pairs:,} | {n_processes} | {wall:.3f} | {wall / first[0]:.3f} | "
                f"{used:.3f} | {used / first[1]:.3f} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pairs", type=int, nargs="+")
    parser.add_argument("--processes", type=int, nargs="+")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rehearse", action="store_true", help="a GPU's way on a CPU")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    if on_gpu:
        require_cuda(parser)
    options.pairs = options.pairs or ([65_536, 262_144] if on_gpu else [8_192])
    options.processes = options.processes or ([1, 2, 4, 8] if on_gpu else [1, 2])
    before = os.getloadavg()[0]
    lines = run_on_gpu(options) if on_gpu or options.rehearse else run_on_cpu(options)
    where = torch.cuda.get_device_name() if on_gpu else f"CPU, load {before:.1f} before"
    head = f"NT-Xent, forward and backward, width {WIDTH}; {where}; torch "
    text = "\n".join([head + torch.__version__, "", *lines, ""])
    options.out.mkdir(parents=True, exist_ok=True)
    name = f"shares_{options.device}.md"
    if not options.rehearse:
        (options.out / name).write_text(f"# A loss shared out over processes\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
