r"""Optimizers over a learner's parameters, and what weight decay acts on.

LARS scales each weight's step by $\eta\,|w| / (|g| + \lambda|w|)$, which lets one
learning rate serve layers of very different gradients at large batches. Biases and
norms move by plain momentum. All norms stay on the device: no step waits for them.

Why not `timm.optim.Lars`: with ordinary gradients the two agree to rounding (1e-7 over
100 steps of a ResNet-18), but timm adds 1e-8 to the divisor, so a gradient of norm 4e-8
takes 80 % of its step; decays a weight without gradient by $\lambda$ times the whole
learning rate, where the trust ratio allows $\eta$; writes into the gradients; and needs
482 operations for that ResNet-18 where this needs 24, each a launch on a GPU. timm's
parameter groups put what does not decay first, which would hand the state of an older
checkpoint to other weights.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ._settings import Optim, resolve_decay


def build_optimizer(
    module: nn.Module, optim: Optim, lr: float | Tensor
) -> torch.optim.Optimizer:
    """The optimizer that the settings name, over all parameters that learn.

    A learning rate that is a tensor stays on its device, a GPU, and so does the whole
    step: a CUDA graph may hold it.
    """
    groups = group_parameters(module, optim)
    if optim.name == "lars":
        return LARS(groups, lr=lr, momentum=optim.momentum)
    on_device = isinstance(lr, Tensor) and lr.is_cuda
    fused = True if on_device else None
    if optim.name == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=optim.momentum, fused=fused)
    adamw: Any = torch.optim.AdamW(groups, lr=lr, fused=fused, capturable=on_device)
    # torch would warn of the first steps, which are called before one is captured
    adamw._warned_capturable_if_run_uncaptured = True
    return adamw


# settings of a group that belong to this machine: a resumed run keeps its own
OF_MACHINE = ("lr", "fused", "foreach", "capturable")


def save_optimizer(optimizer: Any) -> dict[str, Any]:
    """Its state with plain numbers, whatever device it ran on."""
    state: dict[str, Any] = optimizer.state_dict()
    groups = [
        {**group, "lr": float(group["lr"])} if "lr" in group else group
        for group in state["param_groups"]
    ]
    return {**state, "param_groups": groups}


def load_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    """Take over a saved state, but run steps the way this optimizer was built for."""
    kept = [{k: g[k] for k in OF_MACHINE if k in g} for g in optimizer.param_groups]
    saved = state["param_groups"]
    if len(saved) == len(kept):  # else torch says what does not fit
        saved = [group | ours for group, ours in zip(saved, kept, strict=True)]
    optimizer.load_state_dict({**state, "param_groups": saved})
    for group, ours in zip(optimizer.param_groups, kept, strict=True):
        group.update(ours)  # the very tensor of the learning rate, not a copy


def group_parameters(module: nn.Module, optim: Optim) -> list[dict[str, Any]]:
    """Parameters that move alike, matrices first, as in older checkpoints.

    A scalar, such as a learned temperature, never decays: it must not shrink to 0.
    """
    learning = [p for p in module.parameters() if p.requires_grad]
    kinds = [((2,), True), ((0, 1), False)]  # dimensions, and whether they decay
    if resolve_decay(optim) == "all":
        kinds = [((2,), True), ((1,), True), ((0,), False)]
    groups: list[dict[str, Any]] = [
        {
            "params": [p for p in learning if min(p.ndim, 2) in dimensions],
            "weight_decay": optim.weight_decay if decays else 0.0,
        }
        for dimensions, decays in kinds
    ]
    if optim.name == "lars":
        groups = [
            g | {"adapt": d == (2,)} for g, (d, _) in zip(groups, kinds, strict=True)
        ]
    for group in groups:  # lists of shares and of whole tensors do not mix
        if len({type(p.data) for p in group["params"]}) > 1:
            group["foreach"] = False
    return [group for group in groups if group["params"]]


class LARS(torch.optim.Optimizer):
    """Momentum SGD with a trust ratio for every weight matrix.

    >>> weight = nn.Parameter(torch.ones(2, 2))
    >>> weight.sum().backward()
    >>> LARS([weight], lr=1.0, trust=0.1).step()
    >>> weight  # the step is a tenth of the weight's norm
    Parameter containing:
    tensor([[0.9000, 0.9000],
            [0.9000, 0.9000]], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float | Tensor,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        adapt: bool = True,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust": trust,
            "adapt": adapt,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for kind in {type(p.data): None for p in params}:  # fsdp has shares, too
                self._step_group(group, [p for p in params if type(p.data) is kind])

    def _step_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        decay = group["weight_decay"]
        plain = [p.grad for p in params if p.grad is not None]
        shards = [_take_own(p) for p in params]
        grads = torch._foreach_add([_take_own(g) for g in plain], shards, alpha=decay)
        if group["adapt"]:
            weights, lengths = _measure(params), _measure(plain)
            divisors = torch._foreach_add(lengths, weights, alpha=decay)
            w, g = torch.stack(weights), torch.stack(divisors)
            ratios = group["trust"] * w / g
            ratios = ratios.masked_fill(~((w > 0) & (g > 0)), 1.0)
            torch._foreach_mul_(grads, list(ratios.unbind()))
        for p in params:
            if "momentum_buffer" not in self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        buffers = [_take_own(self.state[p]["momentum_buffer"]) for p in params]
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, grads)
        lr = group["lr"]
        if isinstance(lr, Tensor):
            torch._foreach_add_(shards, torch._foreach_mul(buffers, -lr))
        else:
            torch._foreach_add_(shards, buffers, alpha=-lr)


def _take_own(x: Any) -> Tensor:
    """The rows that this process has, where fsdp shares them out."""
    return x.to_local() if hasattr(x, "to_local") else x


def _measure(tensors: list[Tensor]) -> list[Tensor]:
    """The length of each, over all processes that have a share of it."""
    lengths: Sequence[Any] = torch._foreach_norm(tensors)
    return [x.full_tensor() if hasattr(x, "full_tensor") else x for x in lengths]
