"""The module that a builder gets for ``import torch``, and the modules inside it."""

from __future__ import annotations

import math
import sys
import types as python
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mirage_gate.building.no_gpu.machine import Machine
from mirage_gate.building.no_gpu.torch import nn as networks
from mirage_gate.building.no_gpu.torch import types
from mirage_gate.building.no_gpu.torch.tensor import ELEMENTWISE, FRACTIONAL, Tensor
from mirage_gate.building.no_gpu.torch.types import ALIASES, BOOL, INT64, TYPES, Default, integer
from mirage_gate.building.no_gpu.torch.views import flat
from mirage_gate.building.no_gpu.unknown import NotStoodIn, UnknownModule

VERSION = "2.7.0"

_LIKE = ["empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"]
_METHODS = [
    "transpose",
    "permute",
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "unbind",
    "chunk",
    "split",
    "narrow",
    "select",
    "repeat_interleave",
    "flip",
    "roll",
    "matmul",
    "mm",
    "bmm",
    "amax",
    "amin",
    "sum",
    "mean",
    "max",
    "min",
    "argmax",
    "argmin",
    "all",
    "any",
    "prod",
    "std",
    "var",
    "topk",
    "swapaxes",
    "clone",
    "t",
    "as_strided",
]


def modules(machine: Machine) -> dict[str, python.ModuleType]:
    """Every module that stands in, by name."""
    torch = UnknownModule("torch")
    made = {"torch": torch, "torch.nn": networks.module(), "torch.cuda": _cuda(machine)}
    made["torch.distributed"] = _distributed(machine)
    for name in [
        "torch.nn.functional",
        "torch.nn.init",
        "torch.nn.parallel",
        "torch.utils",
        "torch.utils.data",
        "torch.multiprocessing",
        "torch.library",
        "torch.backends",
        "torch.backends.cuda",
        "torch.autograd",
        "torch.backends.cudnn",
        "torch.fx",
        "torch.profiler",
        "torch.version",
        "torch.jit",
        "torch._dynamo",
        "torch.amp",
        "torch.utils.cpp_extension",
    ]:
        made[name] = UnknownModule(name)
    for name, module in made.items():
        outer, _, inner = name.rpartition(".")
        if outer in made:
            setattr(made[outer], inner, module)
    _fill(torch)
    return made


def _fill(torch: Any) -> None:
    torch.__version__ = VERSION
    torch.__file__ = __file__
    torch.version.cuda = "12.8"
    torch.version.hip = None
    for name, kind in TYPES.items():
        setattr(torch, name, kind)
    for name, alias in ALIASES.items():
        setattr(torch, name, TYPES[alias])
    torch.Tensor, torch.Size = Tensor, types.Size
    torch.dtype, torch.device = types.dtype, types.device
    for name in [
        "FloatTensor",
        "LongTensor",
        "IntTensor",
        "BoolTensor",
        "HalfTensor",
        "BFloat16Tensor",
    ]:
        setattr(torch, name, Tensor)
    torch.strided, torch.contiguous_format, torch.preserve_format = "strided", "contiguous", "kept"
    torch.inf, torch.nan, torch.pi, torch.e = math.inf, math.nan, math.pi, math.e
    for function in (
        empty, full, empty_strided, randint, randperm, arange, linspace, tensor, cat, stack, where,
        einsum, outer, is_tensor, is_floating_point, set_default_dtype, get_default_dtype,
        set_default_device, get_default_device, iinfo, finfo, broadcast_tensors, meshgrid,
    ):  # fmt: skip
        setattr(torch, function.__name__, function)
    torch.zeros = torch.ones = torch.rand = torch.randn = empty
    torch.concat = torch.concatenate = cat
    torch.as_tensor = torch.asarray = torch.from_numpy = tensor
    for name in _LIKE:
        setattr(torch, name, _like)
    for name in _METHODS:
        setattr(torch, name, _method(name))
    for name in ELEMENTWISE:
        setattr(torch, name, _applied(Tensor.elementwise))
    for name in FRACTIONAL:
        setattr(torch, name, _applied(Tensor.fractional))
    for name in [
        "add",
        "sub",
        "mul",
        "pow",
        "remainder",
        "maximum",
        "minimum",
        "bitwise_or",
        "bitwise_and",
    ]:
        setattr(torch, name, _applied(Tensor.with_other))
    torch.div = torch.true_divide = _applied(Tensor.divided)
    torch.eq = torch.ne = torch.lt = torch.le = torch.gt = torch.ge = _applied(Tensor.compared)
    for name in ["no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "autocast"]:
        setattr(torch, name, Passing)
    torch.amp.autocast = torch.cuda.amp_autocast = Passing
    torch.compile = _unchanged
    for name in [
        "manual_seed",
        "set_num_threads",
        "set_printoptions",
        "use_deterministic_algorithms",
    ]:
        setattr(torch, name, _nothing)
    torch.nn.init.__getattr__ = _nothing  # filling changes no shape


class Passing:
    """A context, or a decorator with or without arguments, that changes nothing."""

    def __new__(cls, *args: Any, **_options: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], python.FunctionType):
            return args[0]
        return object.__new__(cls)

    def __init__(self, *_args: Any, **_options: Any) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        pass


