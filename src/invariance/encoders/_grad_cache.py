"""GradCache: a batch that does not fit, encoded in pieces, with the whole gradient.

A contrastive loss looks at all embeddings at once, so its batch cannot be cut up; the
encoder's work can. Each piece is encoded and only its embeddings are kept; the loss is
computed from all of them; when its gradient comes back, each piece is encoded once more
and passes on its share (Gao et al. 2021). The gradient is that of the whole batch, for
the memory of one piece and the time of a second forward pass.

Both passes must give the same embeddings. So random generators and buffers go back to
where they stood for the piece, and afterwards on to where they were: dropout drops the
same, and the running averages of a batch norm move once. A batch norm normalizes each
piece by itself ("ghost batch norm"), as it would a batch of that size.

For autograd all pieces are one operation. So each parameter gets one gradient, which
several processes exchange once. Batch norms over all processes meet in each piece, so
there all processes cut their rows into as many pieces.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import InvarianceError, SettingError, ShapeError, TrainingError
from ..plain_numbers import check_whole, plain_number
from ..randomness import (
    is_capturing,
    keep_random_states,
    mark_place,
    random_states,
    set_random_states,
)
from ._synced_norm import find_synchronized

ROWS = torch.empty(0)  # stands for what has rows


class GradCache(nn.Module):
    """A network that encodes a batch in pieces; loss and gradient are of the whole.

    The rest of a loop stays as it is, whatever the loss, the precision, the number of
    encoders and of calls. Of several processes, each has pieces of its own rows:
    ``DistributedDataParallel(GradCache(network, micro_batch=64))``.

    Args:
        network: Gives one row for each row of its inputs, in a tensor, or in several
            in a tuple, list or dict.
        micro_batch: Rows that are encoded at once, at most; pieces are of equal size,
            to one row.

    >>> import invariance as inv
    >>> network = nn.Sequential(nn.Linear(8, 32), nn.Dropout(), nn.Linear(32, 4))
    >>> encode = inv.GradCache(network, micro_batch=64)
    >>> x, y = torch.randn(2, 4096, 8)
    >>> loss = inv.nt_xent(encode(x), encode(y))
    >>> loss.backward()  # in the memory of 64 rows; the loss is that of 4,096
    >>> network[0].weight.grad.shape
    torch.Size([32, 8])
    """

    equal_shares = False
    """Whether every process is known to have as many rows as this one. Otherwise, if
    batch norms are synchronized, their numbers are exchanged at each call."""

    def __init__(self, network: nn.Module, *, micro_batch: int) -> None:
        super().__init__()
        if isinstance(network, DistributedDataParallel):
            raise SettingError(
                "Processes exchange gradients once per step, after the last piece: "
                "write DistributedDataParallel(GradCache(network)), not the reverse."
            )
        if not isinstance(network, nn.Module):
            raise SettingError(
                "GradCache needs to know the parameters: pass a torch.nn.Module, not "
                f"{network!r}."
            )
        self.network, self.micro_batch = network, plain_number(micro_batch)
        check_whole("micro_batch", self.micro_batch, 1)

    def extra_repr(self) -> str:
        """Its setting."""
        return f"micro_batch={self.micro_batch}"

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the network gives for these inputs.

        All that has rows is cut into pieces: tensors, also in tuples, lists and dicts,
        and whatever else has a ``shape`` and a ``device`` and gives tensors for slices.
        """
        data = (inputs, named)
        rows = list(find_rows(data))
        for x in rows:
            if not isinstance(getattr(x, "device", None), torch.device):
                # an array of numpy has a word there
                raise ShapeError(
                    f"GradCache hands pieces of tensors to the network, and got "
                    f"{type(x).__module__}'s {type(x).__name__}: convert with "
                    "torch.as_tensor(...)."
                )
        lengths = sorted({x.shape[0] for x in rows})
        if len(lengths) != 1:
            raise ShapeError(
                "GradCache cuts all inputs of a network at the same rows: got inputs "
                f"of {' and '.join(map(str, lengths)) or 'no'} rows. What belongs to "
                "no row should be a part of the network."
            )
        n = lengths[0]
        n_pieces = -(-n // self.micro_batch)
        if not self.equal_shares:
            n_pieces = agree_on_pieces(self.network, n_pieces, n, rows[0].device)
        if n_pieces < 2:
            inputs, named = rebuild([data], lambda x: x[0][:n])
            return self.network(*inputs, **named)
        edges = [n * k // n_pieces for k in range(n_pieces + 1)]
        pieces = Pieces(self.network, data, list(map(slice, edges, edges[1:])))
        leaves = [*pieces.weights, *(x for x in rows if wants_gradient(x))]
        if not (leaves and torch.is_grad_enabled()):
            outputs = [pieces.encode(rows, where) for where in pieces.places]
            return rebuild(outputs, torch.cat)
        embeddings = iter(InPieces.apply(pieces, rows, *leaves))
        return rebuild([pieces.output], lambda _: next(embeddings))


def agree_on_pieces(
    network: nn.Module, n_pieces: int, n: int, device: torch.device
) -> int:
    """As many pieces as any process needs, if they wait for each other in each piece.

    Args:
        network: Whose batch norms may be synchronized.
        n_pieces: What this process needs.
        n: Its rows.
        device: Where they are.
    """
    norms = find_synchronized(network)
    if not norms:
        return n_pieces
    groups = {getattr(norm, "process_group", None) for norm in norms}
    numbers = torch.tensor([n_pieces, -n], device=device)
    dist.all_reduce(
        numbers, dist.ReduceOp.MAX, group=groups.pop() if len(groups) == 1 else None
    )
    n_pieces, fewest = int(numbers[0]), -int(numbers[1])
    if 1 < n_pieces > fewest:
        raise ShapeError(
            f"Synchronized batch norms need as many pieces on every process: one needs "
            f"{n_pieces}, and another has only {fewest} rows to cut. Share the rows "
            "out more equally, or use a larger micro_batch."
        )
    return n_pieces


class InPieces(torch.autograd.Function):
    """All pieces as one operation on the parameters and on inputs with a gradient."""

    @staticmethod
    def forward(
        ctx: Any, pieces: "Pieces", rows: list[Any], *leaves: Tensor
    ) -> tuple[Tensor, ...]:
        """Encode, and keep the embeddings only."""
        # PyTorch lets go of saved tensors after the backward pass
        ctx.save_for_backward(*(x if isinstance(x, Tensor) else None for x in rows))
        ctx.others = [None if isinstance(x, Tensor) else x for x in rows]
        ctx.pieces = pieces
        embeddings = pieces.encode_all(rows)
        whole = [x for x in embeddings if not x.is_floating_point()]
        ctx.mark_non_differentiable(*whole)
        return embeddings

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Encode once more, and differentiate piece by piece."""
        both = zip(ctx.saved_tensors, ctx.others, strict=True)
        rows = [other if x is None else x for x, other in both]
        with torch.no_grad():
            slopes = ctx.pieces.differentiate(rows, gradients)
        if torch.is_grad_enabled():  # somebody may differentiate them
            leaves = [*ctx.pieces.weights, *filter(wants_gradient, rows)]
            slopes = Once.apply(len(slopes), *slopes, *gradients, *leaves)
        return None, None, *slopes


class Once(torch.autograd.Function):
    """Gradients that depend on other tensors in a way that is not differentiated."""

    @staticmethod
    def forward(ctx: Any, n: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        """The first n of them, which are the gradients."""
        return tuple(x if x is None else x.view_as(x) for x in tensors[:n])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        """Refuse to differentiate a second time."""
        raise InvarianceError(
            "GradCache can be differentiated once, not twice: for a gradient penalty "
            "or a Hessian, call the network itself, without pieces."
        )


class Pieces:
    """A batch in pieces, which are encoded twice alike."""

    def __init__(self, network: nn.Module, data: Any, places: list[slice]) -> None:
        self.network, self.places = network, places
        self.device: torch.device = next(find_rows(data)).device
        self.inputs = rebuild([data], lambda _: ROWS)
        self.weights = [p for p in network.parameters() if p.requires_grad]
        self.buffers = [buffer.data for buffer in network.buffers()]
        self.autocast: dict[str, Any] = {}
        if torch.amp.is_autocast_available(kind := self.device.type):
            self.autocast["enabled"] = torch.is_autocast_enabled(kind)
            self.autocast["dtype"] = torch.get_autocast_dtype(kind)

    def encode(self, rows: list[Any], where: slice) -> Any:
        """The network's output for some of the rows."""
        piece = iter([x[where] for x in rows])
        inputs, named = rebuild([self.inputs], lambda _: next(piece))
        with contextlib.ExitStack() as held:
            if self.autocast:
                # weights are cast anew for each piece: gradients of pieces that share
                # a cast would be added up in 16 bits
                how = self.autocast | {"cache_enabled": False}
                held.enter_context(torch.autocast(self.device.type, **how))
            output = self.network(*inputs, **named)
        if any(isinstance(x, Tensor) and x.ndim == 0 for x in flatten(output)):
            raise ShapeError(
                "GradCache puts outputs together row by row, but this network also "
                "gives a number without rows, such as a loss, for each piece: let it "
                "return one value per row, and average outside."
            )
        n, lengths = where.stop - where.start, {x.shape[0] for x in find_rows(output)}
        if lengths != {n}:
            raise ShapeError(
                "GradCache needs a network with one row of output per row of input: "
                f"got {' and '.join(map(str, sorted(lengths))) or 'no'} rows for {n}."
            )
        return output

    def encode_all(self, rows: list[Any]) -> tuple[Tensor, ...]:
        """The first pass: the embeddings of all rows.

        It makes a graph and drops it, so that both passes run the same code.
        """
        self.rewind = mark_place(self.device)
        self.before: list[tuple[list[Tensor], dict[str, Any]]] = []
        outputs = []
        for where in self.places:
            self.before.append((copy_all(self.buffers), random_states()))
            with torch.enable_grad():  # no name may hold on to the graph
                outputs.append(
                    rebuild([self.encode(rows, where)], lambda x: x[0].detach())
                )
        self.embeddings = [list(find_rows(output)) for output in outputs]
        self.output = rebuild(outputs[:1], lambda _: ROWS)
        return tuple(find_rows(rebuild(outputs, torch.cat)))

    def differentiate(
        self, rows: list[Any], gradients: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """The second pass: gradients of weights and inputs, from the embeddings'."""
        # inputs are cut off from what they came from
        rows = [x.detach().requires_grad_() if wants_gradient(x) else x for x in rows]
        leaves = [*self.weights, *filter(wants_gradient, rows)]
        sums: list[Tensor | None] = [None] * len(leaves)
        self.differences: list[Tensor] = []
        with keep_values(self.buffers), keep_random_states(), self.rewind():
            for k, where in enumerate(self.places):
                values, states = self.before[k]
                overwrite(self.buffers, values)
                set_random_states(states)
                with torch.enable_grad():
                    output = list(find_rows(self.encode(rows, where)))
                if k == 0:
                    require_known(output, leaves)
                self.compare(k, output)
                pairs = [
                    (x, gradient[where])
                    for x, gradient in zip(output, gradients, strict=True)
                    if x.requires_grad
                ]
                add_up(sums, differentiate(pairs, leaves))
        return [
            None if total is None else total.to(leaf.dtype)
            for total, leaf in zip(sums, leaves, strict=True)
        ]

    def compare(self, k: int, rows: list[Tensor]) -> None:
        """Raise if the second pass gives other embeddings than the first.

        A GPU is asked after the first and the last piece only, and never while a graph
        is captured.
        """
        pairs = [
            (x.to(wide_enough(x)), y.detach())
            for x, y in zip(self.embeddings[k], rows, strict=True)
            if x.is_floating_point()
        ]
        self.differences += [(x - y).norm() / x.norm() for x, y in pairs]
        if k not in (0, len(self.places) - 1) or is_capturing():
            return
        dtypes = [x.dtype for x in self.embeddings[k] if x.is_floating_point()]
        if self.autocast.get("enabled"):
            dtypes.append(self.autocast["dtype"])
        if self.device.type != "cpu":  # which may round factors to 10 bits
            dtypes.append(torch.float16)
        tolerance = max(torch.finfo(dtype).eps for dtype in dtypes) ** 0.5
        far = float(torch.stack(self.differences).max())
        if far > tolerance:  # NaN is not: others look for it
            raise TrainingError(
                "Pieces of a batch are encoded twice, and here the second time gives "
                f"other embeddings ({100 * far:.2g} % away). Most likely the weights "
                "have changed since: take the optimizer's step after the backward "
                "pass. Otherwise something in the network changes from call to call "
                "that is neither a buffer nor drawn from a generator of PyTorch, NumPy "
                "or Python: make it repeatable, or train it without pieces."
            )


def wants_gradient(x: Any) -> bool:
    """Whether this is a tensor whose gradient is asked for."""
    return isinstance(x, Tensor) and x.requires_grad


def require_known(rows: list[Tensor], leaves: list[Tensor]) -> None:
    """Refuse a network that uses tensors with a gradient which are not its own."""
    known, seen = {id(x) for x in leaves}, set()
    nodes = [x.grad_fn for x in rows if x.grad_fn is not None]
    while nodes:
        node: Any = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        nodes += [further for further, _ in node.next_functions if further is not None]
        tensor = getattr(node, "variable", None)
        if tensor is not None and id(tensor) not in known:
            raise SettingError(
                "GradCache finds gradients for the parameters of its network and for "
                f"its inputs, but this one also uses a tensor {tuple(tensor.shape)} "
                "that is neither: make it a parameter of the network."
            )


def differentiate(
    pairs: list[tuple[Tensor, Tensor]], leaves: list[Tensor]
) -> Sequence[Tensor | None]:
    """Gradients of leaves, from outputs and their gradients."""
    if not pairs:
        return [None] * len(leaves)
    outputs, gradients = zip(*pairs, strict=True)
    return torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)


def add_up(sums: list[Tensor | None], parts: Sequence[Tensor | None]) -> None:
    """Add to each sum, in float32 at least; one that is None begins here."""
    mine, theirs = [], []
    for k, part in enumerate(parts):
        if part is None:
            continue
        total = sums[k]
        if total is None:
            total = sums[k] = torch.zeros_like(part, dtype=wide_enough(part))
        mine.append(total)
        theirs.append(part)
    if mine:
        torch._foreach_add_(mine, theirs)


def wide_enough(x: Tensor) -> torch.dtype:
    """The tensor's type, or float32 if that is wider."""
    return torch.promote_types(x.dtype, torch.float32)


@contextlib.contextmanager
def keep_values(tensors: list[Tensor]) -> Iterator[None]:
    """Leave tensors as they were."""
    values = copy_all(tensors)
    try:
        yield
    finally:
        overwrite(tensors, values)


def copy_all(tensors: list[Tensor]) -> list[Tensor]:
    """Copies of all."""
    copies = [torch.empty_like(x) for x in tensors]
    overwrite(copies, tensors)
    return copies


def overwrite(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Write values into tensors, in one launch for each type."""
    for dtype in dict.fromkeys(x.dtype for x in tensors):
        mine = [k for k, x in enumerate(tensors) if x.dtype == dtype]
        torch._foreach_copy_([tensors[k] for k in mine], [values[k] for k in mine])


def find_rows(data: Any) -> Iterator[Any]:
    """Whatever has rows in some inputs or outputs."""
    return (x for x in flatten(data) if len(getattr(x, "shape", ())) > 0)


def flatten(data: Any) -> Iterator[Any]:
    """All that is in tuples, lists and dicts, one after the other."""
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, tuple | list):
        for item in data:
            yield from flatten(item)
    else:
        yield data


def rebuild(data: list[Any], make: Callable[[list[Any]], Any]) -> Any:
    """Data of one structure as one, in which ``make`` puts together what has rows."""
    first = data[0]
    if isinstance(first, Mapping):
        items = {name: rebuild([x[name] for x in data], make) for name in first}
        return type(first)(items)  # type: ignore[call-arg]
    if isinstance(first, tuple | list):
        kind, parts = type(first), zip(*data, strict=True)
        made = [rebuild(list(part), make) for part in parts]
        return kind(*made) if hasattr(first, "_fields") else kind(made)
    return make(data) if len(getattr(first, "shape", ())) > 0 else first
