"""The text of a generated `.cu`: loader, declarations, dispatch chain, in several dialects.

What an auditor reads stands exactly as MPK writes it: storage and `all_tensors` statements,
`task.at("FIELD")`, dispatch conditions, slot expressions. What lies between (kernel names,
template arguments) is made up, and there so that a parser has something to step over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .bodies import Compiled, statement
from .graph import METADATA, Copy, Storage, Tensor
from .tasks import KINDS_BY_CODE

__all__ = [
    "CURRENT",
    "EMBEDDED",
    "LITERAL",
    "OLD",
    "Branch",
    "Declaration",
    "Dialect",
    "cuda_text",
    "runtime_header",
]


@dataclass(frozen=True)
class Dialect:
    """How one version of the emitter writes.

    `literal`: host tensors are `(char*)(0x7f00…)` rather than `model_tensors.at`. `checked`: CUDA
    calls stand in `CUDA_CHECK(…)`. `arrow`: `task_desc->` rather than `task_desc.`. `metadata`:
    the union's fields that the loader insists on and the graph has. `embedded`: `use_json_format`
    is off, so the tasks are statements in the `.cu`, and `all_tensors` does not exist. `reduced`:
    the calls in the bodies are made up, as where only a part of a real file was kept.
    """

    literal: bool = False
    checked: bool = True
    arrow: bool = True
    metadata: tuple[str, ...] = METADATA
    embedded: bool = False
    reduced: bool = False
    newline: str = "\n"
    tabs: bool = False
    bom: bool = False


CURRENT = Dialect()
LITERAL = Dialect(literal=True)
OLD = Dialect(
    literal=True,
    checked=False,
    arrow=False,
    metadata=tuple(name for name in METADATA if name != "task_offset"),
)
EMBEDDED = Dialect(literal=True, checked=False, arrow=False, embedded=True)


@dataclass
class Declaration:
    """A tensor in `_init_persistent_kernel`: its storage, then its `all_tensors` statement.

    `key` is the name inside the quotes, the identifier itself unless a test wants them to differ.
    """

    name: str
    storage: Storage = "host"
    nbytes: int = 0
    address: int = 0
    copies: list[Copy] = field(default_factory=list)
    key: str = ""

    @classmethod
    def of(cls, tensor: Tensor, index: int) -> Declaration:
        nbytes = 0 if tensor.storage == "host" else tensor.nbytes
        address = 0x7F00_0010_0000 + index * 0x10_0000
        copies = [replace(copy) for copy in tensor.copies]  # a test may change them
        return cls(tensor.name, tensor.storage, nbytes, address, copies)

    def lines(self, dialect: Dialect) -> Iterator[str]:
        name = self.name

        def call(text: str) -> str:
            return f"CUDA_CHECK({text});" if dialect.checked else f"{text};"

        if self.storage == "symmetric":
            yield f"void *{name} = nvshmem_malloc({self.nbytes});"
            yield f"assert({name} != nullptr);"
        elif self.storage == "scratch":
            yield f"void *{name};"
            yield call(f"cudaMalloc(&{name}, {self.nbytes})")
        elif self.storage == "shuffled":
            yield f"char *{name};"
            yield call(f"cudaMalloc(&{name}, {self.nbytes})")
            for copy in self.copies:
                yield call(
                    f"cudaMemcpy2DAsync(reinterpret_cast<void *>({name} + {copy.offset}), "
                    f'{copy.pitch}, model_tensors.at("{copy.name}"), {copy.width}, {copy.width}, '
                    f"{copy.height}, cudaMemcpyDeviceToDevice)"
                )
        elif dialect.literal:
            yield f"char *{name} = (char*)({self.address:#x});"
        else:
            yield f'char *{name} = static_cast<char*>(model_tensors.at("{name}"));'
        if not dialect.embedded:
            yield f'all_tensors["{self.key or name}"] = {name};'


@dataclass
class Branch:
    """One arm of the dispatch chain: `TASK_…` and variant, and a body in `tasks.py` shorthand.

    `compiled` is what its call is generated from.
    """

    task: str
    variant: int
    body: str
    compiled: Compiled | None = None

    def lines(self, dialect: Dialect, first: bool) -> Iterator[str]:
        desc = "task_desc->" if dialect.arrow else "task_desc."
        lead = "if" if first else "else if"
        condition = f"{desc}task_type == {self.task} && {desc}variant_id == {self.variant}"
        yield f"  {lead} ({condition}) {{"
        if not dialect.reduced and "|" not in self.body:
            words = [_argument(word, desc) for word in self.body.split()]
            name = self.task.removeprefix("TASK_")
            body_lines = list(statement(name, self.compiled, words))
            if body_lines:
                yield from (line.replace("task_desc->", desc) for line in body_lines)
                yield "  }"
                return
        condition, _, body = self.body.rpartition("|")
        if condition:
            terms = [_argument(word, desc) for word in condition.split()]
            yield "  if (kernel::has_work("
            yield from (f"      {term}," for term in terms[:-1])
            yield f"      {terms[-1]})) {{"
        words = body.split()
        maps = [word for word in words if word.startswith("t")]
        if maps:
            yield "    using TMA = kernel::tma::tma_2d<bfloat16, 3, 3, 3, /*ROW=*/64, 64>;"
            yield "    TMA tma("
            yield from (f"      {_argument(word, desc)}," for word in maps)
            yield "      nullptr);  // the loader made the descriptors"
        kernel = self.task.removeprefix("TASK_").lower()
        yield f"    kernel::{kernel}_impl<bfloat16, {self.variant}>("
        arguments = [_argument(word, desc) for word in words if word not in maps]
        arguments[:0] = ["tma"] if maps else []
        yield from (f"      {argument}," for argument in arguments[:-1])
        yield f"      {arguments[-1] if arguments else ''});"
        if condition:
            yield "  }"
        yield "  }"


def _argument(word: str, desc: str) -> str:
    where = {"i": "input", "o": "output"}
    if word.startswith("t"):
        pointers = f"{desc}{where[word[1]]}_tma_desc_ptrs[{word[2:]}][0]"
        return f"static_cast<CUtensorMap*>({pointers})"
    if word.startswith("m."):
        return f"{desc}task_metadata.{word[2:]}"
    if word.startswith("r."):
        return f"runtime_config.{word[2:]}"
    return f"{desc}{where[word[0]]}_ptrs[{word[1:]}]"


_HEAD = """\
#include "persistent_kernel.cuh"
#include <nlohmann/json.hpp>
#include <fstream>
#include <filesystem>
using json = nlohmann::json;
using namespace mirage::runtime;

