"""What stands in for the libraries around torch: models by their config, one rank of many."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from mirage_gate.building.no_gpu import checkpoint
from mirage_gate.building.no_gpu.machine import Machine
from mirage_gate.building.no_gpu.torch.nn import Module, ModuleList
from mirage_gate.building.no_gpu.torch.tensor import Tensor
from mirage_gate.building.no_gpu.torch.types import FLOAT32, INT64
from mirage_gate.building.no_gpu.unknown import NotStoodIn, UnknownModule

_PROMPT = 30
"""Tokens of any prompt: how many has no part in a graph."""

_OF_LOADING = frozenset(
    [
        "torch_dtype",
        "dtype",
        "device_map",
        "trust_remote_code",
        "attn_implementation",
        "low_cpu_mem_usage",
        "cache_dir",
        "revision",
        "token",
        "local_files_only",
        "quantization_config",
        "subfolder",
    ]
)
"""Arguments of ``from_pretrained`` that are not handed on to the model."""


def modules(machine: Machine) -> dict[str, types.ModuleType]:
    """Every module that stands in, by name."""
    made: dict[str, types.ModuleType] = {}
    for build in (_transformers, _safetensors, _mpi, _driver):
        made |= build(machine)
    for name, module in made.items():
        outer, _, inner = name.rpartition(".")
        if outer in made:
            setattr(made[outer], inner, module)
    return made


def small() -> dict[str, Callable[[], dict[str, types.ModuleType]]]:
    """What stands in for a library that is harmless here, and only where it is not installed."""
    return {"tqdm": _tqdm}


# --- transformers -----------------------------------------------------------------------


class Config:
    """A model's configuration: what its config.json says, over what the class says."""

    model_type = ""

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # What transformers has for every model.
        if name in ("rope_scaling", "pad_token_id", "torch_dtype", "dtype", "sliding_window"):
            return None
        if name == "_attn_implementation":
            return "eager"
        if name == "head_dim" and "hidden_size" in vars(self):
            return self.hidden_size // self.num_attention_heads
        raise AttributeError(f"the model's config.json has no {name}")

    @classmethod
    def from_pretrained(cls, *args: Any, **_options: Any) -> Any:
        known = _known(cls._machine, args[0] if args else None)  # type: ignore[attr-defined]
        made = cls(**known)
        for name, value in known.items():
            setattr(made, name, value)  # a class may take them for its own
        return made

    from_json_file = from_pretrained

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self).get(name, default)

    def update(self, values: dict[str, Any]) -> None:
        vars(self).update(values)


def _known(machine: Machine, path: Any) -> dict[str, Any]:
    """The model's config.json: as given, else as it lies in the folder that is named."""
    if machine.config is not None:
        return dict(machine.config)
    file = Path(str(path)) / "config.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise NotStoodIn(f"the model {path}", ": --model-config FILE tells its sizes") from error


class Pretrained(Module):
    """A model that a builder defines by itself."""

    config_class: Any = None

    def __init__(self, config: Any = None, *_args: Any, **_options: Any) -> None:
        self.config = config

    @classmethod
    def from_pretrained(cls, path: Any, *args: Any, **options: Any) -> Any:
        configs = cls.config_class or cls._configs  # type: ignore[attr-defined]
        config = options.pop("config", None) or configs.from_pretrained(path)
        rest = {name: value for name, value in options.items() if name not in _OF_LOADING}
        return cls(config, *args, **rest)

    from_config = classmethod(lambda cls, config, *_args, **_options: cls(config))

    def post_init(self) -> None:
        pass

    tie_weights = gradient_checkpointing_enable = post_init


class _Norm(Module):
    def __init__(self, width: int) -> None:
        self.weight = Tensor((width,))


class _Tree(Module):
    """A network by the names of its weights: numbers are places in a list."""

    @classmethod
    def of(cls, weights: Iterable[tuple[str, tuple[int, ...], Any]]) -> Any:
        root = cls()
        for name, shape, kind in weights:
            part: Any = root
            *path, last = name.split(".")
            for step in path:
                inside = vars(part)
                if step not in inside:
                    inside[step] = cls()
                part = inside[step]
            vars(part)[last] = Tensor(shape, kind)
        return root._listed()

    def _listed(self) -> Any:
        for name, part in list(vars(self).items()):
            if isinstance(part, _Tree):
                vars(self)[name] = part._listed()
        names = list(vars(self))
        if names and all(name.isdecimal() for name in names):
            return ModuleList(vars(self).values())
        return self


