"""How to build and call every entry of the catalogue, so one contract fits all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tests import reference
from torch import Tensor

import invariance as inv


@dataclass(frozen=True)
class Case:
    """One setting of one objective."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    stack: bool = False  # takes the views as one tensor (v, n, d)
    labelled: bool = False  # takes rows and labels
    prototypes: bool = False  # takes prototypes beside the views
    softmax: bool = True  # has a temperature
    own_products: bool = False  # multiplies matrices outside the log-partition

    @property
    def stops_gradients(self) -> bool:
        """Whether its gradient is, on purpose, not the derivative of its value."""
        stopping = ("flat_nce", "byol", "sim_siam", "swav")
        if self.name == "binary_nce":  # a constant of the batch, unless given
            return "log_z" not in self.settings
        return self.name in stopping or "weight_sigma" in self.settings

    @property
    def per_sample(self) -> bool:
        """Whether it is a mean over samples, so that each has a value."""
        return self.name not in ("align_uniform", "barlow_twins", "vicreg")

    @property
    def id(self) -> str:
        inner = ",".join(f"{k}={v}" for k, v in self.settings.items())
        return f"{self.name}({inner})"

    def function(self, twin: bool = False) -> Callable[..., Tensor]:
        """The pure function, or its slow twin, with this case's settings."""
        function = getattr(reference if twin else inv, self.name)
        return lambda *inputs, **more: function(*inputs, **(self.settings | more))

    def module(self, d: int, **more: Any) -> Any:
        """The class with this case's settings."""
        width = (d, N_PROTOTYPES) if self.prototypes else ()
        settings = self.settings | more
        log_z = settings.pop("log_z", None)  # not a setting of the class but its state
        made = inv.OBJECTIVES[self.name](*width, **settings)
        if log_z is not None:
            made.log_z.fill_(log_z)
        return made

    def inputs(self, n: int, d: int, seed: int = 0, **kinds: Any) -> list[Tensor]:
        """Random views that agree about as well as half-trained ones do."""
        generator = torch.Generator().manual_seed(seed)
        centre = torch.randn(n, d, generator=generator, dtype=torch.float64)
        u, v, w = (
            centre + torch.randn(n, d, generator=generator, dtype=torch.float64)
            for _ in range(3)
        )
        u, v, w = u.to(**kinds), v.to(**kinds), w.to(**kinds)
        if self.stack:
            return [torch.stack([u, v, w])]
        if self.labelled:
            return [u, torch.arange(n) * 7 // 3 % max(2, n // 2)]
        if self.prototypes:
            rows = torch.randn(N_PROTOTYPES, d, generator=generator)
            return [u, v, rows.to(u)]
        return [u, v]

    def permuted(self, inputs: list[Tensor], order: Tensor) -> list[Tensor]:
        """The same batch in another order of samples."""
        if self.stack:
            return [inputs[0][:, order]]
        if self.prototypes:
            return [inputs[0][order], inputs[1][order], inputs[2]]
        return [x[order] for x in inputs]


N_PROTOTYPES = 5

CASES = [
    Case("info_nce"),
    Case("info_nce", {"symmetric": False}),
    Case("info_nce", {"normalize": False, "temperature": 2.0}),
    Case("nt_xent"),
    Case("dcl"),
    Case("dcl", {"negatives": "cross"}),
    Case("dcl", {"weight_sigma": 0.5}),
    Case("dhel"),
    Case("dhel", {"views": "sum"}),
    Case("dhel", {"views": "first"}),
    Case("flat_nce"),
    Case("flat_nce", {"negatives": "cross"}),
    Case("flat_nce", {"keep_positive": True}),
    Case("flat_nce", {"gamma": 2.0}),
    Case("flat_nce", {"gamma": -0.5, "negatives": "cross"}),
    Case("kcl", softmax=False),
    Case("kcl", {"kernel": "log"}, softmax=False),
    Case("kcl", {"kernel": "imq"}, softmax=False),
    Case("kcl", {"kernel": "riesz"}, softmax=False),
    Case("kcl", {"kernel": "gaussian_riesz", "s": 1.0}, softmax=False),
    Case("kcl", {"normalize": False, "t": 0.1}, softmax=False),
    Case("kcl", {"normalize": False, "kernel": "log"}, softmax=False),
    Case("debiased"),
    Case("debiased", {"hardness": 1.0}),
    Case("debiased", {"prior": 0.0}),
    Case("multi_view", stack=True),
    Case("multi_view", {"aggregate": "poly"}, stack=True),
    Case("multi_view", {"aggregate": "mv_info_nce"}, stack=True),
    Case("multi_view", {"aggregate": "mv_dhel"}, stack=True),
    Case("sup_con", labelled=True),
    Case("sig_lip", softmax=False),
    Case("sig_lip", {"scale": 3.0, "bias": 1.0, "normalize": False}, softmax=False),
    Case("binary_nce"),
    Case("binary_nce", {"log_z": 2.0}),
    Case("binary_nce", {"log_z": -1.0, "normalize": False, "temperature": 2.0}),
    Case("jsd"),
    Case("jsd", {"normalize": False, "temperature": 2.0}),
    Case("dv"),
    Case("dv", {"normalize": False, "temperature": 2.0}),
    Case("flo"),
    Case("flo", {"slope": 0.5, "bias": 0.3, "normalize": False, "temperature": 2.0}),
    Case("unified"),
    Case("unified", {"psi": "log", "cross_weight": 0.0}),
    # without a logarithm, low temperatures overflow
    Case("unified", {"psi": "sqrt", "cross_weight": 0.5}, softmax=False),
    Case("unified", {"psi": "identity", "within_weight": 0.0}, softmax=False),
    Case("align_uniform", softmax=False),
    Case("align_uniform", {"alpha": 1.0, "uniform_weight": 0.5}, softmax=False),
    Case("byol", softmax=False),
    Case("sim_siam", softmax=False),
    Case("barlow_twins", softmax=False, own_products=True),
    Case("vicreg", softmax=False, own_products=True),
    Case("swav", prototypes=True, own_products=True),
]