def _nothing(*_args: Any, **_options: Any) -> None:
    pass


def _unchanged(function: Any = None, **_options: Any) -> Any:
    return _unchanged if function is None else function


# --- Making tensors ---------------------------------------------------------------------


def empty(*size: Any, **options: Any) -> Tensor:
    shape = flat(size) if size else flat((options.get("size", ()),))
    return Tensor(shape, options.get("dtype"), device=options.get("device"))


def full(size: Any, fill_value: Any = 0, **options: Any) -> Tensor:
    kind = options.get("dtype")
    if kind is None:
        number = fill_value
        kind = BOOL if isinstance(number, bool) else INT64 if isinstance(number, int) else None
    made = Tensor(flat((size,)), kind, device=options.get("device"))
    if not made.shape:
        made.known = fill_value
    return made


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    return Tensor(size, options.get("dtype"), stride, device=options.get("device"))


def randint(*args: Any, **options: Any) -> Tensor:
    size = options.get("size", args[-1])
    return Tensor(size, options.get("dtype", INT64), device=options.get("device"))


def randperm(n: Any, **options: Any) -> Tensor:
    return Tensor((n,), options.get("dtype", INT64), device=options.get("device"))


def arange(*bounds: Any, **options: Any) -> Tensor:
    kind = options.get("dtype")
    if any(isinstance(bound, float) for bound in bounds):
        start, stop = (0.0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        count = math.ceil((stop - start) / (bounds[2] if len(bounds) > 2 else 1))
    else:
        count = len(range(*(integer(bound, "a bound of torch.arange") for bound in bounds)))
        kind = kind or INT64
    return Tensor((count,), kind, device=options.get("device"))


def linspace(_start: Any, _end: Any, steps: Any, **options: Any) -> Tensor:
    return Tensor((steps,), options.get("dtype"), device=options.get("device"))


def tensor(data: Any, **options: Any) -> Tensor:
    if isinstance(data, Tensor):
        return data.to(**{k: v for k, v in options.items() if k in ("dtype", "device")})
    shape: list[int] = []
    inner = data
    while isinstance(inner, list | tuple):
        shape.append(len(inner))
        inner = inner[0] if inner else 0.0
    if not isinstance(inner, bool | int | float):
        raise NotStoodIn(f"torch.tensor of {type(inner).__name__}")
    numbers = {bool: BOOL, int: INT64}
    kind = options.get("dtype") or numbers.get(type(inner), Default.dtype)
    known = list(data) if isinstance(data, tuple) else data
    return Tensor(shape, kind, device=options.get("device"), known=known)


def _like(like: Tensor, *_value: Any, **options: Any) -> Tensor:
    made = like.kept(options.get("dtype"))
    made.device = types.device(options.get("device") or like.device).placed()
    return made


# --- Of tensors -------------------------------------------------------------------------


def _method(name: str) -> Callable[..., Any]:
    def call(input: Any, *args: Any, **options: Any) -> Any:
        return getattr(_tensor(input, name), name)(*args, **options)

    return call


def _applied(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        # torch.pow(2.0, t): a number may stand first.
        first = next((arg for arg in args if isinstance(arg, Tensor)), None)
        rest = [arg for arg in args if arg is not first]
        return method(_tensor(first, "an operation"), *rest, **options)

    return call


def _tensor(value: Any, what: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise NotStoodIn(f"torch.{what} of {value!r}")
    return value


def cat(tensors: Iterable[Tensor], dim: int = 0, **_options: Any) -> Tensor:
    parts = [_tensor(part, "cat") for part in tensors]
    parts = [part for part in parts if part.shape != (0,)] or parts[:1]
    first = parts[0]
    at = first._dim(dim)
    kind = first.dtype
    for part in parts[1:]:
        others = [part.shape[d] == n for d, n in enumerate(first.shape) if d != at]
        if part.dim() != first.dim() or not all(others):
            raise RuntimeError(f"{first.shape} and {part.shape} do not join in dimension {dim}")
        kind = types.promoted(kind, part.dtype)
    extent = sum(part.shape[at] for part in parts)
    return first.like((*first.shape[:at], extent, *first.shape[at + 1 :]), kind)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    if any(part.shape != tensors[0].shape for part in tensors):
        raise RuntimeError(f"no stack of shapes {sorted({part.shape for part in tensors})}")
    at = tensors[0]._dim(dim, 1)
    shape = tensors[0].shape
    return tensors[0].like((*shape[:at], len(tensors), *shape[at:]))


def where(condition: Tensor, *choices: Any) -> Tensor:
    if len(choices) != 2:
        raise NotStoodIn("torch.where of a condition alone")
    made = condition.with_other(choices[0]).with_other(choices[1])
    kinds = [choice.dtype for choice in choices if isinstance(choice, Tensor)]
    return made.like(dtype=kinds[0] if kinds else Default.dtype)


def einsum(equation: str, *operands: Any) -> Tensor:
    tensors = flat(operands)
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "." in equation or len(terms) != len(tensors):
        raise NotStoodIn(f"torch.einsum of {equation!r}")
    extents: dict[str, int] = {}
    for term, operand in zip(terms, tensors, strict=True):
        if len(term) != operand.dim():
            raise RuntimeError(f"einsum: {term} does not name the dimensions of {operand.shape}")
        for axis, extent in zip(term, operand.shape, strict=True):
            if extents.setdefault(axis, extent) != extent:
                raise RuntimeError(f"einsum: {axis} is {extents[axis]} and {extent}")
    if not arrow:
        output = "".join(sorted(axis for axis in extents if inputs.count(axis) == 1))
    return tensors[0].like([extents[axis] for axis in output])  # type: ignore[no-any-return]


def outer(first: Tensor, second: Tensor) -> Tensor:
    kind = types.promoted(first.dtype, second.dtype)
    return first.like((first.shape[0], second.shape[0]), kind)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    shape = types.broadcast(*(one.shape for one in tensors))
    return tuple(one.expand(*shape) for one in tensors)


def meshgrid(*tensors: Tensor, **_options: Any) -> tuple[Tensor, ...]:
    shape = tuple(one.shape[0] for one in flat(tensors))
    return tuple(one.like(shape) for one in flat(tensors))


def is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def is_floating_point(value: Tensor) -> bool:
    return value.dtype.is_floating_point


def set_default_dtype(kind: types.dtype) -> None:
    Default.dtype = kind


def get_default_dtype() -> types.dtype:
    return Default.dtype


def set_default_device(device: Any) -> None:
    Default.device = str(types.device("cpu" if device is None else device))


def get_default_device() -> types.device:
    return types.device(Default.device)


def iinfo(kind: types.dtype) -> python.SimpleNamespace:
    bits = 8 * kind.itemsize - kind.is_signed
    low = -(2**bits) if kind.is_signed else 0
    return python.SimpleNamespace(bits=8 * kind.itemsize, min=low, max=2**bits - 1)


_RANGES = {
    "float64": (sys.float_info.max, sys.float_info.epsilon),
    "float32": ((2 - 2**-23) * 2.0**127, 2.0**-23),
    "bfloat16": ((2 - 2**-7) * 2.0**127, 2.0**-7),
    "float16": (65504.0, 2.0**-10),
    "float8_e4m3fn": (448.0, 2.0**-3),
    "float8_e5m2": (57344.0, 2.0**-2),
}


def finfo(kind: types.dtype) -> python.SimpleNamespace:
    if kind.name not in _RANGES:
        raise NotStoodIn(f"torch.finfo({kind})")
    largest, epsilon = _RANGES[kind.name]
    return python.SimpleNamespace(bits=8 * kind.itemsize, min=-largest, max=largest, eps=epsilon)


# --- The GPU and the other ranks --------------------------------------------------------


def _cuda(machine: Machine) -> python.ModuleType:
    gpu = machine.gpu
    properties = python.SimpleNamespace(
        name=gpu.name,
        major=gpu.major,
        minor=gpu.minor,
        multi_processor_count=gpu.processors,
        total_memory=gpu.gigabytes << 30,
        shared_memory_per_block_optin=gpu.shared_memory,
        warp_size=32,
        gcnArchName="",
    )
    cuda: Any = UnknownModule("torch.cuda")

    def set_device(index: Any) -> None:
        Default.index = types.device(index).index or 0

    class device:  # noqa: N801 - torch's name
        def __init__(self, index: Any) -> None:
            self._index = index

        def __enter__(self) -> None:
            self._before = Default.index
            set_device(self._index)

        def __exit__(self, *_error: object) -> None:
            Default.index = self._before

    cuda.device = device
    cuda.set_device = set_device
    cuda.is_available = cuda.is_initialized = cuda.is_bf16_supported = lambda *_args: True
    cuda.device_count = lambda: max(machine.world_size, 1)
    cuda.current_device = lambda: Default.index
    cuda.get_device_properties = lambda *_device: properties
    cuda.get_device_capability = lambda *_device: (gpu.major, gpu.minor)
    cuda.get_device_name = lambda *_device: gpu.name
    cuda.mem_get_info = lambda *_device: (gpu.gigabytes << 30, gpu.gigabytes << 30)
    for name in [
        "synchronize",
        "empty_cache",
        "init",
        "ipc_collect",
        "manual_seed_all",
        "manual_seed",
    ]:
        setattr(cuda, name, _nothing)
    return cuda  # type: ignore[no-any-return]


def _distributed(machine: Machine) -> python.ModuleType:
    distributed: Any = UnknownModule("torch.distributed")
    distributed.is_available = lambda: True
    distributed.is_initialized = lambda: machine.world_size > 1
    distributed.get_rank = lambda *_group: machine.rank
    distributed.get_world_size = lambda *_group: machine.world_size
    distributed.get_backend = lambda *_group: "nccl"
    for name in [
        "init_process_group",
        "destroy_process_group",
        "barrier",
        "all_reduce",
        "broadcast",
        "reduce",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
    ]:  # what they fill keeps its shape
        setattr(distributed, name, _nothing)
    return distributed  # type: ignore[no-any-return]
