"""Critics as their formulas say, one pair at a time, and sums over such scores."""

import torch
from torch.nn.functional import normalize


def bilinear(critic, x, y):
    """x' W y + a' x + b' y + c."""
    cross = x @ (critic.cross.weight @ y)
    lone = critic.of_x.weight[0] @ x + critic.of_y.weight[0] @ y
    return cross + lone + critic.of_x.bias[0]


def separable(critic, x, y):
    """f(x) . h(y) + a(x) + b(y)."""
    f, h = critic.of_x(x), critic.of_y(y)
    return f[:-1] @ h[:-1] + f[-1] + h[-1]


def concatenated(critic, x, y):
    """A perceptron of [x, y]."""
    weight = torch.cat([critic.of_x.weight, critic.of_y.weight], 1)
    hidden = weight @ torch.cat([x, y]) + critic.of_x.bias + critic.of_y.bias
    return critic.of_both(hidden)[0]


def additive(critic, x, y):
    """w' tanh(A x + B y)."""
    return critic.weigh(torch.tanh(critic.of_x(x) + critic.of_y(y)))[0]


def cosine(critic, x, y):
    """The cosine of f(x) and h(y) over the temperature."""
    f, h = (normalize(z, dim=0) for z in (critic.of_x(x), critic.of_y(y)))
    return critic.log_scale.exp().clamp(max=100) * (f @ h)


def critic_score(critic, x, y):
    """The score of two rows."""
    if type(critic).__name__ == "Symmetric":
        inner = critic.critic
        return (critic_score(inner, x, y) + critic_score(inner, y, x)) / 2
    return globals()[type(critic).__name__.lower()](critic, x, y)


def critic_log_sums(critic, x, y, *, scale=1.0):
    """Partners' scores, and log-sums over the others by row and by column."""
    n = len(x)
    s = [[scale * critic_score(critic, a, b) for b in y] for a in x]
    others = [[j for j in range(n) if j != i] for i in range(n)]
    rows = [torch.stack([s[i][j] for j in others[i]]).logsumexp(0) for i in range(n)]
    columns = [torch.stack([s[i][j] for i in others[j]]).logsumexp(0) for j in range(n)]
    positive = [s[i][i] for i in range(n)]
    return tuple(map(torch.stack, (positive, rows, columns)))
