r"""Batch norm over all processes, on any device: the statistics of the whole batch.

$$y = \gamma\,\frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}+\beta,\qquad
\mu=\sum_p \frac{n_p}{N}\mu_p,\qquad
\sigma^2=\sum_p \frac{n_p}{N}\big(\sigma_p^2+(\mu_p-\mu)^2\big)$$

Process p has n_p of the N numbers of a channel. Forward, means, variances and counts
are gathered once; backward, two sums per channel are added up over the processes. The
result is that of one process with all rows, to rounding, also for unequal shares.
PyTorch's own ``SyncBatchNorm`` is for GPUs, where it is used.
"""

import contextlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

LOCAL_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def synchronize_norms(module: nn.Module, device: torch.device) -> nn.Module:
    """The module, its batch norms over all processes; weights stay where they are."""
    timm: Any = sys.modules.get("timm.layers")  # else none of its norms is here
    if device.type == "cuda":  # torch's own would drop the activation of timm's norms
        return (timm or nn.SyncBatchNorm).convert_sync_batchnorm(module)
    kinds = (*LOCAL_NORMS, *([timm.BatchNormAct2d] if timm else ()))
    for part in module.modules():
        kind: Any = type(part)
        if kind in kinds:
            part.__class__ = _synced(kind)
    return module


@contextlib.contextmanager
def keep_norms(module: nn.Module) -> Iterator[None]:
    """Give a module back with norms of its own kinds, with what they have learned."""
    parts = list(module.modules())
    synced = {part for part in parts if isinstance(part, _Synced)}
    norms = [
        (parent, name, part)
        for parent in parts
        for name, part in parent.named_children()
        if isinstance(part, (*LOCAL_NORMS, nn.SyncBatchNorm))
    ]
    try:
        yield
    finally:
        for parent, name, norm in norms:
            now = getattr(parent, name)
            if now is not norm:  # on a GPU another stands there; on a CPU it is changed
                norm._parameters.update(now._parameters)
                for buffer, value in now.named_buffers(recurse=False):
                    norm.register_buffer(buffer, value)
                norm.train(now.training)
                setattr(parent, name, norm)
        for part in module.modules():
            first, *rest = type(part).__bases__
            if first is _Synced and part not in synced:
                part.__class__ = rest[0]


def find_synchronized(module: nn.Module) -> list[nn.Module]:
    """The parts of a module that would wait for other processes in a call now."""
    if not (dist.is_available() and dist.is_initialized()):
        return []
    if dist.get_world_size() == 1:
        return []
    kinds = (_Synced, nn.SyncBatchNorm)
    return [x for x in module.modules() if x.training and isinstance(x, kinds)]


@cache
def _synced(kind: Any) -> Any:
    return type(f"Synced{kind.__name__}", (_Synced, kind), {})


class _Synced:
    """A batch norm that takes the statistics of all processes while it trains."""

    def forward(self: Any, x: Tensor) -> Tensor:
        alone = not (dist.is_available() and dist.is_initialized())
        if not self.training or alone or dist.get_world_size() == 1:
            return super().forward(x)  # type: ignore[misc]
        self._check_input_dim(x)
        y, mean, variance, n = _Normalize.apply(x, self.weight, self.bias, self.eps)
        if self.track_running_stats:
            self._track(mean, variance * (n / (n - 1)))
        for name in ("drop", "act"):  # of timm's norms
            y = getattr(self, name, nn.Identity())(y)
        return y

    @torch.no_grad()
    def _track(self: Any, mean: Tensor, variance: Tensor) -> None:
        self.num_batches_tracked += 1
        momentum = self.momentum
        if momentum is None:
            momentum = 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean), momentum)
        self.running_var.lerp_(variance.to(self.running_var), momentum)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        axes = [axis for axis in range(x.ndim) if axis != 1]
        exact = x if x.dtype == torch.float64 else x.float()
        if len(x):
            variance, mean = torch.var_mean(exact, axes, correction=0)
        else:  # a share of nothing
            variance = mean = exact.new_zeros(x.shape[1])
        count = mean.new_tensor([x.numel() / x.shape[1]])
        moments = torch.cat([mean, variance, count])
        each = [torch.empty_like(moments) for _ in range(dist.get_world_size())]
        dist.all_gather(each, moments)
        means, variances, counts = torch.stack(each).split(
            [len(mean), len(mean), 1], dim=1
        )
        n = counts.sum()
        share = counts / n
        mean = (share * means).sum(0)
        variance = (share * (variances + (means - mean).square())).sum(0)
        if n < 2:
            raise ValueError(
                "Batch norm needs more than one number per channel while it trains: "
                f"got {tuple(x.shape)}."
            )
        y = functional.batch_norm(exact, mean, variance, weight, bias, eps=eps)
        ctx.save_for_backward(x, weight, mean, (variance + eps).rsqrt(), n)
        ctx.mark_non_differentiable(mean, variance, n)
        return y.to(x.dtype), mean, variance, n

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor, *_: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, mean, scale, n = ctx.saved_tensors
        axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        dy = gradient.to(mean.dtype)
        unit = (x.to(mean.dtype) - mean.view(shape)) * scale.view(shape)
        part = torch.stack([dy.sum(axes), (dy * unit).sum(axes)])
        sums = part.clone()
        dist.all_reduce(sums)
        dx = None
        if ctx.needs_input_grad[0]:
            by = scale if weight is None else scale * weight
            shift, tilt = (sums / n).unsqueeze(-1).view(2, *shape)
            dx = ((dy - shift - unit * tilt) * by.view(shape)).to(x.dtype)
        return dx, *((part[1], part[0]) if weight is not None else (None, None)), None