class CausalLM(Pretrained):
    """One of transformers' own models, as far as its weights' names and shapes go."""

    def __init__(self, config: Any, *_args: Any, **_options: Any) -> None:
        self.config = config
        tree = _Tree.of(checkpoint.of_config(config.to_dict()))
        self.model, self.lm_head = tree.model, tree.lm_head
        width = config.head_dim

        def rotary_emb(like: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
            at = like if positions is None else positions
            shape = (*at.shape, width)
            return Tensor(shape, like.dtype), Tensor(shape, like.dtype)

        vars(self.model)["rotary_emb"] = rotary_emb


class Tokenizer:
    """Any text is a few tokens."""

    eos_token_id = pad_token_id = bos_token_id = 0
    eos_token = pad_token = bos_token = ""

    @classmethod
    def from_pretrained(cls, *_args: Any, **_options: Any) -> Any:
        return cls()

    def apply_chat_template(self, *_args: Any, tokenize: bool = False, **_options: Any) -> Any:
        return [0] * _PROMPT if tokenize else "a prompt"

    def __call__(self, text: Any, **_options: Any) -> Any:
        batch = len(text) if isinstance(text, list | tuple) else 1
        return _Encoded(input_ids=Tensor((batch, _PROMPT), INT64))

    def encode(self, *_args: Any, **_options: Any) -> Any:
        return [0] * _PROMPT

    def decode(self, *_args: Any, **_options: Any) -> str:
        return ""

    def convert_tokens_to_ids(self, *_args: Any) -> int:
        return 0


class _Encoded(dict[str, Tensor]):
    def __getattr__(self, name: str) -> Tensor:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to(self, *_args: Any, **_options: Any) -> _Encoded:
        return self


class _RopeFunctions(dict[str, Any]):
    """transformers' tables of frequencies: half of a head's width, whatever their kind."""

    def __missing__(self, kind: str) -> Any:
        def frequencies(config: Any, device: Any = None, **_options: Any) -> tuple[Tensor, float]:
            return Tensor((config.head_dim // 2,), FLOAT32, device=device), 1.0

        return frequencies


class _Transformers(UnknownModule):
    """Any model that transformers has is made by its config.json."""

    def __getattr__(self, name: str) -> Any:
        if name.endswith(("ForCausalLM", "ForConditionalGeneration")):
            return self.__dict__["_causal"]
        return super().__getattr__(name)


def _transformers(machine: Machine) -> dict[str, types.ModuleType]:
    config = type("PretrainedConfig", (Config,), {"_machine": machine})
    model = type("PreTrainedModel", (Pretrained,), {"_configs": config})
    causal = type("AutoModelForCausalLM", (CausalLM,), {"_configs": config})
    names = [
        "transformers",
        "transformers.configuration_utils",
        "transformers.modeling_utils",
        "transformers.generation",
        "transformers.modeling_rope_utils",
        "transformers.activations",
        "transformers.models",
        "transformers.utils",
        "transformers.modeling_outputs",
        "transformers.cache_utils",
        "transformers.tokenization_utils",
    ]
    made: dict[str, Any] = {name: _Transformers(name) for name in names}
    for module in made.values():
        module.__dict__["_causal"] = causal
    top = made["transformers"]
    top.AutoConfig = top.PretrainedConfig = top.PreTrainedConfig = config
    top.PreTrainedModel, top.AutoModelForCausalLM, top.AutoModel = model, causal, causal
    top.AutoTokenizer = top.PreTrainedTokenizer = top.PreTrainedTokenizerFast = Tokenizer
    made["transformers.configuration_utils"].PretrainedConfig = config
    made["transformers.modeling_utils"].PreTrainedModel = model
    mixin = type("GenerationMixin", (), {})
    made["transformers.generation"].GenerationMixin = top.GenerationMixin = mixin
    rope = made["transformers.modeling_rope_utils"]
    rope.ROPE_INIT_FUNCTIONS = _RopeFunctions()
    rope.rope_config_validation = lambda *_args, **_options: None
    return made


def model_module(name: str, like: types.ModuleType) -> types.ModuleType:
    """``transformers.models.qwen3.modeling_qwen3`` and its kin, as they are asked for."""
    made = _Transformers(name)
    made.__dict__["_causal"] = like.__dict__["_causal"]
    return made


# --- safetensors ------------------------------------------------------------------------


def _safetensors(machine: Machine) -> dict[str, types.ModuleType]:
    top: Any = UnknownModule("safetensors")
    torch: Any = UnknownModule("safetensors.torch")
    config = machine.config

    def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
        return checkpoint.state(filename, config, device)

    class safe_open:  # noqa: N801 - the library's name
        def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu") -> None:
            del framework
            self._state = checkpoint.state(filename, config, device)

        def __enter__(self) -> safe_open:
            return self

        def __exit__(self, *_error: object) -> None:
            pass

        def keys(self) -> list[str]:
            return list(self._state)

        def get_tensor(self, name: str) -> Tensor:
            return self._state[name]

        get_slice = get_tensor

        def metadata(self) -> dict[str, str]:
            return {}

    top.safe_open = torch.safe_open = safe_open
    torch.load_file = load_file
    torch.load_model = lambda *_args, **_options: (set(), [])  # its shapes are there already
    return {"safetensors": top, "safetensors.torch": torch}


# --- The other ranks, the driver, a bar of progress --------------------------------------


class _World:
    """``MPI.COMM_WORLD`` of one rank, with nobody behind the others."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.rank, self.size = machine.rank, machine.world_size

    def Get_rank(self) -> int:  # noqa: N802 - the library's names
        return self.rank

    def Get_size(self) -> int:  # noqa: N802
        return self.size

    def Barrier(self) -> None:  # noqa: N802
        pass

    barrier = Barrier

    def bcast(self, value: Any, root: int = 0) -> Any:
        if root != self.rank:
            raise NotStoodIn(f"what rank {root} broadcasts")
        return value

    def allgather(self, value: Any) -> list[Any]:
        if self.size > 1:
            raise NotStoodIn("what the other ranks gather")
        return [value]

    def Split(self, *_args: Any, **_options: Any) -> _World:  # noqa: N802
        return self

    Split_type = Dup = Split

    def __getattr__(self, name: str) -> Any:
        raise NotStoodIn(f"mpi4py.MPI.COMM_WORLD.{name}")


def _mpi(machine: Machine) -> dict[str, types.ModuleType]:
    top: Any = UnknownModule("mpi4py")
    mpi: Any = UnknownModule("mpi4py.MPI")
    mpi.COMM_WORLD = _World(machine)
    mpi.Is_initialized = lambda: True
    mpi.Is_finalized = lambda: False
    top.MPI = mpi
    return {"mpi4py": top, "mpi4py.MPI": mpi}


class _Attributes:
    """The driver's names of what can be asked: each is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


def _driver(machine: Machine) -> dict[str, types.ModuleType]:
    """``cuda.bindings``, as far as a builder asks what the GPUs can."""
    gpu = machine.gpu
    answers = {
        "COMPUTE_CAPABILITY_MAJOR": gpu.major,
        "COMPUTE_CAPABILITY_MINOR": gpu.minor,
        "MULTIPROCESSOR_COUNT": gpu.processors,
        "MULTICAST_SUPPORTED": int(gpu.multicast and machine.multicast),
        "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": 1,
        "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED": 1,
    }
    good = types.SimpleNamespace(value=0)

    def attribute(name: str, _device: Any) -> tuple[Any, int]:
        known = name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        if known not in answers:
            raise NotStoodIn(f"the GPU's {known}")
        return good, answers[known]

    driver: Any = UnknownModule("cuda.bindings.driver")
    driver.cuInit = lambda *_args: (good,)
    driver.cuDeviceGet = lambda index: (good, index)
    driver.cuDeviceGetCount = lambda: (good, machine.world_size)
    driver.cuDeviceGetAttribute = attribute
    driver.cuDeviceCanAccessPeer = lambda *_devices: (good, 1)
    driver.CUdevice_attribute = _Attributes()
    names = ("cuda", "cuda.bindings", "cuda.bindings.nvrtc", "cuda.bindings.runtime")
    made: dict[str, types.ModuleType] = {name: UnknownModule(name) for name in names}
    return made | {"cuda.bindings.driver": driver}


def _tqdm() -> dict[str, types.ModuleType]:
    module: Any = types.ModuleType("tqdm")
    module.__path__ = []

    def tqdm(iterable: Any = (), *_args: Any, **_options: Any) -> Iterator[Any]:
        return iter(iterable)

    module.tqdm = tqdm
    module.trange = lambda *bounds, **_options: range(*bounds)
    auto: Any = types.ModuleType("tqdm.auto")
    auto.tqdm, auto.trange = module.tqdm, module.trange
    return {"tqdm": module, "tqdm.auto": auto}


def installed(name: str) -> bool:
    """Whether a library is here, without importing it."""
    import importlib.util

    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
