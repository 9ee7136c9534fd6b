"""``torch.nn``: modules that have their parameters' shapes, and are never run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from mirage_gate.building.no_gpu.torch import types
from mirage_gate.building.no_gpu.torch.tensor import Tensor
from mirage_gate.building.no_gpu.torch.types import Default, dtype
from mirage_gate.building.no_gpu.unknown import Unknown, UnknownModule


class Module:
    """A part of a network. What is assigned to it and holds tensors is of it."""

    training = False
    dump_patches = False

    def __init__(self, *_args: Any, **_options: Any) -> None:
        pass

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.forward(*args, **options)  # type: ignore[attr-defined]

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        del persistent
        setattr(self, name, tensor)

    def register_parameter(self, name: str, tensor: Any) -> None:
        setattr(self, name, tensor)

    def add_module(self, name: str, module: Any) -> None:
        setattr(self, name, module)

    register_module = add_module

    def _self(self, *_args: Any, **_options: Any) -> Any:
        return self

    eval = train = requires_grad_ = share_memory = apply = _self

    def to(self, *args: Any, **options: Any) -> Any:
        """Move and convert every tensor, in place; integers keep their type."""
        kind = options.pop("dtype", None)
        for arg in args:
            if isinstance(arg, dtype):
                kind = arg
        rest = [arg for arg in args if not isinstance(arg, dtype)]
        for owner, name, tensor in _owned(self):
            options["dtype"] = kind if kind and tensor.dtype.is_floating_point else tensor.dtype
            moved = tensor.to(*rest, **options)
            moved.requires_grad = tensor.requires_grad
            owner[name] = moved
        return self

    def cuda(self, index: Any = None) -> Any:
        return self.to(types.device("cuda") if index is None else index)

    def cpu(self) -> Any:
        return self.to("cpu")

    def half(self) -> Any:
        return self.to(types.TYPES["float16"])

    def bfloat16(self) -> Any:
        return self.to(types.TYPES["bfloat16"])

    def float(self) -> Any:
        return self.to(types.FLOAT32)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        del recurse
        return named(self, f"{prefix}." if prefix else "")

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        del recurse
        return iter(())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((name, part) for name, part in _parts(self) if isinstance(part, Module))

    def children(self) -> Iterator[Module]:
        return (part for _, part in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, part in self.named_children():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        return (part for _, part in self.named_modules())

    def state_dict(self, *_args: Any, **_options: Any) -> dict[str, Tensor]:
        return dict(named(self, ""))

    def load_state_dict(self, *_args: Any, **_options: Any) -> Any:
        return Unknown("torch.nn.Module.load_state_dict()")

    @property
    def device(self) -> types.device:
        first = next(self.parameters(), None)
        return types.device(Default.device).placed() if first is None else first.device

    @property
    def dtype(self) -> types.dtype:
        first = next(self.parameters(), None)
        return Default.dtype if first is None else first.dtype


def _parts(module: Module) -> Iterator[tuple[str, Any]]:
    yield from vars(module).items()
    if isinstance(module, list):
        yield from ((str(index), part) for index, part in enumerate(module))
    elif isinstance(module, dict):
        yield from module.items()


def _owned(module: Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    seen = {id(module)}
    waiting = [module]
    while waiting:
        part = waiting.pop()
        for name, inner in list(_parts(part)):
            if isinstance(inner, Tensor):
                yield vars(part), name, inner
            elif isinstance(inner, Module) and id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)


def named(module: Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a network, by its dotted name."""
    for name, part in _parts(module):
        if isinstance(part, Tensor):
            yield f"{prefix}{name}", part
        elif isinstance(part, Module):
            yield from named(part, f"{prefix}{name}.")


class ModuleList(Module, list[Any]):
    """Modules in a row."""

    def __init__(self, modules: Iterable[Any] = ()) -> None:
        list.__init__(self, modules)

    __hash__ = object.__hash__  # type: ignore[assignment]


class Sequential(ModuleList):
    """Modules one behind the other."""

    def __init__(self, *modules: Any) -> None:
        list.__init__(self, modules)


class ModuleDict(Module, dict[str, Any]):
    """Modules by name."""

    def __init__(self, modules: Any = ()) -> None:
        dict.__init__(self, modules)

    __hash__ = object.__hash__  # type: ignore[assignment]


class Linear(Module):
    """A matrix of weights, as torch lays it out: rows are outputs."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Tensor((out_features, in_features), dtype, device=device)
        self.bias = Tensor((out_features,), dtype, device=device) if bias else None


class Embedding(Module):
    """A table with a row for each token."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *_args: Any,
        device: Any = None,
        dtype: dtype | None = None,
        **_options: Any,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = Tensor((num_embeddings, embedding_dim), dtype, device=device)


class RMSNorm(Module):
    """One weight for each element of a row."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: Any = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        shape = (
            normalized_shape if isinstance(normalized_shape, tuple | list) else (normalized_shape,)
        )
        self.eps = eps
        self.weight = Tensor(shape, dtype, device=device) if elementwise_affine else None


class LayerNorm(RMSNorm):
    """The same with a bias."""

    def __init__(
        self, normalized_shape: Any, *args: Any, bias: bool = True, **options: Any
    ) -> None:
        super().__init__(normalized_shape, *args, **options)
        self.bias = copy.copy(self.weight) if bias else None


class Identity(Module):
    """Nothing at all."""

    def forward(self, value: Any) -> Any:
        return value


class _Parameters(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.requires_grad


class Parameter(metaclass=_Parameters):
    """A tensor that is trained: the tensor itself, so marked."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if isinstance(data, Tensor):
            data.requires_grad = requires_grad
        return data


def module() -> UnknownModule:
    """The module ``torch.nn``."""
    made: Any = UnknownModule("torch.nn")
    for one in (Module, ModuleList, ModuleDict, Sequential, Linear, Embedding, RMSNorm, LayerNorm):
        setattr(made, one.__name__, one)
    made.Identity, made.Parameter = Identity, Parameter
    return made  # type: ignore[no-any-return]
