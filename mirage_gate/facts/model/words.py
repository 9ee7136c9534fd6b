"""What a weight's name means, in a checkpoint's words or a builder's.

``model.layers.3.self_attn.q_proj.weight`` and ``layer_3_q_proj`` mean the same: layer 3's
``q_proj``. A name of a fused weight means several: ``layer_3_qkv_proj``. Roles are called as
Hugging Face's Llama and DeepSeek call them. What is not known has a role that begins with
``?`` and is the name itself, less its layer; a part of a weight is ``weight:part``.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal

import msgspec

Facet = Literal["weight", "bias", "scale"]

_LAYER = re.compile(
    r"^(?P<before>(?:.*?[._])?)(?:layers?|blk|blocks?|h)[._](?P<n>\d{1,4})(?:[._]|$)"
)
_FACETS: tuple[tuple[re.Pattern[str], Facet], ...] = (
    (re.compile(r"_(?:weight_)?scales?(?:_inv)?$"), "scale"),
    (re.compile(r"_(?:e_score_correction_)?bias$"), "bias"),
    (re.compile(r"_(?:weights?|table)$"), "weight"),
)
_PREFIX = re.compile(r"^(?:\w+\.)*?(?:model|transformer)[._]")
_NUMBER = re.compile(r"(?<=[._])(?<!ln_)\d+(?=[._])", re.ASCII)
_EXPERT = re.compile(r"experts_(\d{1,6})_", re.ASCII)
_EXPERT_IN = re.compile(r"experts[._]\d{1,6}[._]", re.ASCII)
_FOREIGN = re.compile(
    r"(?:^|[._])(?:mtp|vision|visual|audio|draft|eagle|encoder|image|connector|projector|talker)"
    r"(?=[._]|$)|(?:^|[._])(?:eh_proj|enorm|hnorm|shared_head)(?=[._]|$)"
)
"""Parts of a model beside its language model's layers: another module, with layers of its own."""

_NO_WEIGHT = re.compile(
    r"cache|token(?!s?_embed)|position|rope|(?:^|[._])(?:cos|sin)(?=[._]|$)|freq|step|mask"
    r"|page|indptr|seq_?len|logits|output_ids|block_table|random|temperature"
)
"""What a host also gives a kernel: caches, tables, tokens, and the run's state."""

_A = r"(?:(?:self_)?att(?:n|ention)_)?"
_M = r"(?:(?:mlp|ffn|feed_forward|moe|block_sparse_moe)_)?"
_E = _M + r"experts_(?:\d+_)?"
_S = _M + r"shared_experts?_"
_NORM = r"_(?:layer)?norm"

_OUTSIDE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"(?:word_|tok_|token_)?embed(?:ding)?s?(?:_tokens)?|tok_embeddings|wte", ("embed_tokens",)),
    (r"lm_head|output|head|unembed(?:ding)?", ("lm_head",)),
    (r"(?:final_)?(?:layer)?norm(?:_f)?|ln_f|norm_f", ("norm",)),
)
_INSIDE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_A + r"(?:qkv(?:_proj)?|query_key_value|wqkv|w_pack|c_attn)", ("q_proj", "k_proj", "v_proj")),
    (_A + r"(?:q_proj|query|wq)", ("q_proj",)),
    (_A + r"(?:k_proj|key|wk)", ("k_proj",)),
    (_A + r"(?:v_proj|value|wv)", ("v_proj",)),
    (_A + r"(?:o_proj|wo|dense|out_proj)", ("o_proj",)),
    (_A + r"(?:q|query)" + _NORM, ("q_norm",)),
    (_A + r"(?:k|key)" + _NORM, ("k_norm",)),
    (_A + r"q_a_proj", ("q_a_proj",)),
    (_A + r"q_a" + _NORM, ("q_a_layernorm",)),
    (_A + r"q_b_proj", ("q_b_proj",)),
    (_A + r"kv_a_proj(?:_with_mqa)?", ("kv_a_proj",)),
    (_A + r"kv_a_latent(?:_proj)?", ("kv_a_proj:latent",)),
    (_A + r"kv_a_rope(?:_proj)?", ("kv_a_proj:rope",)),
    (_A + r"kv_a" + _NORM, ("kv_a_layernorm",)),
    (_A + r"kv_b_proj", ("kv_b_proj",)),
    (_A + r"fused_qkv_a_proj(?:_with_mqa)?", ("q_a_proj", "kv_a_proj")),
    (
        r"input" + _NORM + r"|att(?:n|ention)_norm|ln_1|pre_att(?:n|ention)" + _NORM,
        ("input_layernorm",),
    ),
    (
        r"post_att(?:n|ention)" + _NORM + r"|ffn_norm|ln_2|(?:pre_)?mlp" + _NORM,
        ("post_attention_layernorm",),
    ),
    (r"pre_feedforward" + _NORM, ("pre_feedforward_layernorm",)),
    (r"post_feedforward" + _NORM, ("post_feedforward_layernorm",)),
    (_M + r"(?:gate_?d?_?up(?:_proj)?|w13)", ("gate_proj", "up_proj")),
    (_M + r"(?:gate_proj|w1)", ("gate_proj",)),
    (_M + r"(?:up_proj|w3)", ("up_proj",)),
    (_M + r"(?:down_proj|w2)", ("down_proj",)),
    (_M + r"(?:gate|router|moe_gate|moe_router|router_proj)", ("router",)),
    (_E + r"(?:gate_?d?_?up(?:_proj)?|w13)", ("experts.gate_proj", "experts.up_proj")),
    (_E + r"(?:gate_proj|w1)", ("experts.gate_proj",)),
    (_E + r"(?:up_proj|w3)", ("experts.up_proj",)),
    (_E + r"(?:down(?:_proj)?|w2)", ("experts.down_proj",)),
    (_S + r"(?:gate_?d?_?up(?:_proj)?|w13)", ("shared.gate_proj", "shared.up_proj")),
    (_S + r"(?:gate_proj|w1)", ("shared.gate_proj",)),
    (_S + r"(?:up_proj|w3)", ("shared.up_proj",)),
    (_S + r"(?:down(?:_proj)?|w2)", ("shared.down_proj",)),
    (_M + r"shared_expert_gate", ("shared.router",)),
)


