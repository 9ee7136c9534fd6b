"""The tensor: where it lies and how, and nothing in it.

Views lie where the viewed tensor does, copies have an address of their own. Shapes are worked
out as torch does, and what torch refuses is refused. A method whose result's shape is not known
gives an :class:`Unknown`, which cannot be used as a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mirage_gate.building.no_gpu.torch import types
from mirage_gate.building.no_gpu.torch.types import (
    BOOL,
    FLOAT32,
    INT64,
    TYPES,
    Default,
    Size,
    broadcast,
    contiguous,
    dtype,
    integer,
)
from mirage_gate.building.no_gpu.torch.views import Views, flat
from mirage_gate.building.no_gpu.unknown import NotStoodIn, Unknown

_ALIGNED = 512
_top = 0x7F00_0000_0000


def _allocated(nbytes: int) -> int:
    """An address of one's own, as torch's allocator spaces them."""
    global _top
    address = _top
    _top += (nbytes + _ALIGNED - 1) // _ALIGNED * _ALIGNED + _ALIGNED
    return address


class Tensor(Views):
    """A tensor without content; ``known`` is what is in it where that is known."""

    def __init__(
        self,
        shape: Iterable[Any] = (),
        dtype: dtype | None = None,
        strides: Sequence[int] | None = None,
        *,
        address: int | None = None,
        device: Any = None,
        known: Any = None,
    ) -> None:
        self.shape = Size(integer(extent, "the shape of a tensor") for extent in shape)
        if any(extent < 0 for extent in self.shape):
            raise RuntimeError(f"a negative extent in {self.shape}")
        self.dtype = Default.dtype if dtype is None else dtype
        self._strides = contiguous(self.shape) if strides is None else tuple(strides)
        self._address = _allocated(self._span()) if address is None else address
        self.device = types.device(Default.device if device is None else device).placed()
        self.known = known
        self.requires_grad = False
        self.grad = None

    def _span(self) -> int:
        if not math.prod(self.shape):
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self._strides, strict=True))
        return (last + 1) * self.dtype.itemsize

    # --- What it is ---

    def data_ptr(self) -> int:
        return self._address

    def stride(self, dim: int | None = None) -> Any:
        return self._strides if dim is None else self._strides[dim]

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    nelement = Views.numel
    ndimension = Views.dim

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def storage_offset(self) -> int:
        raise NotStoodIn("torch.Tensor.storage_offset")

    ndim = property(Views.dim)
    itemsize = property(element_size)
    nbytes = property(lambda self: self.numel() * self.dtype.itemsize)
    is_cuda = property(lambda self: self.device.type == "cuda")
    is_leaf = True
    data = property(lambda self: self)
    T = property(lambda self: self.permute(*reversed(range(self.dim()))))
    mT = property(lambda self: self.transpose(-2, -1))  # noqa: N815 - torch's name

    def get_device(self) -> int:
        return self.device.index or 0

    def _laid(
        self, shape: Iterable[int], dtype: dtype, strides: Iterable[int], address: int
    ) -> Tensor:
        return Tensor(shape, dtype, tuple(strides), address=address, device=self.device)

    # --- The same tensor, and copies of it ---

    def _self(self, *_args: Any, **_options: Any) -> Tensor:
        return self

    copy_ = fill_ = zero_ = normal_ = uniform_ = detach = detach_ = requires_grad_ = _self
    pin_memory = clamp_ = mul_ = add_ = div_ = sub_ = share_memory_ = alias = _self

    def like(self, shape: Iterable[int] | None = None, dtype: dtype | None = None) -> Tensor:
        """A new tensor on the same device."""
        return Tensor(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            device=self.device,
        )

    def kept(self, dtype: dtype | None = None, *others: Tensor) -> Tensor:
        """A new tensor that lies as this one does, and others, as far as this one leaves open."""
        shape = broadcast(self.shape, *(other.shape for other in others))
        strides = [one.broadcast_strides(shape) for one in (self, *others)]
        return Tensor(shape, dtype or self.dtype, types.kept(shape, strides), device=self.device)

    def broadcast_strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The strides that this tensor has where it is broadcast to a shape."""
        new = len(shape) - self.dim()
        own = zip(shape[new:], self.shape, self._strides, strict=True)
        return (0,) * new + tuple(step if extent == wide else 0 for wide, extent, step in own)

    def clone(self, **_options: Any) -> Tensor:
        return self.kept()

    def contiguous(self, **_options: Any) -> Tensor:
        return self if self.is_contiguous() else self.like()

    def to(
        self,
        *args: Any,
        dtype: dtype | None = None,
        device: Any = None,
        copy: bool = False,
        **_options: Any,
    ) -> Tensor:
        for arg in args:
            if isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, types.dtype):
                dtype = arg
            elif isinstance(arg, str | int | types.device) and not isinstance(arg, bool):
                device = arg
        kind = self.dtype if dtype is None else dtype
        place = self.device if device is None else types.device(device).placed()
        if kind is self.dtype and place == self.device and not copy:
            return self
        made = self.kept(kind)
        made.device, made.known = place, self.known
        return made

    def type(self, dtype: Any = None) -> Any:
        if dtype is None:
            raise NotStoodIn("torch.Tensor.type()")
        return self.to(dtype)

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other)

    def cuda(self, index: Any = None, **_options: Any) -> Tensor:
        return self.to(device=types.device("cuda") if index is None else index)

    def cpu(self, **_options: Any) -> Tensor:
        return self.to(device="cpu")

    # --- New tensors, by shape ---

    def repeat(self, *times: Any) -> Tensor:
        counts = flat(times)
        shape = (1,) * (len(counts) - self.dim()) + self.shape
        return self.like([n * integer(k, "a count") for n, k in zip(shape, counts, strict=True)])

    def repeat_interleave(self, repeats: Any, dim: int | None = None) -> Tensor:
        if isinstance(repeats, Tensor):
            raise NotStoodIn("torch.repeat_interleave by a tensor")
        if dim is None:
            return self.like((self.numel() * repeats,))
        at = self._dim(dim)
        return self.like((*self.shape[:at], self.shape[at] * repeats, *self.shape[at + 1 :]))

    def flip(self, *_dims: Any) -> Tensor:
        return self.like()

    def roll(self, *_args: Any, **_options: Any) -> Tensor:
        return self.like()

    def new_empty(self, *size: Any, dtype: dtype | None = None, **options: Any) -> Tensor:
        return Tensor(flat(size), dtype or self.dtype, device=options.get("device", self.device))

    new_zeros = new_ones = new_empty

    def new_full(self, size: Any, _value: Any, **options: Any) -> Tensor:
        return self.new_empty(size, **options)

    def matmul(self, other: Tensor) -> Tensor:
        left = self if self.dim() > 1 else self.unsqueeze(0)
        right = other if other.dim() > 1 else other.unsqueeze(1)
        if left.shape[-1] != right.shape[-2]:
            raise RuntimeError(f"{self.shape} and {other.shape} do not multiply")
        shape = [*broadcast(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]]
        if self.dim() == 1:
            del shape[-2]
        if other.dim() == 1:
            del shape[-1]
        return self.like(shape)

    __matmul__ = mm = bmm = matmul

    def reduced(self, dim: Any = None, keepdim: bool = False, dtype: dtype | None = None) -> Tensor:
        """What is left where some dimensions are summed up, or their largest is taken."""
        listed = (
            range(self.dim()) if dim is None else dim if isinstance(dim, tuple | list) else [dim]
        )
        gone = {self._dim(d) for d in listed}
        shape = [
            1 if d in gone else n for d, n in enumerate(self.shape) if keepdim or d not in gone
        ]
        return self.like(shape, dtype)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return self.reduced(dim, keepdim)

    def sum(self, dim: Any = None, keepdim: bool = False, dtype: dtype | None = None) -> Tensor:
        kind = self.dtype if self.dtype.is_floating_point else INT64
        return self.reduced(dim, keepdim, dtype or kind)

    def mean(self, dim: Any = None, keepdim: bool = False, dtype: dtype | None = None) -> Tensor:
        return self.reduced(dim, keepdim, dtype)

    def max(self, *args: Any, **options: Any) -> Any:
        if args and isinstance(args[0], Tensor):
            return self.with_other(args[0])
        if not args and "dim" not in options:
            return self.reduced()
        values = self.reduced(*args, **options)
        return values, values.like(dtype=INT64)

    def argmax(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return self.reduced(dim, keepdim, INT64)

    def all(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return self.reduced(dim, keepdim, BOOL)

    def topk(self, k: int, dim: int = -1, **_options: Any) -> tuple[Tensor, Tensor]:
        at = self._dim(dim)
        values = self.like((*self.shape[:at], k, *self.shape[at + 1 :]))
        return values, values.like(dtype=INT64)

    amin, prod, std, var, norm = amax, sum, mean, mean, mean
    min, argmin, any = max, argmax, all

    def with_other(self, other: Any = None, *_args: Any, **_options: Any) -> Tensor:
        """What this tensor and another, or a number, make element by element."""
        if isinstance(other, Tensor):
            # A tensor of no dimension weighs like a number.
            kind = types.promoted(self.dtype, other.dtype)
            for one, two in ((self, other), (other, self)):
                same = one.dtype.is_floating_point >= two.dtype.is_floating_point
                if one.dim() and not two.dim() and same:
                    kind = one.dtype
            return self.kept(kind, other)
        return self.kept(types.with_number(self.dtype, other))

    def compared(self, other: Any, *_args: Any) -> Tensor:
        """The same, as truths."""
        return self.kept(BOOL, *([other] if isinstance(other, Tensor) else ()))

    def divided(self, other: Any, *_args: Any, **_options: Any) -> Tensor:
        """The same, as fractions."""
        result = self.with_other(other)
        return result if result.dtype.is_floating_point else result.kept(Default.dtype)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = with_other
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ior__ = __iand__ = _self
    __mod__ = __floordiv__ = __pow__ = __rpow__ = __and__ = __or__ = __xor__ = with_other
    __rmod__ = __rfloordiv__ = __ror__ = __rand__ = __lshift__ = __rshift__ = with_other
    __truediv__ = __rtruediv__ = div = true_divide = divided
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = compared  # type: ignore[assignment]
    __hash__ = object.__hash__
    add = sub = mul = pow = remainder = maximum = minimum = bitwise_or = bitwise_and = with_other
    eq = ne = lt = le = gt = ge = compared

    def elementwise(self, *_args: Any, **options: Any) -> Tensor:
        """What a function of one number makes of each."""
        return self.kept(options.get("dtype"))

    def fractional(self, *_args: Any, **options: Any) -> Tensor:
        """The same, by a function whose results are no integers."""
        kind = self.dtype if self.dtype.is_floating_point else Default.dtype
        return self.kept(options.get("dtype") or kind)

    __neg__ = __pos__ = __invert__ = __abs__ = elementwise

    # --- What is in it ---

    def item(self) -> Any:
        if self.known is None or isinstance(self.known, list):
            raise NotStoodIn("the value of a tensor")
        return self.known

    def tolist(self) -> Any:
        if self.known is None:
            raise NotStoodIn("the values of a tensor")
        return self.known

    def numpy(self, **_options: Any) -> Any:
        raise NotStoodIn("the values of a tensor")

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.known if spec and self.known is not None else str(self), "")

    def __repr__(self) -> str:
        kind = f", dtype={self.dtype}" if self.dtype is not FLOAT32 else ""
        return f"tensor(…, size={tuple(self.shape)}, device='{self.device}'{kind})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Unknown(f"torch.Tensor.{name}")


ELEMENTWISE = [
    "abs",
    "ceil",
    "floor",
    "round",
    "trunc",
    "neg",
    "sign",
    "relu",
    "clamp",
    "clip",
    "clamp_min",
    "clamp_max",
    "fmod",
    "square",
    "masked_fill",
    "tril",
    "triu",
    "bitwise_not",
    "nan_to_num",
]
FRACTIONAL = [
    "exp",
    "exp2",
    "log",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "softmax",
    "log_softmax",
    "silu",
    "gelu",
    "erf",
]


def _methods() -> None:
    for name in ELEMENTWISE:
        setattr(Tensor, name, Tensor.elementwise)
    for name in FRACTIONAL:
        setattr(Tensor, name, Tensor.fractional)

    def converts(kind: dtype) -> Callable[..., Tensor]:
        return lambda self, **_options: self.to(kind)

    for name, alias in types.ALIASES.items():
        setattr(Tensor, name, converts(TYPES[alias]))
    for name in ("bool", "bfloat16"):
        setattr(Tensor, name, converts(TYPES[name]))


_methods()
