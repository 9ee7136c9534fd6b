"""MG112 wrong-source."""

from __future__ import annotations

from tests.emitter import LITERAL, Pair, qwen3, qwen3_ampere, qwen3_moe
from tests.rules import Expect, fires, silent

from ._shared import changed, edited, key


@fires("MG112", cuda="char *layer_2_o_proj = ", says=("layer_1_o_proj's source",), once=True)
def test_loaded_by_the_name_of_another_layer() -> Pair:
    return edited(qwen3(4).emit(), (key("layer_2_o_proj"), key("layer_1_o_proj")))


@fires("MG112", cuda='all_tensors["layer_2_o_proj"]', says=('at("layer_1_o_proj")',), once=True)
def test_entered_with_the_pointer_of_another_layer() -> Pair:
    line = 'all_tensors["layer_2_o_proj"] = layer_'
    return edited(qwen3(4).emit(), (f"{line}2_o_proj", f"{line}1_o_proj"))


@fires("MG112", cuda='all_tensors["layer_1_o_proj"]', once=True)
def test_two_layers_are_enough() -> Pair:
    line = 'all_tensors["layer_1_o_proj"] = layer_'
    return edited(qwen3(2).emit(), (f"{line}1_o_proj", f"{line}0_o_proj"))


@fires("MG112", cuda="char *cos_position_embedding = ", says=("opposite (cos, sin)",))
def test_the_tables_are_loaded_by_each_others_names() -> Pair:
    cos, sin = key("cos_position_embedding"), key("sin_position_embedding")
    return edited(qwen3(2).emit(), (cos, "@"), (sin, cos), ("@", sin))


@fires("MG112", cuda="char *layer_0_down_proj = ", says=("and layer_0_gateup_proj is loaded",))
def test_two_weights_are_exchanged_in_every_layer() -> Pair:
    return changed(
        qwen3_moe(3).emit(),
        (r'at\("(layer_\d+)_down_proj"\)', r'at("\1_@")'),
        (r'at\("(layer_\d+)_gateup_proj"\)', r'at("\1_down_proj")'),
        (r'at\("(layer_\d+)_@"\)', r'at("\1_gateup_proj")'),
    )


@fires("MG112", cuda="char *layer_1_k_norm = ", says=("opposite (k, q)",))
def test_checkpoint_names_say_another_part() -> Pair:
    return changed(
        qwen3(3).emit(),
        (r'at\("layer_(\d+)_([qk]_norm)"\)', r'at("model.layers.\1.self_attn.\2.weight")'),
        (r"layers\.1\.self_attn\.k_norm", "layers.1.self_attn.q_norm"),
    )


@fires("MG112", cuda="char *layer_1_o_proj = ", says=("not how its siblings",))
def test_checkpoint_names_say_another_layer() -> Pair:
    return changed(
        qwen3(3).emit(),
        (r'at\("layer_(\d+)_(o_proj)"\)', r'at("model.layers.\1.self_attn.\2.weight")'),
        (r"layers\.1\.self_attn\.o_proj", "layers.0.self_attn.o_proj"),
    )


@fires("MG112", says=("is filled from layer_0_q_proj, layer_0_qkv_proj's source too",), once=True)
def test_a_copy_takes_another_layers_part() -> Expect:
    pair = edited(qwen3(3).emit(), (key("layer_1_q_proj"), key("layer_0_q_proj")))
    return Expect(pair, cuda="(layer_1_qkv_proj + 0)")


@fires("MG112", cuda='all_tensors["layer_1_down_proj"]', says=("4096 bytes behind",))
def test_entered_behind_its_start() -> Pair:
    line = 'all_tensors["layer_1_down_proj"] = layer_1_down_proj'
    return edited(qwen3(2).emit(), (f"{line};", f"{line} + 4096;"))


@fires("MG112", cuda='all_tensors["layer_1_down_proj"]', says=("64 bytes behind",))
def test_an_address_moved_on_in_the_older_dialect() -> Pair:
    line = '  all_tensors["layer_1_down_proj"] ='
    moved = f"  layer_1_down_proj += 64;\n{line}"
    return edited(qwen3(2).written(LITERAL).emit(), (line, moved))


@silent("MG112")
def test_every_tensor_by_its_own_name() -> Pair:
    return qwen3_ampere(3).emit()


@silent("MG112")
def test_all_are_named_as_in_the_checkpoint() -> Pair:
    return changed(
        qwen3(3).emit(),
        (r'at\("layer_(\d+)_(\w+)"\)', r'at("model.layers.\1.\2.weight")'),
        (r'at\("lm_head"\)', 'at("lm_head.weight")'),
    )


@silent("MG112")
def test_names_that_cannot_be_variables() -> Pair:
    pair = qwen3(2).named(weights="model.layers.{layer}.{part}").emit()
    return changed(
        pair,
        (r"char \*model\.layers\.(\d+)\.(\w+) =", r"char *model_layers_\1_\2 ="),
        (r"\] = model\.layers\.(\d+)\.(\w+);", r"] = model_layers_\1_\2;"),
    )


@silent("MG112")
def test_a_head_tied_to_the_embedding() -> Pair:
    return edited(qwen3(2).emit(), (key("lm_head"), key("embed_tokens")))


@silent("MG112")
def test_caches_that_half_of_the_layers_share() -> Pair:
    return changed(
        qwen3(4).emit(),
        (r'at\("layer_3_([kv]_cache)"\)', r'at("layer_2_\1")'),
        (r'at\("layer_1_([kv]_cache)"\)', r'at("layer_0_\1")'),
    )


@silent("MG112")
def test_one_block_of_weights_for_all_layers() -> Pair:
    return changed(qwen3(4).emit(), (r'at\("layer_[123]_(\w+)"\)', r'at("layer_0_\1")'))


@silent("MG112")
def test_parts_of_one_source_behind_each_other() -> Pair:
    pair = qwen3(2).emit()
    return changed(
        pair,
        (
            r"static_cast<char\*>\(model_tensors\.at\(\"layer_1_post_attn_layernorm\"\)\);",
            'static_cast<char*>(model_tensors.at("layer_1_norms")) + 256;',
        ),
        (r'at\("layer_1_input_layernorm"\)', 'at("layer_1_norms")'),
    )
