"""FSDP: each process keeps a share of the weights, and all state is saved whole.

The rows of every weight, of its gradient and of the optimizer's state are shared out
(PyTorch's ``fully_shard``). Before a part of the network runs, its weights are
gathered; after its backward pass each process gets the averaged gradient of its share.
A momentum twin is shared out in the same way, so that it follows share by share. What
is small or read outside the forward pass stays whole on every process: an objective's
parameters, a learned critic, batch statistics, queues and banks.

A checkpoint holds whole tensors under the names that they have on one process: it is
read by any number of processes, with any strategy.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ._lightning import ModelParallelStrategy

NETWORKS = ("encoder", "head", "predictor", "twin", "other")
LARGE = 1 << 20  # numbers: parts with as many are gathered by themselves


def make_fsdp(n_processes: int) -> ModelParallelStrategy:
    """All processes share out one copy of the weights."""
    return ModelParallelStrategy(
        share_out, data_parallel_size=n_processes, tensor_parallel_size=1
    )


def share_out(learner: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Give each process its share of the networks' weights."""
    learner.to(mesh.device_type)
    whole = {
        parameter
        for name, parameter in learner.named_parameters()
        if not name.startswith(NETWORKS)
    }
    for parameter in whole:
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average_gradient)
    processes = name_by_backend(mesh["data_parallel"])
    for part in large_parts(learner):
        fully_shard(part, mesh=processes)
    fully_shard(learner, mesh=processes, ignored_params=whole)
    return learner


def name_by_backend(mesh: DeviceMesh) -> DeviceMesh:
    """The mesh under a name that a dry run's mesh and a run's do not share.

    PyTorch remembers the results of operations on shares by equal meshes, and hands out
    the mesh that was there first. Meshes are equal whichever of its processes this one
    is: after a dry run, which plays the first, a second would take the first one's rows
    for its own.
    """
    return DeviceMesh.from_group(
        mesh.get_group(), mesh.device_type, mesh_dim_names=(dist.get_backend(),)
    )


def large_parts(learner: nn.Module) -> list[nn.Module]:
    """Members of sequences, which are sure to be called, from the inside out."""
    members = [
        member
        for module in learner.modules()
        if isinstance(module, nn.Sequential | nn.ModuleList)
        for member in module
        if not isinstance(member, nn.Sequential | nn.ModuleList)
    ]
    large = (m for m in members if sum(p.numel() for p in m.parameters()) >= LARGE)
    return [*reversed(dict.fromkeys(large))]


def average_gradient(parameter: Tensor) -> None:
    """The mean over processes, as for all weights.

    What was added up in earlier passes is alike on all of them, and stays as it is.
    """
    assert parameter.grad is not None
    dist.all_reduce(parameter.grad)
    parameter.grad /= dist.get_world_size()


def clip_gradients(learner: nn.Module, max_norm: float) -> bool:
    """Scale gradients down to a norm, those in shares and those that are whole.

    PyTorch takes lists of one kind alone. False, and nothing done, without shares.
    """
    gradients = [p.grad for p in learner.parameters() if p.grad is not None]
    shares = [g.to_local() for g in gradients if isinstance(g, DTensor)]
    whole = [g for g in gradients if not isinstance(g, DTensor)]
    if not shares:
        return False
    square = torch.stack(torch._foreach_norm(shares)).square().sum()
    dist.all_reduce(square)
    if whole:
        square = square + torch.stack(torch._foreach_norm(whole)).square().sum()
    factor = (max_norm / (square.sqrt() + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([*shares, *whole], factor)
    return True


def local_part(x: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return x.to_local() if isinstance(x, DTensor) else x


def gather_state(state: Any, *, keep: bool) -> Any:
    """The state with whole tensors on the host; every process takes part.

    Args:
        state: Nested dicts and lists.
        keep: Whether this process wants it; else the whole tensors are let go.
    """
    if isinstance(state, dict):
        return {k: gather_state(v, keep=keep) for k, v in state.items()}
    if isinstance(state, list | tuple):
        return [gather_state(v, keep=keep) for v in state]
    if isinstance(state, DTensor):
        whole = state.full_tensor()
        return whole.cpu() if keep else None
    return state


def share_like(whole: Tensor, mine: Tensor) -> Tensor:
    """This process's share of a whole tensor, cut as ``mine`` is."""
    if not isinstance(mine, DTensor) or whole.shape != mine.shape:
        return whole
    whole = whole.to(mine.device, copy=True).contiguous()
    return distribute_tensor(
        whole, mine.device_mesh, mine.placements, src_data_rank=None
    )


def share_weights(learner: nn.Module, state: dict[str, Any]) -> dict[str, Any]:
    """A whole state of the learner, cut as the learner is."""
    mine = learner.state_dict()
    return {k: share_like(v, mine[k]) if k in mine else v for k, v in state.items()}


def share_optimizer(
    optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> dict[str, Any]:
    """A whole state of the optimizer, cut as its parameters are."""
    params = [p for group in optimizer.param_groups for p in group["params"]]

    def cut(number: int, values: dict[str, Any]) -> dict[str, Any]:
        return {
            k: share_like(v, params[number]) if isinstance(v, Tensor) else v
            for k, v in values.items()
        }

    return {**state, "state": {n: cut(n, v) for n, v in state["state"].items()}}
