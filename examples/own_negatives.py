"""A source of negatives of your own: frames of one film are no negatives of each other.

    python examples/own_negatives.py

Frames of a film, images of a patient or photos of a burst are alike, and pushing them
apart loses what they have in common. A row with the anchor's own id is never its
negative, so it is enough to remember the films' ids in place of the frames'. Here a
frame is its film and its moment, mixed with new noise in each view; the score is how
often the nearest other frame is of the same film.
"""

import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import normalize

import invariance as inv


class OtherFilms(inv.Queue):
    """A queue whose rows of the anchor's own film are no negatives."""

    def __init__(self, size: int, width: int, film_of: Tensor) -> None:
        super().__init__(size, width)
        self.register_buffer("film_of", film_of)

    def negative(self, u: Tensor, ids: Tensor, *, scales) -> Tensor:
        """The log-partitions over the rows of other films."""
        return super().negative(u, self.film_of[ids], scales=scales)

    def remember(self, z: Tensor, ids: Tensor) -> None:
        """Keep rows under the number of their film."""
        super().remember(z, self.film_of[ids])


def draw_view(frames: Tensor) -> Tensor:
    """What a camera sees of frames: their 16 numbers under 16 of noise, mixed."""
    mix = torch.randn(32, 32, generator=torch.Generator().manual_seed(0)) / 32**0.5
    return torch.cat([frames, torch.randn(len(frames), 16)], 1) @ mix


@torch.no_grad()
def score(network: nn.Module, frames: Tensor, film_of: Tensor) -> float:
    """How often the nearest other frame is of the same film."""
    z = normalize(network(draw_view(frames)), dim=1)
    nearest = (z @ z.T).fill_diagonal_(-1).argmax(1)
    return (film_of[nearest] == film_of).float().mean().item()


def train(queue: inv.Queue, frames: Tensor, *, steps: int) -> nn.Module:
    """A network to which two views of a frame are alike, rows of the queue are not."""
    network = nn.Linear(32, 16)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(steps):
        ids = torch.randint(len(frames), (64,))
        u, v = (network(draw_view(frames[ids])) for _ in range(2))
        if len(queue):
            loss = inv.InfoNCE(temperature=0.2).against(u, v, queue, ids)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        queue.remember(v.detach(), ids)
    return network


def main(films: int = 50, frames: int = 20, steps: int = 400) -> dict[str, float]:
    """Train against both queues, and give the score without and with training."""
    torch.manual_seed(0)
    film_of = torch.arange(films).repeat_interleave(frames)
    shown = torch.cat([torch.randn(films, 8)[film_of], torch.randn(len(film_of), 8)], 1)
    scores = {"untrained": score(nn.Linear(32, 16), shown, film_of)}
    for queue in (inv.Queue(512, 16), OtherFilms(512, 16, film_of)):
        network = train(queue, shown, steps=steps)
        scores[type(queue).__name__] = score(network, shown, film_of)
    print(*(f"{name}: {value:.1%}" for name, value in scores.items()), sep="\n")
    return scores


if __name__ == "__main__":
    tyro.cli(main)