// An event id: the rank above bit 32, the position below, a tag for NVSHMEM events.
size_t get_event_id(int my_gpu_id, size_t event_pos, bool nvshmem_event) {
  size_t id = (static_cast<size_t>(my_gpu_id) << 32) | event_pos;
  return nvshmem_event ? (id | EVENT_NVSHMEM_TAG) : id;
}
"""

_PARAMETERS = """\
int num_gpus,
    int my_gpu_id,
    std::vector<FullTaskDesc> &all_tasks,
    std::vector<EventDesc> &all_events,
    std::vector<TaskId> &first_tasks"""

_TENSOR_LOADER = """\
    task_desc.num_{plural} = 0;
    for (json const &tensor : task.at("{plural}")) {{
      TensorDesc desc;
      std::string name = tensor.at("base_ptr").get<std::string>();
      assert(all_tensors.find(name) != all_tensors.end());
      desc.base_ptr = static_cast<char*>(all_tensors.at(name)) + tensor.at("offset").get<off_t>();
      assert(tensor.at("dims").size() == tensor.at("strides").size());
      desc.num_dims = tensor.at("dims").size();
      desc.data_type = tensor.at("data_type").get<int>();
      for (int i = 0; i < desc.num_dims; i++) {{
        desc.dim[i] = tensor["dims"][i].get<int>();
        desc.stride[i] = tensor["strides"][i].get<int>();
      }}
      task_desc.{plural}[task_desc.num_{plural}++] = desc;
    }}"""

_EVENT_LOADER = """\
  for (json const &e : json_task_graph["all_events"]) {
    all_events.push_back(EventDesc(
        static_cast<EventType>(e.at("event_type").get<int>()), e.at("num_triggers").get<int>(),
        e.at("first_task_id").get<int>(), e.at("last_task_id").get<int>()));
  }
  for (json const &t : json_task_graph["first_tasks"]) {
    first_tasks.push_back(t.get<int>());
  }
}
"""


def _loader(fields: Sequence[str]) -> Iterator[str]:
    """`construct_task_graph`, insisting on the given fields of a task."""
    yield f"void construct_task_graph({_PARAMETERS},"
    yield "    std::map<std::string, void*> const &all_tensors) {"
    yield "  std::filesystem::path file_path(__FILE__);"
    yield '  std::ifstream json_file(file_path.parent_path().string() + "/task_graph.json");'
    yield "  json json_task_graph;"
    yield "  json_file >> json_task_graph;"
    yield '  for (json const &task : json_task_graph["all_tasks"]) {'
    yield '    FullTaskDesc task_desc(static_cast<TaskType>(task.at("task_type")),'
    yield '                           task.at("variant_id"));'
    for name in fields:
        if name in METADATA:
            yield f'    task_desc.task_metadata.{name} = task.at("{name}").get<int>();'
        elif name.endswith("_event"):
            yield f'    task_desc.{name} = task.at("{name}").get<unsigned long long>();'
        elif name in ("inputs", "outputs"):
            yield _TENSOR_LOADER.format(plural=name)
        else:
            yield f'    (void)task.at("{name}");'
    yield "    all_tasks.push_back(task_desc);"
    yield "  }"
    yield _EVENT_LOADER


def _embedded(graph: Mapping[str, Any]) -> Iterator[str]:
    """The graph as statements, as with `use_json_format` off."""
    for index, task in enumerate(graph["all_tasks"]):
        kind = KINDS_BY_CODE.get(task["task_type"])
        yield f"  // task[{index}] {kind.enumerator if kind else ''}".rstrip()
        yield "  {"
        yield f"    FullTaskDesc task_desc(static_cast<TaskType>({task['task_type']}),"
        yield f"                           {task['variant_id']});"
        for name in ("trigger_event", "dependent_event"):
            yield f"    task_desc.{name} = {task[name]}ULL;"
        for plural in ("inputs", "outputs"):
            tensors = task[plural] or []
            yield f"    task_desc.num_{plural} = {len(tensors)};"
            for i, tensor in enumerate(tensors):
                desc = f"{plural[:-1]}{i}"
                yield f"    TensorDesc {desc};"
                pointer = tensor["base_ptr"]
                if pointer != "nullptr":
                    pointer = f"static_cast<char*>({pointer}) + {tensor['offset']}"
                yield f"    {desc}.base_ptr = {pointer};"
                yield f"    {desc}.num_dims = {len(tensor['dims'])};"
                yield f"    {desc}.data_type = {tensor['data_type']};"
                for d, (dim, stride) in enumerate(
                    zip(tensor["dims"], tensor["strides"], strict=False)
                ):
                    yield f"    {desc}.dim[{d}] = {dim};"
                    yield f"    {desc}.stride[{d}] = {stride};"
                yield f"    task_desc.{plural}[{i}] = {desc};"
        yield "    all_tasks.push_back(task_desc);"
        yield "  }"
    for event in graph["all_events"]:
        numbers = ", ".join(
            str(event[name]) for name in ("num_triggers", "first_task_id", "last_task_id")
        )
        kind_of_event = f"static_cast<EventType>({event['event_type']})"
        yield f"  all_events.push_back(EventDesc({kind_of_event}, {numbers}));"
    for task in graph["first_tasks"]:
        yield f"  first_tasks.push_back({task});"


def cuda_text(
    dialect: Dialect,
    num_gpus: int,
    fields: Sequence[str],
    declarations: Iterable[Declaration],
    branches: Iterable[Branch],
    graph: Mapping[str, Any] | None = None,
) -> str:
    """The whole file. `graph` is needed, and used, by an embedded dialect only."""
    lines = [_HEAD]
    if not dialect.embedded:
        lines += _loader(fields)
    lines.append(f"static void _init_persistent_kernel({_PARAMETERS},")
    lines.append("    std::map<std::string, void*> const &model_tensors) {")
    lines.append(f"  assert(num_gpus = {num_gpus});")
    if not dialect.embedded:
        lines.append("  std::map<std::string, void*> all_tensors;")
    for declaration in declarations:
        lines += [f"  {line}" for line in declaration.lines(dialect)]
    if dialect.embedded:
        lines += _embedded(graph or {"all_tasks": [], "all_events": [], "first_tasks": []})
    else:
        lines.append('  all_tensors["nullptr"] = nullptr;')
        arguments = "num_gpus, my_gpu_id, all_tasks, all_events, first_tasks, all_tensors"
        lines.append(f"  construct_task_graph({arguments});")
    lines += ["}", "", "__device__ __forceinline__"]
    reference = "const*" if dialect.arrow else "const&"
    lines.append(f"void _execute_task(TaskDesc {reference} task_desc,")
    lines.append("                   RuntimeConfig const &runtime_config) {")
    for index, branch in enumerate(branches):
        lines += branch.lines(dialect, first=index == 0)
    lines += ["}", ""]
    text = "\n".join(lines)
    if dialect.tabs:
        text = text.replace("  ", "\t")
    text = text.replace("\n", dialect.newline)
    return "\ufeff" + text if dialect.bom else text


def runtime_header() -> str:
    """The part of MPK's runtime header that numbers the task types."""
    codes = {0: "TASK_TERMINATE", 10: "TASK_BEGIN_TASK_GRAPH"}
    codes |= {code: kind.enumerator for code, kind in KINDS_BY_CODE.items()}
    rows = [f"  {name} = {code}," for code, name in sorted(codes.items())]
    return "\n".join(["#pragma once", "", "enum TaskType {", *rows, "};", ""])
