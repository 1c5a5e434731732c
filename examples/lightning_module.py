"""A loss in PyTorch Lightning: two encoders learn what two sensors have in common.

    pip install pytorch-lightning
    python examples/lightning_module.py

Lightning has the loop, the devices and the logs; the objective is one line of
``training_step``. With ``gather=True`` the same module trains on several devices: each
process contrasts its own rows with those of all. The number at the end is the share of
held-out samples that find their partner among all held-out ones.
"""

import pytorch_lightning as pl
import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, TensorDataset

import invariance as inv


class TwoSensors(pl.LightningModule):
    """An encoder for each sensor, and rows of both that can be compared."""

    def __init__(self, width: int, lr: float = 3e-3) -> None:
        super().__init__()
        self.first, self.second = make_encoder(width), make_encoder(width)
        self.objective = inv.InfoNCE(temperature=0.1, gather=True)
        self.lr = lr

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """The loss of one batch; chance is the logarithm of its size."""
        x, y = batch
        loss = self.objective(self.first(x), self.second(y))
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor]) -> None:
        """How many samples of the first sensor find their partner."""
        x, y = batch
        u, v = normalize(self.first(x), dim=1), normalize(self.second(y), dim=1)
        nearest = (u @ v.T).argmax(1)
        right = nearest == torch.arange(len(x), device=x.device)
        self.log("recall", right.float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, for everything that learns."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def make_encoder(width: int) -> nn.Module:
    """A small perceptron."""
    return nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 32))


def main(n: int = 4096, epochs: int = 10, batch_size: int = 256) -> tuple[float, float]:
    """Train, and give the recall before and after."""
    pl.seed_everything(0, verbose=False)
    pairs = inv.estimators.correlated_gaussian(16, nats=12)  # 16 numbers per sensor
    x, y = pairs.sample(n + 500, generator=torch.Generator().manual_seed(0))
    train = DataLoader(
        TensorDataset(x[:n], y[:n]), batch_size, shuffle=True, drop_last=True
    )
    held_out = DataLoader(TensorDataset(x[n:], y[n:]), 500)

    module = TwoSensors(width=16)
    trainer = pl.Trainer(max_epochs=epochs, logger=False, enable_checkpointing=False)
    (before,) = trainer.validate(module, held_out, verbose=False)
    trainer.fit(module, train, held_out)
    (after,) = trainer.validate(module, held_out, verbose=False)
    print(f"partners found: {before['recall']:.1%} before, {after['recall']:.1%} after")
    return before["recall"], after["recall"]


if __name__ == "__main__":
    tyro.cli(main)
