"""PGD on one sample after the other and one number after the other, in float64."""

import math

import torch


def pgd(loss, samples, starts, *, epsilon, steps, step_size, norm):
    """Samples changed so that ``loss``, of all of them together, rises."""
    changed = starts.clone()
    for _ in range(steps):
        leaf = changed.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss(leaf), leaf)
        for i in range(len(samples)):
            x = samples[i].flatten().tolist()
            at, up = changed[i].flatten().tolist(), slope[i].flatten().tolist()
            if norm == "linf":
                way = [math.copysign(1, g) if g else 0.0 for g in up]
            else:
                length = math.sqrt(sum(g * g for g in up))
                way = [g / length if length else 0.0 for g in up]
            delta = [a + step_size * w - b for a, w, b in zip(at, way, x, strict=True)]
            if norm == "linf":
                delta = [min(max(d, -epsilon), epsilon) for d in delta]
            else:
                length = math.sqrt(sum(d * d for d in delta))
                delta = [d * min(1.0, epsilon / length) if length else d for d in delta]
            moved = [
                min(max(b + d, min(b, 0.0)), max(b, 1.0))
                for b, d in zip(x, delta, strict=True)
            ]
            changed[i] = torch.tensor(moved, dtype=changed.dtype).view(samples[i].shape)
    return changed
