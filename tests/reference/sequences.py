"""Predictive coding, one score at a time."""

import torch

from ._scalars import dot, log_sum_exp, mean, rows

NEGATIVES = {
    "other_samples": lambda i, t, j, s: j != i and s == t,
    "other_times": lambda i, t, j, s: j == i and s != t,
    "samples_and_times": lambda i, t, j, s: (j, s) != (i, t),
}


def predictive_coding(
    codes, contexts, matrices, *, negatives, temperature=1.0, normalize=False
):
    """The mean over steps k, samples i and times t of -log softmax of z_i,t+k.

    Codes are (n, l, e), contexts (n, l, w), and matrices (k, e, w).
    """
    allowed, steps = NEGATIVES[negatives], len(matrices)
    n, times = len(codes), codes.shape[1] - steps
    losses = []
    for k in range(1, steps + 1):
        w = matrices[k - 1]
        z = [rows(codes[j, k : k + times], normalize) for j in range(n)]
        for i in range(n):
            for t in range(times):
                guess = [dot(row, contexts[i, t]) for row in w]
                (guess,) = rows(torch.stack(guess)[None], normalize)
                own = dot(guess, z[i][t]) / temperature
                others = [
                    dot(guess, z[j][s]) / temperature
                    for j in range(n)
                    for s in range(times)
                    if allowed(i, t, j, s)
                ]
                losses.append(log_sum_exp([own, *others]) - own)
    return mean(losses)