class Words(msgspec.Struct, frozen=True):
    """What a name means. ``layer`` is None outside of the layers.

    ``roles`` are the weights it stands for, more than one where they are fused. ``foreign``: of
    a module beside the language model's layers. ``expert`` is the number of one expert.
    """

    layer: int | None
    roles: tuple[str, ...]
    facet: Facet = "weight"
    foreign: bool = False
    expert: int | None = None

    @property
    def known(self) -> bool:
        """Whether the roles are words that everybody uses."""
        return not self.roles[0].startswith("?")


@cache
def _compiled(inside: bool) -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    table = _INSIDE if inside else _OUTSIDE
    return tuple((re.compile(pattern), roles) for pattern, roles in table)


def no_weight(name: str) -> bool:
    """Whether a name is that of a cache, a table, tokens or the run's state."""
    return bool(_NO_WEIGHT.search(name.lower()))


def words(name: str) -> Words:
    """Read a name. A checkpoint of experts has ten thousands that differ in their numbers only."""
    numbers = _NUMBER.findall(name)
    if not numbers:
        return _read(name)[0]
    if max(map(len, numbers)) > 4:
        return _read.__wrapped__(name)[0]
    like, layer, expert = _read(_NUMBER.sub("0", name))
    return Words(
        None if layer < 0 else int(numbers[layer]),
        like.roles,
        like.facet,
        like.foreign,
        None if expert < 0 else int(numbers[expert]),
    )


@lru_cache(maxsize=4096)
def _read(name: str) -> tuple[Words, int, int]:
    """Read a name, and say which of the numbers in it are the layer's and the expert's, or -1."""
    plain = name.strip().lower()
    foreign = bool(_FOREIGN.search(plain))
    inside = _LAYER.match(plain)
    core = plain[inside.end() :] if inside else _PREFIX.sub("", plain)
    core = core.replace(".", "_")
    facet: Facet = "weight"
    for pattern, kind in _FACETS:
        if found := pattern.search(core):
            # `moe_gate_bias` and `gate.e_score_correction_bias` are both the router's.
            core, facet = core[: found.start()], kind
            break
    expert = _EXPERT.search(core)
    if expert:
        core = f"{core[: expert.start()]}experts_{core[expert.end() :]}"
    roles = _roles(core, inside is not None)
    number = int(expert[1]) if expert else None
    meaning = Words(int(inside["n"]) if inside else None, roles, facet, foreign, number)
    layer_at = len(_NUMBER.findall(plain[: inside.end()])) - 1 if inside else -1
    if inside and not _NUMBER.search(plain[: inside.end()]):
        layer_at = -1
    behind = _EXPERT_IN.search(plain, inside.end() if inside else 0)
    expert_at = len(_NUMBER.findall(plain[: behind.end()])) - 1 if behind and expert else -1
    return meaning, layer_at, expert_at


@lru_cache(maxsize=4096)
def _roles(core: str, inside: bool) -> tuple[str, ...]:
    """The roles of a name less its layer, its expert and its facet."""
    for shape, roles in _compiled(inside):
        if shape.fullmatch(core):
            return roles
    return (f"?{core}",)
