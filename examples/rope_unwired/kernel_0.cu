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

void construct_task_graph(int num_gpus,
    int my_gpu_id,
    std::vector<FullTaskDesc> &all_tasks,
    std::vector<EventDesc> &all_events,
    std::vector<TaskId> &first_tasks,
    std::map<std::string, void*> const &all_tensors) {
  std::filesystem::path file_path(__FILE__);
  std::ifstream json_file(file_path.parent_path().string() + "/task_graph.json");
  json json_task_graph;
  json_file >> json_task_graph;
  for (json const &task : json_task_graph["all_tasks"]) {
    FullTaskDesc task_desc(static_cast<TaskType>(task.at("task_type")),
                           task.at("variant_id"));
    task_desc.task_metadata.expert_offset = task.at("expert_offset").get<int>();
    task_desc.task_metadata.kv_idx = task.at("kv_idx").get<int>();
    task_desc.task_metadata.merge_task_offset = task.at("merge_task_offset").get<int>();
    task_desc.task_metadata.request_id = task.at("request_id").get<int>();
    task_desc.task_metadata.task_offset = task.at("task_offset").get<int>();
    task_desc.trigger_event = task.at("trigger_event").get<unsigned long long>();
    task_desc.dependent_event = task.at("dependent_event").get<unsigned long long>();
    task_desc.num_inputs = 0;
    for (json const &tensor : task.at("inputs")) {
      TensorDesc desc;
      std::string name = tensor.at("base_ptr").get<std::string>();
      assert(all_tensors.find(name) != all_tensors.end());
      desc.base_ptr = static_cast<char*>(all_tensors.at(name)) + tensor.at("offset").get<off_t>();
      assert(tensor.at("dims").size() == tensor.at("strides").size());
      desc.num_dims = tensor.at("dims").size();
      desc.data_type = tensor.at("data_type").get<int>();
      for (int i = 0; i < desc.num_dims; i++) {
        desc.dim[i] = tensor["dims"][i].get<int>();
        desc.stride[i] = tensor["strides"][i].get<int>();
      }
      task_desc.inputs[task_desc.num_inputs++] = desc;
    }
    task_desc.num_outputs = 0;
    for (json const &tensor : task.at("outputs")) {
      TensorDesc desc;
      std::string name = tensor.at("base_ptr").get<std::string>();
      assert(all_tensors.find(name) != all_tensors.end());
      desc.base_ptr = static_cast<char*>(all_tensors.at(name)) + tensor.at("offset").get<off_t>();
      assert(tensor.at("dims").size() == tensor.at("strides").size());
      desc.num_dims = tensor.at("dims").size();
      desc.data_type = tensor.at("data_type").get<int>();
      for (int i = 0; i < desc.num_dims; i++) {
        desc.dim[i] = tensor["dims"][i].get<int>();
        desc.stride[i] = tensor["strides"][i].get<int>();
      }
      task_desc.outputs[task_desc.num_outputs++] = desc;
    }
    all_tasks.push_back(task_desc);
  }
  for (json const &e : json_task_graph["all_events"]) {
    all_events.push_back(EventDesc(
        static_cast<EventType>(e.at("event_type").get<int>()), e.at("num_triggers").get<int>(),
        e.at("first_task_id").get<int>(), e.at("last_task_id").get<int>()));
  }
  for (json const &t : json_task_graph["first_tasks"]) {
    first_tasks.push_back(t.get<int>());
  }
}

static void _init_persistent_kernel(int num_gpus,
    int my_gpu_id,
    std::vector<FullTaskDesc> &all_tasks,
    std::vector<EventDesc> &all_events,
    std::vector<TaskId> &first_tasks,
    std::map<std::string, void*> const &model_tensors) {
  assert(num_gpus = 1);
  std::map<std::string, void*> all_tensors;
  char *input_token = static_cast<char*>(model_tensors.at("input_token"));
  all_tensors["input_token"] = input_token;
  char *embed_tokens = static_cast<char*>(model_tensors.at("embed_tokens"));
  all_tensors["embed_tokens"] = embed_tokens;
  void *embed_out;
  CUDA_CHECK(cudaMalloc(&embed_out, 512));
  all_tensors["embed_out"] = embed_out;
  void *q_nope_pe;
  CUDA_CHECK(cudaMalloc(&q_nope_pe, 512));
  all_tensors["q_nope_pe"] = q_nope_pe;
  void *c_latent_out;
  CUDA_CHECK(cudaMalloc(&c_latent_out, 128));
  all_tensors["c_latent_out"] = c_latent_out;
  void *k_pe_out;
  CUDA_CHECK(cudaMalloc(&k_pe_out, 128));
  all_tensors["k_pe_out"] = k_pe_out;
  void *contiguous_kv;
  CUDA_CHECK(cudaMalloc(&contiguous_kv, 16384));
  all_tensors["contiguous_kv"] = contiguous_kv;
  void *mla_partial_o;
  CUDA_CHECK(cudaMalloc(&mla_partial_o, 256));
  all_tensors["mla_partial_o"] = mla_partial_o;
  void *mla_partial_lse;
  CUDA_CHECK(cudaMalloc(&mla_partial_lse, 8));
  all_tensors["mla_partial_lse"] = mla_partial_lse;
  void *attn_out;
  CUDA_CHECK(cudaMalloc(&attn_out, 256));
  all_tensors["attn_out"] = attn_out;
  void *argmax_part_value;
  CUDA_CHECK(cudaMalloc(&argmax_part_value, 2));
  all_tensors["argmax_part_value"] = argmax_part_value;
  void *argmax_part_index;
  CUDA_CHECK(cudaMalloc(&argmax_part_index, 8));
  all_tensors["argmax_part_index"] = argmax_part_index;
  char *rope_cos = static_cast<char*>(model_tensors.at("rope_cos"));
  all_tensors["rope_cos"] = rope_cos;
  char *rope_sin = static_cast<char*>(model_tensors.at("rope_sin"));
  all_tensors["rope_sin"] = rope_sin;
  char *layer_0_q_proj = static_cast<char*>(model_tensors.at("layer_0_q_proj"));
  all_tensors["layer_0_q_proj"] = layer_0_q_proj;
  char *layer_0_kv_a_latent = static_cast<char*>(model_tensors.at("layer_0_kv_a_latent"));
  all_tensors["layer_0_kv_a_latent"] = layer_0_kv_a_latent;
  char *layer_0_kv_a_rope = static_cast<char*>(model_tensors.at("layer_0_kv_a_rope"));
  all_tensors["layer_0_kv_a_rope"] = layer_0_kv_a_rope;
  char *layer_0_kv_cache = static_cast<char*>(model_tensors.at("layer_0_kv_cache"));
  all_tensors["layer_0_kv_cache"] = layer_0_kv_cache;
  char *layer_0_o_proj = static_cast<char*>(model_tensors.at("layer_0_o_proj"));
  all_tensors["layer_0_o_proj"] = layer_0_o_proj;
  char *layer_1_q_proj = static_cast<char*>(model_tensors.at("layer_1_q_proj"));
  all_tensors["layer_1_q_proj"] = layer_1_q_proj;
  char *layer_1_kv_a_latent = static_cast<char*>(model_tensors.at("layer_1_kv_a_latent"));
  all_tensors["layer_1_kv_a_latent"] = layer_1_kv_a_latent;
  char *layer_1_kv_a_rope = static_cast<char*>(model_tensors.at("layer_1_kv_a_rope"));
  all_tensors["layer_1_kv_a_rope"] = layer_1_kv_a_rope;
  char *layer_1_kv_cache = static_cast<char*>(model_tensors.at("layer_1_kv_cache"));
  all_tensors["layer_1_kv_cache"] = layer_1_kv_cache;
  char *layer_1_o_proj = static_cast<char*>(model_tensors.at("layer_1_o_proj"));
  all_tensors["layer_1_o_proj"] = layer_1_o_proj;
  char *layer_2_q_proj = static_cast<char*>(model_tensors.at("layer_2_q_proj"));
  all_tensors["layer_2_q_proj"] = layer_2_q_proj;
  char *layer_2_kv_a_latent = static_cast<char*>(model_tensors.at("layer_2_kv_a_latent"));
  all_tensors["layer_2_kv_a_latent"] = layer_2_kv_a_latent;
  char *layer_2_kv_a_rope = static_cast<char*>(model_tensors.at("layer_2_kv_a_rope"));
  all_tensors["layer_2_kv_a_rope"] = layer_2_kv_a_rope;
  char *layer_2_kv_cache = static_cast<char*>(model_tensors.at("layer_2_kv_cache"));
  all_tensors["layer_2_kv_cache"] = layer_2_kv_cache;
  char *layer_2_o_proj = static_cast<char*>(model_tensors.at("layer_2_o_proj"));
  all_tensors["layer_2_o_proj"] = layer_2_o_proj;
  char *layer_3_q_proj = static_cast<char*>(model_tensors.at("layer_3_q_proj"));
  all_tensors["layer_3_q_proj"] = layer_3_q_proj;
  char *layer_3_kv_a_latent = static_cast<char*>(model_tensors.at("layer_3_kv_a_latent"));
  all_tensors["layer_3_kv_a_latent"] = layer_3_kv_a_latent;
  char *layer_3_kv_a_rope = static_cast<char*>(model_tensors.at("layer_3_kv_a_rope"));
  all_tensors["layer_3_kv_a_rope"] = layer_3_kv_a_rope;
  char *layer_3_kv_cache = static_cast<char*>(model_tensors.at("layer_3_kv_cache"));
  all_tensors["layer_3_kv_cache"] = layer_3_kv_cache;
  char *layer_3_o_proj = static_cast<char*>(model_tensors.at("layer_3_o_proj"));
  all_tensors["layer_3_o_proj"] = layer_3_o_proj;
  char *layer_4_q_proj = static_cast<char*>(model_tensors.at("layer_4_q_proj"));
  all_tensors["layer_4_q_proj"] = layer_4_q_proj;
  char *layer_4_kv_a_latent = static_cast<char*>(model_tensors.at("layer_4_kv_a_latent"));
  all_tensors["layer_4_kv_a_latent"] = layer_4_kv_a_latent;
  char *layer_4_kv_a_rope = static_cast<char*>(model_tensors.at("layer_4_kv_a_rope"));
  all_tensors["layer_4_kv_a_rope"] = layer_4_kv_a_rope;
  char *layer_4_kv_cache = static_cast<char*>(model_tensors.at("layer_4_kv_cache"));
  all_tensors["layer_4_kv_cache"] = layer_4_kv_cache;
  char *layer_4_o_proj = static_cast<char*>(model_tensors.at("layer_4_o_proj"));
  all_tensors["layer_4_o_proj"] = layer_4_o_proj;
  char *layer_5_q_proj = static_cast<char*>(model_tensors.at("layer_5_q_proj"));
  all_tensors["layer_5_q_proj"] = layer_5_q_proj;
  char *layer_5_kv_a_latent = static_cast<char*>(model_tensors.at("layer_5_kv_a_latent"));
  all_tensors["layer_5_kv_a_latent"] = layer_5_kv_a_latent;
  char *layer_5_kv_a_rope = static_cast<char*>(model_tensors.at("layer_5_kv_a_rope"));
  all_tensors["layer_5_kv_a_rope"] = layer_5_kv_a_rope;
  char *layer_5_kv_cache = static_cast<char*>(model_tensors.at("layer_5_kv_cache"));
  all_tensors["layer_5_kv_cache"] = layer_5_kv_cache;
  char *layer_5_o_proj = static_cast<char*>(model_tensors.at("layer_5_o_proj"));
  all_tensors["layer_5_o_proj"] = layer_5_o_proj;
  char *layer_6_q_proj = static_cast<char*>(model_tensors.at("layer_6_q_proj"));
  all_tensors["layer_6_q_proj"] = layer_6_q_proj;
  char *layer_6_kv_a_latent = static_cast<char*>(model_tensors.at("layer_6_kv_a_latent"));
  all_tensors["layer_6_kv_a_latent"] = layer_6_kv_a_latent;
  char *layer_6_kv_a_rope = static_cast<char*>(model_tensors.at("layer_6_kv_a_rope"));
  all_tensors["layer_6_kv_a_rope"] = layer_6_kv_a_rope;
  char *layer_6_kv_cache = static_cast<char*>(model_tensors.at("layer_6_kv_cache"));
  all_tensors["layer_6_kv_cache"] = layer_6_kv_cache;
  char *layer_6_o_proj = static_cast<char*>(model_tensors.at("layer_6_o_proj"));
  all_tensors["layer_6_o_proj"] = layer_6_o_proj;
  char *layer_7_q_proj = static_cast<char*>(model_tensors.at("layer_7_q_proj"));
  all_tensors["layer_7_q_proj"] = layer_7_q_proj;
  char *layer_7_kv_a_latent = static_cast<char*>(model_tensors.at("layer_7_kv_a_latent"));
  all_tensors["layer_7_kv_a_latent"] = layer_7_kv_a_latent;
  char *layer_7_kv_a_rope = static_cast<char*>(model_tensors.at("layer_7_kv_a_rope"));
  all_tensors["layer_7_kv_a_rope"] = layer_7_kv_a_rope;
  char *layer_7_kv_cache = static_cast<char*>(model_tensors.at("layer_7_kv_cache"));
  all_tensors["layer_7_kv_cache"] = layer_7_kv_cache;
  char *layer_7_o_proj = static_cast<char*>(model_tensors.at("layer_7_o_proj"));
  all_tensors["layer_7_o_proj"] = layer_7_o_proj;
  char *layer_8_q_proj = static_cast<char*>(model_tensors.at("layer_8_q_proj"));
  all_tensors["layer_8_q_proj"] = layer_8_q_proj;
  char *layer_8_kv_a_latent = static_cast<char*>(model_tensors.at("layer_8_kv_a_latent"));
  all_tensors["layer_8_kv_a_latent"] = layer_8_kv_a_latent;
  char *layer_8_kv_a_rope = static_cast<char*>(model_tensors.at("layer_8_kv_a_rope"));
  all_tensors["layer_8_kv_a_rope"] = layer_8_kv_a_rope;
  char *layer_8_kv_cache = static_cast<char*>(model_tensors.at("layer_8_kv_cache"));
  all_tensors["layer_8_kv_cache"] = layer_8_kv_cache;
  char *layer_8_o_proj = static_cast<char*>(model_tensors.at("layer_8_o_proj"));
  all_tensors["layer_8_o_proj"] = layer_8_o_proj;
  char *layer_9_q_proj = static_cast<char*>(model_tensors.at("layer_9_q_proj"));
  all_tensors["layer_9_q_proj"] = layer_9_q_proj;
  char *layer_9_kv_a_latent = static_cast<char*>(model_tensors.at("layer_9_kv_a_latent"));
  all_tensors["layer_9_kv_a_latent"] = layer_9_kv_a_latent;
  char *layer_9_kv_a_rope = static_cast<char*>(model_tensors.at("layer_9_kv_a_rope"));
  all_tensors["layer_9_kv_a_rope"] = layer_9_kv_a_rope;
  char *layer_9_kv_cache = static_cast<char*>(model_tensors.at("layer_9_kv_cache"));
  all_tensors["layer_9_kv_cache"] = layer_9_kv_cache;
  char *layer_9_o_proj = static_cast<char*>(model_tensors.at("layer_9_o_proj"));
  all_tensors["layer_9_o_proj"] = layer_9_o_proj;
  char *layer_10_q_proj = static_cast<char*>(model_tensors.at("layer_10_q_proj"));
  all_tensors["layer_10_q_proj"] = layer_10_q_proj;
  char *layer_10_kv_a_latent = static_cast<char*>(model_tensors.at("layer_10_kv_a_latent"));
  all_tensors["layer_10_kv_a_latent"] = layer_10_kv_a_latent;
  char *layer_10_kv_a_rope = static_cast<char*>(model_tensors.at("layer_10_kv_a_rope"));
  all_tensors["layer_10_kv_a_rope"] = layer_10_kv_a_rope;
  char *layer_10_kv_cache = static_cast<char*>(model_tensors.at("layer_10_kv_cache"));
  all_tensors["layer_10_kv_cache"] = layer_10_kv_cache;
  char *layer_10_o_proj = static_cast<char*>(model_tensors.at("layer_10_o_proj"));
  all_tensors["layer_10_o_proj"] = layer_10_o_proj;
  char *layer_11_q_proj = static_cast<char*>(model_tensors.at("layer_11_q_proj"));
  all_tensors["layer_11_q_proj"] = layer_11_q_proj;
  char *layer_11_kv_a_latent = static_cast<char*>(model_tensors.at("layer_11_kv_a_latent"));
  all_tensors["layer_11_kv_a_latent"] = layer_11_kv_a_latent;
  char *layer_11_kv_a_rope = static_cast<char*>(model_tensors.at("layer_11_kv_a_rope"));
  all_tensors["layer_11_kv_a_rope"] = layer_11_kv_a_rope;
  char *layer_11_kv_cache = static_cast<char*>(model_tensors.at("layer_11_kv_cache"));
  all_tensors["layer_11_kv_cache"] = layer_11_kv_cache;
  char *layer_11_o_proj = static_cast<char*>(model_tensors.at("layer_11_o_proj"));
  all_tensors["layer_11_o_proj"] = layer_11_o_proj;
  char *layer_12_q_proj = static_cast<char*>(model_tensors.at("layer_12_q_proj"));
  all_tensors["layer_12_q_proj"] = layer_12_q_proj;
  char *layer_12_kv_a_latent = static_cast<char*>(model_tensors.at("layer_12_kv_a_latent"));
  all_tensors["layer_12_kv_a_latent"] = layer_12_kv_a_latent;
  char *layer_12_kv_a_rope = static_cast<char*>(model_tensors.at("layer_12_kv_a_rope"));
  all_tensors["layer_12_kv_a_rope"] = layer_12_kv_a_rope;
  char *layer_12_kv_cache = static_cast<char*>(model_tensors.at("layer_12_kv_cache"));
  all_tensors["layer_12_kv_cache"] = layer_12_kv_cache;
  char *layer_12_o_proj = static_cast<char*>(model_tensors.at("layer_12_o_proj"));
  all_tensors["layer_12_o_proj"] = layer_12_o_proj;
  char *layer_13_q_proj = static_cast<char*>(model_tensors.at("layer_13_q_proj"));
  all_tensors["layer_13_q_proj"] = layer_13_q_proj;
  char *layer_13_kv_a_latent = static_cast<char*>(model_tensors.at("layer_13_kv_a_latent"));
  all_tensors["layer_13_kv_a_latent"] = layer_13_kv_a_latent;
  char *layer_13_kv_a_rope = static_cast<char*>(model_tensors.at("layer_13_kv_a_rope"));
  all_tensors["layer_13_kv_a_rope"] = layer_13_kv_a_rope;
  char *layer_13_kv_cache = static_cast<char*>(model_tensors.at("layer_13_kv_cache"));
  all_tensors["layer_13_kv_cache"] = layer_13_kv_cache;
  char *layer_13_o_proj = static_cast<char*>(model_tensors.at("layer_13_o_proj"));
  all_tensors["layer_13_o_proj"] = layer_13_o_proj;
  char *layer_14_q_proj = static_cast<char*>(model_tensors.at("layer_14_q_proj"));
  all_tensors["layer_14_q_proj"] = layer_14_q_proj;
  char *layer_14_kv_a_latent = static_cast<char*>(model_tensors.at("layer_14_kv_a_latent"));
  all_tensors["layer_14_kv_a_latent"] = layer_14_kv_a_latent;
  char *layer_14_kv_a_rope = static_cast<char*>(model_tensors.at("layer_14_kv_a_rope"));
  all_tensors["layer_14_kv_a_rope"] = layer_14_kv_a_rope;
  char *layer_14_kv_cache = static_cast<char*>(model_tensors.at("layer_14_kv_cache"));
  all_tensors["layer_14_kv_cache"] = layer_14_kv_cache;
  char *layer_14_o_proj = static_cast<char*>(model_tensors.at("layer_14_o_proj"));
  all_tensors["layer_14_o_proj"] = layer_14_o_proj;
  char *layer_15_q_proj = static_cast<char*>(model_tensors.at("layer_15_q_proj"));
  all_tensors["layer_15_q_proj"] = layer_15_q_proj;
  char *layer_15_kv_a_latent = static_cast<char*>(model_tensors.at("layer_15_kv_a_latent"));
  all_tensors["layer_15_kv_a_latent"] = layer_15_kv_a_latent;
  char *layer_15_kv_a_rope = static_cast<char*>(model_tensors.at("layer_15_kv_a_rope"));
  all_tensors["layer_15_kv_a_rope"] = layer_15_kv_a_rope;
  char *layer_15_kv_cache = static_cast<char*>(model_tensors.at("layer_15_kv_cache"));
  all_tensors["layer_15_kv_cache"] = layer_15_kv_cache;
  char *layer_15_o_proj = static_cast<char*>(model_tensors.at("layer_15_o_proj"));
  all_tensors["layer_15_o_proj"] = layer_15_o_proj;
  char *layer_16_q_proj = static_cast<char*>(model_tensors.at("layer_16_q_proj"));
  all_tensors["layer_16_q_proj"] = layer_16_q_proj;
  char *layer_16_kv_a_latent = static_cast<char*>(model_tensors.at("layer_16_kv_a_latent"));
  all_tensors["layer_16_kv_a_latent"] = layer_16_kv_a_latent;
  char *layer_16_kv_a_rope = static_cast<char*>(model_tensors.at("layer_16_kv_a_rope"));
  all_tensors["layer_16_kv_a_rope"] = layer_16_kv_a_rope;
  char *layer_16_kv_cache = static_cast<char*>(model_tensors.at("layer_16_kv_cache"));
  all_tensors["layer_16_kv_cache"] = layer_16_kv_cache;
  char *layer_16_o_proj = static_cast<char*>(model_tensors.at("layer_16_o_proj"));
  all_tensors["layer_16_o_proj"] = layer_16_o_proj;
  char *layer_17_q_proj = static_cast<char*>(model_tensors.at("layer_17_q_proj"));
  all_tensors["layer_17_q_proj"] = layer_17_q_proj;
  char *layer_17_kv_a_latent = static_cast<char*>(model_tensors.at("layer_17_kv_a_latent"));
  all_tensors["layer_17_kv_a_latent"] = layer_17_kv_a_latent;
  char *layer_17_kv_a_rope = static_cast<char*>(model_tensors.at("layer_17_kv_a_rope"));
  all_tensors["layer_17_kv_a_rope"] = layer_17_kv_a_rope;
  char *layer_17_kv_cache = static_cast<char*>(model_tensors.at("layer_17_kv_cache"));
  all_tensors["layer_17_kv_cache"] = layer_17_kv_cache;
  char *layer_17_o_proj = static_cast<char*>(model_tensors.at("layer_17_o_proj"));
  all_tensors["layer_17_o_proj"] = layer_17_o_proj;
  char *layer_18_q_proj = static_cast<char*>(model_tensors.at("layer_18_q_proj"));
  all_tensors["layer_18_q_proj"] = layer_18_q_proj;
  char *layer_18_kv_a_latent = static_cast<char*>(model_tensors.at("layer_18_kv_a_latent"));
  all_tensors["layer_18_kv_a_latent"] = layer_18_kv_a_latent;
  char *layer_18_kv_a_rope = static_cast<char*>(model_tensors.at("layer_18_kv_a_rope"));
  all_tensors["layer_18_kv_a_rope"] = layer_18_kv_a_rope;
  char *layer_18_kv_cache = static_cast<char*>(model_tensors.at("layer_18_kv_cache"));
  all_tensors["layer_18_kv_cache"] = layer_18_kv_cache;
  char *layer_18_o_proj = static_cast<char*>(model_tensors.at("layer_18_o_proj"));
  all_tensors["layer_18_o_proj"] = layer_18_o_proj;
  char *layer_19_q_proj = static_cast<char*>(model_tensors.at("layer_19_q_proj"));
  all_tensors["layer_19_q_proj"] = layer_19_q_proj;
  char *layer_19_kv_a_latent = static_cast<char*>(model_tensors.at("layer_19_kv_a_latent"));
  all_tensors["layer_19_kv_a_latent"] = layer_19_kv_a_latent;
  char *layer_19_kv_a_rope = static_cast<char*>(model_tensors.at("layer_19_kv_a_rope"));
  all_tensors["layer_19_kv_a_rope"] = layer_19_kv_a_rope;
  char *layer_19_kv_cache = static_cast<char*>(model_tensors.at("layer_19_kv_cache"));
  all_tensors["layer_19_kv_cache"] = layer_19_kv_cache;
  char *layer_19_o_proj = static_cast<char*>(model_tensors.at("layer_19_o_proj"));
  all_tensors["layer_19_o_proj"] = layer_19_o_proj;
  char *layer_20_q_proj = static_cast<char*>(model_tensors.at("layer_20_q_proj"));
  all_tensors["layer_20_q_proj"] = layer_20_q_proj;
  char *layer_20_kv_a_latent = static_cast<char*>(model_tensors.at("layer_20_kv_a_latent"));
  all_tensors["layer_20_kv_a_latent"] = layer_20_kv_a_latent;
  char *layer_20_kv_a_rope = static_cast<char*>(model_tensors.at("layer_20_kv_a_rope"));
  all_tensors["layer_20_kv_a_rope"] = layer_20_kv_a_rope;
  char *layer_20_kv_cache = static_cast<char*>(model_tensors.at("layer_20_kv_cache"));
  all_tensors["layer_20_kv_cache"] = layer_20_kv_cache;
  char *layer_20_o_proj = static_cast<char*>(model_tensors.at("layer_20_o_proj"));
  all_tensors["layer_20_o_proj"] = layer_20_o_proj;
  char *layer_21_q_proj = static_cast<char*>(model_tensors.at("layer_21_q_proj"));
  all_tensors["layer_21_q_proj"] = layer_21_q_proj;
  char *layer_21_kv_a_latent = static_cast<char*>(model_tensors.at("layer_21_kv_a_latent"));
  all_tensors["layer_21_kv_a_latent"] = layer_21_kv_a_latent;
  char *layer_21_kv_a_rope = static_cast<char*>(model_tensors.at("layer_21_kv_a_rope"));
  all_tensors["layer_21_kv_a_rope"] = layer_21_kv_a_rope;
  char *layer_21_kv_cache = static_cast<char*>(model_tensors.at("layer_21_kv_cache"));
  all_tensors["layer_21_kv_cache"] = layer_21_kv_cache;
  char *layer_21_o_proj = static_cast<char*>(model_tensors.at("layer_21_o_proj"));
  all_tensors["layer_21_o_proj"] = layer_21_o_proj;
  char *layer_22_q_proj = static_cast<char*>(model_tensors.at("layer_22_q_proj"));
  all_tensors["layer_22_q_proj"] = layer_22_q_proj;
  char *layer_22_kv_a_latent = static_cast<char*>(model_tensors.at("layer_22_kv_a_latent"));
  all_tensors["layer_22_kv_a_latent"] = layer_22_kv_a_latent;
  char *layer_22_kv_a_rope = static_cast<char*>(model_tensors.at("layer_22_kv_a_rope"));
  all_tensors["layer_22_kv_a_rope"] = layer_22_kv_a_rope;
  char *layer_22_kv_cache = static_cast<char*>(model_tensors.at("layer_22_kv_cache"));
  all_tensors["layer_22_kv_cache"] = layer_22_kv_cache;
  char *layer_22_o_proj = static_cast<char*>(model_tensors.at("layer_22_o_proj"));
  all_tensors["layer_22_o_proj"] = layer_22_o_proj;
  char *layer_23_q_proj = static_cast<char*>(model_tensors.at("layer_23_q_proj"));
  all_tensors["layer_23_q_proj"] = layer_23_q_proj;
  char *layer_23_kv_a_latent = static_cast<char*>(model_tensors.at("layer_23_kv_a_latent"));
  all_tensors["layer_23_kv_a_latent"] = layer_23_kv_a_latent;
  char *layer_23_kv_a_rope = static_cast<char*>(model_tensors.at("layer_23_kv_a_rope"));
  all_tensors["layer_23_kv_a_rope"] = layer_23_kv_a_rope;
  char *layer_23_kv_cache = static_cast<char*>(model_tensors.at("layer_23_kv_cache"));
  all_tensors["layer_23_kv_cache"] = layer_23_kv_cache;
  char *layer_23_o_proj = static_cast<char*>(model_tensors.at("layer_23_o_proj"));
  all_tensors["layer_23_o_proj"] = layer_23_o_proj;
  char *layer_24_q_proj = static_cast<char*>(model_tensors.at("layer_24_q_proj"));
  all_tensors["layer_24_q_proj"] = layer_24_q_proj;
  char *layer_24_kv_a_latent = static_cast<char*>(model_tensors.at("layer_24_kv_a_latent"));
  all_tensors["layer_24_kv_a_latent"] = layer_24_kv_a_latent;
  char *layer_24_kv_a_rope = static_cast<char*>(model_tensors.at("layer_24_kv_a_rope"));
  all_tensors["layer_24_kv_a_rope"] = layer_24_kv_a_rope;
  char *layer_24_kv_cache = static_cast<char*>(model_tensors.at("layer_24_kv_cache"));
  all_tensors["layer_24_kv_cache"] = layer_24_kv_cache;
  char *layer_24_o_proj = static_cast<char*>(model_tensors.at("layer_24_o_proj"));
  all_tensors["layer_24_o_proj"] = layer_24_o_proj;
  char *layer_25_q_proj = static_cast<char*>(model_tensors.at("layer_25_q_proj"));
  all_tensors["layer_25_q_proj"] = layer_25_q_proj;
  char *layer_25_kv_a_latent = static_cast<char*>(model_tensors.at("layer_25_kv_a_latent"));
  all_tensors["layer_25_kv_a_latent"] = layer_25_kv_a_latent;
  char *layer_25_kv_a_rope = static_cast<char*>(model_tensors.at("layer_25_kv_a_rope"));
  all_tensors["layer_25_kv_a_rope"] = layer_25_kv_a_rope;
  char *layer_25_kv_cache = static_cast<char*>(model_tensors.at("layer_25_kv_cache"));
  all_tensors["layer_25_kv_cache"] = layer_25_kv_cache;
  char *layer_25_o_proj = static_cast<char*>(model_tensors.at("layer_25_o_proj"));
  all_tensors["layer_25_o_proj"] = layer_25_o_proj;
  char *layer_26_q_proj = static_cast<char*>(model_tensors.at("layer_26_q_proj"));
  all_tensors["layer_26_q_proj"] = layer_26_q_proj;
  char *layer_26_kv_a_latent = static_cast<char*>(model_tensors.at("layer_26_kv_a_latent"));
  all_tensors["layer_26_kv_a_latent"] = layer_26_kv_a_latent;
  char *layer_26_kv_a_rope = static_cast<char*>(model_tensors.at("layer_26_kv_a_rope"));
  all_tensors["layer_26_kv_a_rope"] = layer_26_kv_a_rope;
  char *layer_26_kv_cache = static_cast<char*>(model_tensors.at("layer_26_kv_cache"));
  all_tensors["layer_26_kv_cache"] = layer_26_kv_cache;
  char *layer_26_o_proj = static_cast<char*>(model_tensors.at("layer_26_o_proj"));
  all_tensors["layer_26_o_proj"] = layer_26_o_proj;
  char *layer_27_q_proj = static_cast<char*>(model_tensors.at("layer_27_q_proj"));
  all_tensors["layer_27_q_proj"] = layer_27_q_proj;
  char *layer_27_kv_a_latent = static_cast<char*>(model_tensors.at("layer_27_kv_a_latent"));
  all_tensors["layer_27_kv_a_latent"] = layer_27_kv_a_latent;
  char *layer_27_kv_a_rope = static_cast<char*>(model_tensors.at("layer_27_kv_a_rope"));
  all_tensors["layer_27_kv_a_rope"] = layer_27_kv_a_rope;
  char *layer_27_kv_cache = static_cast<char*>(model_tensors.at("layer_27_kv_cache"));
  all_tensors["layer_27_kv_cache"] = layer_27_kv_cache;
  char *layer_27_o_proj = static_cast<char*>(model_tensors.at("layer_27_o_proj"));
  all_tensors["layer_27_o_proj"] = layer_27_o_proj;
  char *layer_28_q_proj = static_cast<char*>(model_tensors.at("layer_28_q_proj"));
  all_tensors["layer_28_q_proj"] = layer_28_q_proj;
  char *layer_28_kv_a_latent = static_cast<char*>(model_tensors.at("layer_28_kv_a_latent"));
  all_tensors["layer_28_kv_a_latent"] = layer_28_kv_a_latent;
  char *layer_28_kv_a_rope = static_cast<char*>(model_tensors.at("layer_28_kv_a_rope"));
  all_tensors["layer_28_kv_a_rope"] = layer_28_kv_a_rope;
  char *layer_28_kv_cache = static_cast<char*>(model_tensors.at("layer_28_kv_cache"));
  all_tensors["layer_28_kv_cache"] = layer_28_kv_cache;
  char *layer_28_o_proj = static_cast<char*>(model_tensors.at("layer_28_o_proj"));
  all_tensors["layer_28_o_proj"] = layer_28_o_proj;
  char *layer_29_q_proj = static_cast<char*>(model_tensors.at("layer_29_q_proj"));
  all_tensors["layer_29_q_proj"] = layer_29_q_proj;
  char *layer_29_kv_a_latent = static_cast<char*>(model_tensors.at("layer_29_kv_a_latent"));
  all_tensors["layer_29_kv_a_latent"] = layer_29_kv_a_latent;
  char *layer_29_kv_a_rope = static_cast<char*>(model_tensors.at("layer_29_kv_a_rope"));
  all_tensors["layer_29_kv_a_rope"] = layer_29_kv_a_rope;
  char *layer_29_kv_cache = static_cast<char*>(model_tensors.at("layer_29_kv_cache"));
  all_tensors["layer_29_kv_cache"] = layer_29_kv_cache;
  char *layer_29_o_proj = static_cast<char*>(model_tensors.at("layer_29_o_proj"));
  all_tensors["layer_29_o_proj"] = layer_29_o_proj;
  char *layer_30_q_proj = static_cast<char*>(model_tensors.at("layer_30_q_proj"));
  all_tensors["layer_30_q_proj"] = layer_30_q_proj;
  char *layer_30_kv_a_latent = static_cast<char*>(model_tensors.at("layer_30_kv_a_latent"));
  all_tensors["layer_30_kv_a_latent"] = layer_30_kv_a_latent;
  char *layer_30_kv_a_rope = static_cast<char*>(model_tensors.at("layer_30_kv_a_rope"));
  all_tensors["layer_30_kv_a_rope"] = layer_30_kv_a_rope;
  char *layer_30_kv_cache = static_cast<char*>(model_tensors.at("layer_30_kv_cache"));
  all_tensors["layer_30_kv_cache"] = layer_30_kv_cache;
  char *layer_30_o_proj = static_cast<char*>(model_tensors.at("layer_30_o_proj"));
  all_tensors["layer_30_o_proj"] = layer_30_o_proj;
  char *layer_31_q_proj = static_cast<char*>(model_tensors.at("layer_31_q_proj"));
  all_tensors["layer_31_q_proj"] = layer_31_q_proj;
  char *layer_31_kv_a_latent = static_cast<char*>(model_tensors.at("layer_31_kv_a_latent"));
  all_tensors["layer_31_kv_a_latent"] = layer_31_kv_a_latent;
  char *layer_31_kv_a_rope = static_cast<char*>(model_tensors.at("layer_31_kv_a_rope"));
  all_tensors["layer_31_kv_a_rope"] = layer_31_kv_a_rope;
  char *layer_31_kv_cache = static_cast<char*>(model_tensors.at("layer_31_kv_cache"));
  all_tensors["layer_31_kv_cache"] = layer_31_kv_cache;
  char *layer_31_o_proj = static_cast<char*>(model_tensors.at("layer_31_o_proj"));
  all_tensors["layer_31_o_proj"] = layer_31_o_proj;
  char *layer_32_q_proj = static_cast<char*>(model_tensors.at("layer_32_q_proj"));
  all_tensors["layer_32_q_proj"] = layer_32_q_proj;
  char *layer_32_kv_a_latent = static_cast<char*>(model_tensors.at("layer_32_kv_a_latent"));
  all_tensors["layer_32_kv_a_latent"] = layer_32_kv_a_latent;
  char *layer_32_kv_a_rope = static_cast<char*>(model_tensors.at("layer_32_kv_a_rope"));
  all_tensors["layer_32_kv_a_rope"] = layer_32_kv_a_rope;
  char *layer_32_kv_cache = static_cast<char*>(model_tensors.at("layer_32_kv_cache"));
  all_tensors["layer_32_kv_cache"] = layer_32_kv_cache;
  char *layer_32_o_proj = static_cast<char*>(model_tensors.at("layer_32_o_proj"));
  all_tensors["layer_32_o_proj"] = layer_32_o_proj;
  char *layer_33_q_proj = static_cast<char*>(model_tensors.at("layer_33_q_proj"));
  all_tensors["layer_33_q_proj"] = layer_33_q_proj;
  char *layer_33_kv_a_latent = static_cast<char*>(model_tensors.at("layer_33_kv_a_latent"));
  all_tensors["layer_33_kv_a_latent"] = layer_33_kv_a_latent;
  char *layer_33_kv_a_rope = static_cast<char*>(model_tensors.at("layer_33_kv_a_rope"));
  all_tensors["layer_33_kv_a_rope"] = layer_33_kv_a_rope;
  char *layer_33_kv_cache = static_cast<char*>(model_tensors.at("layer_33_kv_cache"));
  all_tensors["layer_33_kv_cache"] = layer_33_kv_cache;
  char *layer_33_o_proj = static_cast<char*>(model_tensors.at("layer_33_o_proj"));
  all_tensors["layer_33_o_proj"] = layer_33_o_proj;
  char *layer_34_q_proj = static_cast<char*>(model_tensors.at("layer_34_q_proj"));
  all_tensors["layer_34_q_proj"] = layer_34_q_proj;
  char *layer_34_kv_a_latent = static_cast<char*>(model_tensors.at("layer_34_kv_a_latent"));
  all_tensors["layer_34_kv_a_latent"] = layer_34_kv_a_latent;
  char *layer_34_kv_a_rope = static_cast<char*>(model_tensors.at("layer_34_kv_a_rope"));
  all_tensors["layer_34_kv_a_rope"] = layer_34_kv_a_rope;
  char *layer_34_kv_cache = static_cast<char*>(model_tensors.at("layer_34_kv_cache"));
  all_tensors["layer_34_kv_cache"] = layer_34_kv_cache;
  char *layer_34_o_proj = static_cast<char*>(model_tensors.at("layer_34_o_proj"));
  all_tensors["layer_34_o_proj"] = layer_34_o_proj;
  char *layer_35_q_proj = static_cast<char*>(model_tensors.at("layer_35_q_proj"));
  all_tensors["layer_35_q_proj"] = layer_35_q_proj;
  char *layer_35_kv_a_latent = static_cast<char*>(model_tensors.at("layer_35_kv_a_latent"));
  all_tensors["layer_35_kv_a_latent"] = layer_35_kv_a_latent;
  char *layer_35_kv_a_rope = static_cast<char*>(model_tensors.at("layer_35_kv_a_rope"));
  all_tensors["layer_35_kv_a_rope"] = layer_35_kv_a_rope;
  char *layer_35_kv_cache = static_cast<char*>(model_tensors.at("layer_35_kv_cache"));
  all_tensors["layer_35_kv_cache"] = layer_35_kv_cache;
  char *layer_35_o_proj = static_cast<char*>(model_tensors.at("layer_35_o_proj"));
  all_tensors["layer_35_o_proj"] = layer_35_o_proj;
  char *layer_36_q_proj = static_cast<char*>(model_tensors.at("layer_36_q_proj"));
  all_tensors["layer_36_q_proj"] = layer_36_q_proj;
  char *layer_36_kv_a_latent = static_cast<char*>(model_tensors.at("layer_36_kv_a_latent"));
  all_tensors["layer_36_kv_a_latent"] = layer_36_kv_a_latent;
  char *layer_36_kv_a_rope = static_cast<char*>(model_tensors.at("layer_36_kv_a_rope"));
  all_tensors["layer_36_kv_a_rope"] = layer_36_kv_a_rope;
  char *layer_36_kv_cache = static_cast<char*>(model_tensors.at("layer_36_kv_cache"));
  all_tensors["layer_36_kv_cache"] = layer_36_kv_cache;
  char *layer_36_o_proj = static_cast<char*>(model_tensors.at("layer_36_o_proj"));
  all_tensors["layer_36_o_proj"] = layer_36_o_proj;
  char *layer_37_q_proj = static_cast<char*>(model_tensors.at("layer_37_q_proj"));
  all_tensors["layer_37_q_proj"] = layer_37_q_proj;
  char *layer_37_kv_a_latent = static_cast<char*>(model_tensors.at("layer_37_kv_a_latent"));
  all_tensors["layer_37_kv_a_latent"] = layer_37_kv_a_latent;
  char *layer_37_kv_a_rope = static_cast<char*>(model_tensors.at("layer_37_kv_a_rope"));
  all_tensors["layer_37_kv_a_rope"] = layer_37_kv_a_rope;
  char *layer_37_kv_cache = static_cast<char*>(model_tensors.at("layer_37_kv_cache"));
  all_tensors["layer_37_kv_cache"] = layer_37_kv_cache;
  char *layer_37_o_proj = static_cast<char*>(model_tensors.at("layer_37_o_proj"));
  all_tensors["layer_37_o_proj"] = layer_37_o_proj;
  char *layer_38_q_proj = static_cast<char*>(model_tensors.at("layer_38_q_proj"));
  all_tensors["layer_38_q_proj"] = layer_38_q_proj;
  char *layer_38_kv_a_latent = static_cast<char*>(model_tensors.at("layer_38_kv_a_latent"));
  all_tensors["layer_38_kv_a_latent"] = layer_38_kv_a_latent;
  char *layer_38_kv_a_rope = static_cast<char*>(model_tensors.at("layer_38_kv_a_rope"));
  all_tensors["layer_38_kv_a_rope"] = layer_38_kv_a_rope;
  char *layer_38_kv_cache = static_cast<char*>(model_tensors.at("layer_38_kv_cache"));
  all_tensors["layer_38_kv_cache"] = layer_38_kv_cache;
  char *layer_38_o_proj = static_cast<char*>(model_tensors.at("layer_38_o_proj"));
  all_tensors["layer_38_o_proj"] = layer_38_o_proj;
  char *layer_39_q_proj = static_cast<char*>(model_tensors.at("layer_39_q_proj"));
  all_tensors["layer_39_q_proj"] = layer_39_q_proj;
  char *layer_39_kv_a_latent = static_cast<char*>(model_tensors.at("layer_39_kv_a_latent"));
  all_tensors["layer_39_kv_a_latent"] = layer_39_kv_a_latent;
  char *layer_39_kv_a_rope = static_cast<char*>(model_tensors.at("layer_39_kv_a_rope"));
  all_tensors["layer_39_kv_a_rope"] = layer_39_kv_a_rope;
  char *layer_39_kv_cache = static_cast<char*>(model_tensors.at("layer_39_kv_cache"));
  all_tensors["layer_39_kv_cache"] = layer_39_kv_cache;
  char *layer_39_o_proj = static_cast<char*>(model_tensors.at("layer_39_o_proj"));
  all_tensors["layer_39_o_proj"] = layer_39_o_proj;
  char *layer_40_q_proj = static_cast<char*>(model_tensors.at("layer_40_q_proj"));
  all_tensors["layer_40_q_proj"] = layer_40_q_proj;
  char *layer_40_kv_a_latent = static_cast<char*>(model_tensors.at("layer_40_kv_a_latent"));
  all_tensors["layer_40_kv_a_latent"] = layer_40_kv_a_latent;
  char *layer_40_kv_a_rope = static_cast<char*>(model_tensors.at("layer_40_kv_a_rope"));
  all_tensors["layer_40_kv_a_rope"] = layer_40_kv_a_rope;
  char *layer_40_kv_cache = static_cast<char*>(model_tensors.at("layer_40_kv_cache"));
  all_tensors["layer_40_kv_cache"] = layer_40_kv_cache;
  char *layer_40_o_proj = static_cast<char*>(model_tensors.at("layer_40_o_proj"));
  all_tensors["layer_40_o_proj"] = layer_40_o_proj;
  char *layer_41_q_proj = static_cast<char*>(model_tensors.at("layer_41_q_proj"));
  all_tensors["layer_41_q_proj"] = layer_41_q_proj;
  char *layer_41_kv_a_latent = static_cast<char*>(model_tensors.at("layer_41_kv_a_latent"));
  all_tensors["layer_41_kv_a_latent"] = layer_41_kv_a_latent;
  char *layer_41_kv_a_rope = static_cast<char*>(model_tensors.at("layer_41_kv_a_rope"));
  all_tensors["layer_41_kv_a_rope"] = layer_41_kv_a_rope;
  char *layer_41_kv_cache = static_cast<char*>(model_tensors.at("layer_41_kv_cache"));
  all_tensors["layer_41_kv_cache"] = layer_41_kv_cache;
  char *layer_41_o_proj = static_cast<char*>(model_tensors.at("layer_41_o_proj"));
  all_tensors["layer_41_o_proj"] = layer_41_o_proj;
  char *layer_42_q_proj = static_cast<char*>(model_tensors.at("layer_42_q_proj"));
  all_tensors["layer_42_q_proj"] = layer_42_q_proj;
  char *layer_42_kv_a_latent = static_cast<char*>(model_tensors.at("layer_42_kv_a_latent"));
  all_tensors["layer_42_kv_a_latent"] = layer_42_kv_a_latent;
  char *layer_42_kv_a_rope = static_cast<char*>(model_tensors.at("layer_42_kv_a_rope"));
  all_tensors["layer_42_kv_a_rope"] = layer_42_kv_a_rope;
  char *layer_42_kv_cache = static_cast<char*>(model_tensors.at("layer_42_kv_cache"));
  all_tensors["layer_42_kv_cache"] = layer_42_kv_cache;
  char *layer_42_o_proj = static_cast<char*>(model_tensors.at("layer_42_o_proj"));
  all_tensors["layer_42_o_proj"] = layer_42_o_proj;
  char *layer_43_q_proj = static_cast<char*>(model_tensors.at("layer_43_q_proj"));
  all_tensors["layer_43_q_proj"] = layer_43_q_proj;
  char *layer_43_kv_a_latent = static_cast<char*>(model_tensors.at("layer_43_kv_a_latent"));
  all_tensors["layer_43_kv_a_latent"] = layer_43_kv_a_latent;
  char *layer_43_kv_a_rope = static_cast<char*>(model_tensors.at("layer_43_kv_a_rope"));
  all_tensors["layer_43_kv_a_rope"] = layer_43_kv_a_rope;
  char *layer_43_kv_cache = static_cast<char*>(model_tensors.at("layer_43_kv_cache"));
  all_tensors["layer_43_kv_cache"] = layer_43_kv_cache;
  char *layer_43_o_proj = static_cast<char*>(model_tensors.at("layer_43_o_proj"));
  all_tensors["layer_43_o_proj"] = layer_43_o_proj;
  char *layer_44_q_proj = static_cast<char*>(model_tensors.at("layer_44_q_proj"));
  all_tensors["layer_44_q_proj"] = layer_44_q_proj;
  char *layer_44_kv_a_latent = static_cast<char*>(model_tensors.at("layer_44_kv_a_latent"));
  all_tensors["layer_44_kv_a_latent"] = layer_44_kv_a_latent;
  char *layer_44_kv_a_rope = static_cast<char*>(model_tensors.at("layer_44_kv_a_rope"));
  all_tensors["layer_44_kv_a_rope"] = layer_44_kv_a_rope;
  char *layer_44_kv_cache = static_cast<char*>(model_tensors.at("layer_44_kv_cache"));
  all_tensors["layer_44_kv_cache"] = layer_44_kv_cache;
  char *layer_44_o_proj = static_cast<char*>(model_tensors.at("layer_44_o_proj"));
  all_tensors["layer_44_o_proj"] = layer_44_o_proj;
  char *layer_45_q_proj = static_cast<char*>(model_tensors.at("layer_45_q_proj"));
  all_tensors["layer_45_q_proj"] = layer_45_q_proj;
  char *layer_45_kv_a_latent = static_cast<char*>(model_tensors.at("layer_45_kv_a_latent"));
  all_tensors["layer_45_kv_a_latent"] = layer_45_kv_a_latent;
  char *layer_45_kv_a_rope = static_cast<char*>(model_tensors.at("layer_45_kv_a_rope"));
  all_tensors["layer_45_kv_a_rope"] = layer_45_kv_a_rope;
  char *layer_45_kv_cache = static_cast<char*>(model_tensors.at("layer_45_kv_cache"));
  all_tensors["layer_45_kv_cache"] = layer_45_kv_cache;
  char *layer_45_o_proj = static_cast<char*>(model_tensors.at("layer_45_o_proj"));
  all_tensors["layer_45_o_proj"] = layer_45_o_proj;
  char *layer_46_q_proj = static_cast<char*>(model_tensors.at("layer_46_q_proj"));
  all_tensors["layer_46_q_proj"] = layer_46_q_proj;
  char *layer_46_kv_a_latent = static_cast<char*>(model_tensors.at("layer_46_kv_a_latent"));
  all_tensors["layer_46_kv_a_latent"] = layer_46_kv_a_latent;
  char *layer_46_kv_a_rope = static_cast<char*>(model_tensors.at("layer_46_kv_a_rope"));
  all_tensors["layer_46_kv_a_rope"] = layer_46_kv_a_rope;
  char *layer_46_kv_cache = static_cast<char*>(model_tensors.at("layer_46_kv_cache"));
  all_tensors["layer_46_kv_cache"] = layer_46_kv_cache;
  char *layer_46_o_proj = static_cast<char*>(model_tensors.at("layer_46_o_proj"));
  all_tensors["layer_46_o_proj"] = layer_46_o_proj;
  char *layer_47_q_proj = static_cast<char*>(model_tensors.at("layer_47_q_proj"));
  all_tensors["layer_47_q_proj"] = layer_47_q_proj;
  char *layer_47_kv_a_latent = static_cast<char*>(model_tensors.at("layer_47_kv_a_latent"));
  all_tensors["layer_47_kv_a_latent"] = layer_47_kv_a_latent;
  char *layer_47_kv_a_rope = static_cast<char*>(model_tensors.at("layer_47_kv_a_rope"));
  all_tensors["layer_47_kv_a_rope"] = layer_47_kv_a_rope;
  char *layer_47_kv_cache = static_cast<char*>(model_tensors.at("layer_47_kv_cache"));
  all_tensors["layer_47_kv_cache"] = layer_47_kv_cache;
  char *layer_47_o_proj = static_cast<char*>(model_tensors.at("layer_47_o_proj"));
  all_tensors["layer_47_o_proj"] = layer_47_o_proj;
  char *layer_48_q_proj = static_cast<char*>(model_tensors.at("layer_48_q_proj"));
  all_tensors["layer_48_q_proj"] = layer_48_q_proj;
  char *layer_48_kv_a_latent = static_cast<char*>(model_tensors.at("layer_48_kv_a_latent"));
  all_tensors["layer_48_kv_a_latent"] = layer_48_kv_a_latent;
  char *layer_48_kv_a_rope = static_cast<char*>(model_tensors.at("layer_48_kv_a_rope"));
  all_tensors["layer_48_kv_a_rope"] = layer_48_kv_a_rope;
  char *layer_48_kv_cache = static_cast<char*>(model_tensors.at("layer_48_kv_cache"));
  all_tensors["layer_48_kv_cache"] = layer_48_kv_cache;
  char *layer_48_o_proj = static_cast<char*>(model_tensors.at("layer_48_o_proj"));
  all_tensors["layer_48_o_proj"] = layer_48_o_proj;
  char *layer_49_q_proj = static_cast<char*>(model_tensors.at("layer_49_q_proj"));
  all_tensors["layer_49_q_proj"] = layer_49_q_proj;
  char *layer_49_kv_a_latent = static_cast<char*>(model_tensors.at("layer_49_kv_a_latent"));
  all_tensors["layer_49_kv_a_latent"] = layer_49_kv_a_latent;
  char *layer_49_kv_a_rope = static_cast<char*>(model_tensors.at("layer_49_kv_a_rope"));
  all_tensors["layer_49_kv_a_rope"] = layer_49_kv_a_rope;
  char *layer_49_kv_cache = static_cast<char*>(model_tensors.at("layer_49_kv_cache"));
  all_tensors["layer_49_kv_cache"] = layer_49_kv_cache;
  char *layer_49_o_proj = static_cast<char*>(model_tensors.at("layer_49_o_proj"));
  all_tensors["layer_49_o_proj"] = layer_49_o_proj;
  char *layer_50_q_proj = static_cast<char*>(model_tensors.at("layer_50_q_proj"));
  all_tensors["layer_50_q_proj"] = layer_50_q_proj;
  char *layer_50_kv_a_latent = static_cast<char*>(model_tensors.at("layer_50_kv_a_latent"));
  all_tensors["layer_50_kv_a_latent"] = layer_50_kv_a_latent;
  char *layer_50_kv_a_rope = static_cast<char*>(model_tensors.at("layer_50_kv_a_rope"));
  all_tensors["layer_50_kv_a_rope"] = layer_50_kv_a_rope;
  char *layer_50_kv_cache = static_cast<char*>(model_tensors.at("layer_50_kv_cache"));
  all_tensors["layer_50_kv_cache"] = layer_50_kv_cache;
  char *layer_50_o_proj = static_cast<char*>(model_tensors.at("layer_50_o_proj"));
  all_tensors["layer_50_o_proj"] = layer_50_o_proj;
  char *layer_51_q_proj = static_cast<char*>(model_tensors.at("layer_51_q_proj"));
  all_tensors["layer_51_q_proj"] = layer_51_q_proj;
  char *layer_51_kv_a_latent = static_cast<char*>(model_tensors.at("layer_51_kv_a_latent"));
  all_tensors["layer_51_kv_a_latent"] = layer_51_kv_a_latent;
  char *layer_51_kv_a_rope = static_cast<char*>(model_tensors.at("layer_51_kv_a_rope"));
  all_tensors["layer_51_kv_a_rope"] = layer_51_kv_a_rope;
  char *layer_51_kv_cache = static_cast<char*>(model_tensors.at("layer_51_kv_cache"));
  all_tensors["layer_51_kv_cache"] = layer_51_kv_cache;
  char *layer_51_o_proj = static_cast<char*>(model_tensors.at("layer_51_o_proj"));
  all_tensors["layer_51_o_proj"] = layer_51_o_proj;
  char *layer_52_q_proj = static_cast<char*>(model_tensors.at("layer_52_q_proj"));
  all_tensors["layer_52_q_proj"] = layer_52_q_proj;
  char *layer_52_kv_a_latent = static_cast<char*>(model_tensors.at("layer_52_kv_a_latent"));
  all_tensors["layer_52_kv_a_latent"] = layer_52_kv_a_latent;
  char *layer_52_kv_a_rope = static_cast<char*>(model_tensors.at("layer_52_kv_a_rope"));
  all_tensors["layer_52_kv_a_rope"] = layer_52_kv_a_rope;
  char *layer_52_kv_cache = static_cast<char*>(model_tensors.at("layer_52_kv_cache"));
  all_tensors["layer_52_kv_cache"] = layer_52_kv_cache;
  char *layer_52_o_proj = static_cast<char*>(model_tensors.at("layer_52_o_proj"));
  all_tensors["layer_52_o_proj"] = layer_52_o_proj;
  char *layer_53_q_proj = static_cast<char*>(model_tensors.at("layer_53_q_proj"));
  all_tensors["layer_53_q_proj"] = layer_53_q_proj;
  char *layer_53_kv_a_latent = static_cast<char*>(model_tensors.at("layer_53_kv_a_latent"));
  all_tensors["layer_53_kv_a_latent"] = layer_53_kv_a_latent;
  char *layer_53_kv_a_rope = static_cast<char*>(model_tensors.at("layer_53_kv_a_rope"));
  all_tensors["layer_53_kv_a_rope"] = layer_53_kv_a_rope;
  char *layer_53_kv_cache = static_cast<char*>(model_tensors.at("layer_53_kv_cache"));
  all_tensors["layer_53_kv_cache"] = layer_53_kv_cache;
  char *layer_53_o_proj = static_cast<char*>(model_tensors.at("layer_53_o_proj"));
  all_tensors["layer_53_o_proj"] = layer_53_o_proj;
  char *layer_54_q_proj = static_cast<char*>(model_tensors.at("layer_54_q_proj"));
  all_tensors["layer_54_q_proj"] = layer_54_q_proj;
  char *layer_54_kv_a_latent = static_cast<char*>(model_tensors.at("layer_54_kv_a_latent"));
  all_tensors["layer_54_kv_a_latent"] = layer_54_kv_a_latent;
  char *layer_54_kv_a_rope = static_cast<char*>(model_tensors.at("layer_54_kv_a_rope"));
  all_tensors["layer_54_kv_a_rope"] = layer_54_kv_a_rope;
  char *layer_54_kv_cache = static_cast<char*>(model_tensors.at("layer_54_kv_cache"));
  all_tensors["layer_54_kv_cache"] = layer_54_kv_cache;
  char *layer_54_o_proj = static_cast<char*>(model_tensors.at("layer_54_o_proj"));
  all_tensors["layer_54_o_proj"] = layer_54_o_proj;
  char *layer_55_q_proj = static_cast<char*>(model_tensors.at("layer_55_q_proj"));
  all_tensors["layer_55_q_proj"] = layer_55_q_proj;
  char *layer_55_kv_a_latent = static_cast<char*>(model_tensors.at("layer_55_kv_a_latent"));
  all_tensors["layer_55_kv_a_latent"] = layer_55_kv_a_latent;
  char *layer_55_kv_a_rope = static_cast<char*>(model_tensors.at("layer_55_kv_a_rope"));
  all_tensors["layer_55_kv_a_rope"] = layer_55_kv_a_rope;
  char *layer_55_kv_cache = static_cast<char*>(model_tensors.at("layer_55_kv_cache"));
  all_tensors["layer_55_kv_cache"] = layer_55_kv_cache;
  char *layer_55_o_proj = static_cast<char*>(model_tensors.at("layer_55_o_proj"));
  all_tensors["layer_55_o_proj"] = layer_55_o_proj;
  char *layer_56_q_proj = static_cast<char*>(model_tensors.at("layer_56_q_proj"));
  all_tensors["layer_56_q_proj"] = layer_56_q_proj;
  char *layer_56_kv_a_latent = static_cast<char*>(model_tensors.at("layer_56_kv_a_latent"));
  all_tensors["layer_56_kv_a_latent"] = layer_56_kv_a_latent;
  char *layer_56_kv_a_rope = static_cast<char*>(model_tensors.at("layer_56_kv_a_rope"));
  all_tensors["layer_56_kv_a_rope"] = layer_56_kv_a_rope;
  char *layer_56_kv_cache = static_cast<char*>(model_tensors.at("layer_56_kv_cache"));
  all_tensors["layer_56_kv_cache"] = layer_56_kv_cache;
  char *layer_56_o_proj = static_cast<char*>(model_tensors.at("layer_56_o_proj"));
  all_tensors["layer_56_o_proj"] = layer_56_o_proj;
  char *layer_57_q_proj = static_cast<char*>(model_tensors.at("layer_57_q_proj"));
  all_tensors["layer_57_q_proj"] = layer_57_q_proj;
  char *layer_57_kv_a_latent = static_cast<char*>(model_tensors.at("layer_57_kv_a_latent"));
  all_tensors["layer_57_kv_a_latent"] = layer_57_kv_a_latent;
  char *layer_57_kv_a_rope = static_cast<char*>(model_tensors.at("layer_57_kv_a_rope"));
  all_tensors["layer_57_kv_a_rope"] = layer_57_kv_a_rope;
  char *layer_57_kv_cache = static_cast<char*>(model_tensors.at("layer_57_kv_cache"));
  all_tensors["layer_57_kv_cache"] = layer_57_kv_cache;
  char *layer_57_o_proj = static_cast<char*>(model_tensors.at("layer_57_o_proj"));
  all_tensors["layer_57_o_proj"] = layer_57_o_proj;
  char *layer_58_q_proj = static_cast<char*>(model_tensors.at("layer_58_q_proj"));
  all_tensors["layer_58_q_proj"] = layer_58_q_proj;
  char *layer_58_kv_a_latent = static_cast<char*>(model_tensors.at("layer_58_kv_a_latent"));
  all_tensors["layer_58_kv_a_latent"] = layer_58_kv_a_latent;
  char *layer_58_kv_a_rope = static_cast<char*>(model_tensors.at("layer_58_kv_a_rope"));
  all_tensors["layer_58_kv_a_rope"] = layer_58_kv_a_rope;
  char *layer_58_kv_cache = static_cast<char*>(model_tensors.at("layer_58_kv_cache"));
  all_tensors["layer_58_kv_cache"] = layer_58_kv_cache;
  char *layer_58_o_proj = static_cast<char*>(model_tensors.at("layer_58_o_proj"));
  all_tensors["layer_58_o_proj"] = layer_58_o_proj;
  char *layer_59_q_proj = static_cast<char*>(model_tensors.at("layer_59_q_proj"));
  all_tensors["layer_59_q_proj"] = layer_59_q_proj;
  char *layer_59_kv_a_latent = static_cast<char*>(model_tensors.at("layer_59_kv_a_latent"));
  all_tensors["layer_59_kv_a_latent"] = layer_59_kv_a_latent;
  char *layer_59_kv_a_rope = static_cast<char*>(model_tensors.at("layer_59_kv_a_rope"));
  all_tensors["layer_59_kv_a_rope"] = layer_59_kv_a_rope;
  char *layer_59_kv_cache = static_cast<char*>(model_tensors.at("layer_59_kv_cache"));
  all_tensors["layer_59_kv_cache"] = layer_59_kv_cache;
  char *layer_59_o_proj = static_cast<char*>(model_tensors.at("layer_59_o_proj"));
  all_tensors["layer_59_o_proj"] = layer_59_o_proj;
  char *layer_60_q_proj = static_cast<char*>(model_tensors.at("layer_60_q_proj"));
  all_tensors["layer_60_q_proj"] = layer_60_q_proj;
  char *layer_60_kv_a_latent = static_cast<char*>(model_tensors.at("layer_60_kv_a_latent"));
  all_tensors["layer_60_kv_a_latent"] = layer_60_kv_a_latent;
  char *layer_60_kv_a_rope = static_cast<char*>(model_tensors.at("layer_60_kv_a_rope"));
  all_tensors["layer_60_kv_a_rope"] = layer_60_kv_a_rope;
  char *layer_60_kv_cache = static_cast<char*>(model_tensors.at("layer_60_kv_cache"));
  all_tensors["layer_60_kv_cache"] = layer_60_kv_cache;
  char *layer_60_o_proj = static_cast<char*>(model_tensors.at("layer_60_o_proj"));
  all_tensors["layer_60_o_proj"] = layer_60_o_proj;
  char *layer_61_q_proj = static_cast<char*>(model_tensors.at("layer_61_q_proj"));
  all_tensors["layer_61_q_proj"] = layer_61_q_proj;
  char *layer_61_kv_a_latent = static_cast<char*>(model_tensors.at("layer_61_kv_a_latent"));
  all_tensors["layer_61_kv_a_latent"] = layer_61_kv_a_latent;
  char *layer_61_kv_a_rope = static_cast<char*>(model_tensors.at("layer_61_kv_a_rope"));
  all_tensors["layer_61_kv_a_rope"] = layer_61_kv_a_rope;
  char *layer_61_kv_cache = static_cast<char*>(model_tensors.at("layer_61_kv_cache"));
  all_tensors["layer_61_kv_cache"] = layer_61_kv_cache;
  char *layer_61_o_proj = static_cast<char*>(model_tensors.at("layer_61_o_proj"));
  all_tensors["layer_61_o_proj"] = layer_61_o_proj;
  char *layer_62_q_proj = static_cast<char*>(model_tensors.at("layer_62_q_proj"));
  all_tensors["layer_62_q_proj"] = layer_62_q_proj;
  char *layer_62_kv_a_latent = static_cast<char*>(model_tensors.at("layer_62_kv_a_latent"));
  all_tensors["layer_62_kv_a_latent"] = layer_62_kv_a_latent;
  char *layer_62_kv_a_rope = static_cast<char*>(model_tensors.at("layer_62_kv_a_rope"));
  all_tensors["layer_62_kv_a_rope"] = layer_62_kv_a_rope;
  char *layer_62_kv_cache = static_cast<char*>(model_tensors.at("layer_62_kv_cache"));
  all_tensors["layer_62_kv_cache"] = layer_62_kv_cache;
  char *layer_62_o_proj = static_cast<char*>(model_tensors.at("layer_62_o_proj"));
  all_tensors["layer_62_o_proj"] = layer_62_o_proj;
  char *layer_63_q_proj = static_cast<char*>(model_tensors.at("layer_63_q_proj"));
  all_tensors["layer_63_q_proj"] = layer_63_q_proj;
  char *layer_63_kv_a_latent = static_cast<char*>(model_tensors.at("layer_63_kv_a_latent"));
  all_tensors["layer_63_kv_a_latent"] = layer_63_kv_a_latent;
  char *layer_63_kv_a_rope = static_cast<char*>(model_tensors.at("layer_63_kv_a_rope"));
  all_tensors["layer_63_kv_a_rope"] = layer_63_kv_a_rope;
  char *layer_63_kv_cache = static_cast<char*>(model_tensors.at("layer_63_kv_cache"));
  all_tensors["layer_63_kv_cache"] = layer_63_kv_cache;
  char *layer_63_o_proj = static_cast<char*>(model_tensors.at("layer_63_o_proj"));
  all_tensors["layer_63_o_proj"] = layer_63_o_proj;
  char *layer_64_q_proj = static_cast<char*>(model_tensors.at("layer_64_q_proj"));
  all_tensors["layer_64_q_proj"] = layer_64_q_proj;
  char *layer_64_kv_a_latent = static_cast<char*>(model_tensors.at("layer_64_kv_a_latent"));
  all_tensors["layer_64_kv_a_latent"] = layer_64_kv_a_latent;
  char *layer_64_kv_a_rope = static_cast<char*>(model_tensors.at("layer_64_kv_a_rope"));
  all_tensors["layer_64_kv_a_rope"] = layer_64_kv_a_rope;
  char *layer_64_kv_cache = static_cast<char*>(model_tensors.at("layer_64_kv_cache"));
  all_tensors["layer_64_kv_cache"] = layer_64_kv_cache;
  char *layer_64_o_proj = static_cast<char*>(model_tensors.at("layer_64_o_proj"));
  all_tensors["layer_64_o_proj"] = layer_64_o_proj;
  char *layer_65_q_proj = static_cast<char*>(model_tensors.at("layer_65_q_proj"));
  all_tensors["layer_65_q_proj"] = layer_65_q_proj;
  char *layer_65_kv_a_latent = static_cast<char*>(model_tensors.at("layer_65_kv_a_latent"));
  all_tensors["layer_65_kv_a_latent"] = layer_65_kv_a_latent;
  char *layer_65_kv_a_rope = static_cast<char*>(model_tensors.at("layer_65_kv_a_rope"));
  all_tensors["layer_65_kv_a_rope"] = layer_65_kv_a_rope;
  char *layer_65_kv_cache = static_cast<char*>(model_tensors.at("layer_65_kv_cache"));
  all_tensors["layer_65_kv_cache"] = layer_65_kv_cache;
  char *layer_65_o_proj = static_cast<char*>(model_tensors.at("layer_65_o_proj"));
  all_tensors["layer_65_o_proj"] = layer_65_o_proj;
  char *layer_66_q_proj = static_cast<char*>(model_tensors.at("layer_66_q_proj"));
  all_tensors["layer_66_q_proj"] = layer_66_q_proj;
  char *layer_66_kv_a_latent = static_cast<char*>(model_tensors.at("layer_66_kv_a_latent"));
  all_tensors["layer_66_kv_a_latent"] = layer_66_kv_a_latent;
  char *layer_66_kv_a_rope = static_cast<char*>(model_tensors.at("layer_66_kv_a_rope"));
  all_tensors["layer_66_kv_a_rope"] = layer_66_kv_a_rope;
  char *layer_66_kv_cache = static_cast<char*>(model_tensors.at("layer_66_kv_cache"));
  all_tensors["layer_66_kv_cache"] = layer_66_kv_cache;
  char *layer_66_o_proj = static_cast<char*>(model_tensors.at("layer_66_o_proj"));
  all_tensors["layer_66_o_proj"] = layer_66_o_proj;
  char *layer_67_q_proj = static_cast<char*>(model_tensors.at("layer_67_q_proj"));
  all_tensors["layer_67_q_proj"] = layer_67_q_proj;
  char *layer_67_kv_a_latent = static_cast<char*>(model_tensors.at("layer_67_kv_a_latent"));
  all_tensors["layer_67_kv_a_latent"] = layer_67_kv_a_latent;
  char *layer_67_kv_a_rope = static_cast<char*>(model_tensors.at("layer_67_kv_a_rope"));
  all_tensors["layer_67_kv_a_rope"] = layer_67_kv_a_rope;
  char *layer_67_kv_cache = static_cast<char*>(model_tensors.at("layer_67_kv_cache"));
  all_tensors["layer_67_kv_cache"] = layer_67_kv_cache;
  char *layer_67_o_proj = static_cast<char*>(model_tensors.at("layer_67_o_proj"));
  all_tensors["layer_67_o_proj"] = layer_67_o_proj;
  char *layer_68_q_proj = static_cast<char*>(model_tensors.at("layer_68_q_proj"));
  all_tensors["layer_68_q_proj"] = layer_68_q_proj;
  char *layer_68_kv_a_latent = static_cast<char*>(model_tensors.at("layer_68_kv_a_latent"));
  all_tensors["layer_68_kv_a_latent"] = layer_68_kv_a_latent;
  char *layer_68_kv_a_rope = static_cast<char*>(model_tensors.at("layer_68_kv_a_rope"));
  all_tensors["layer_68_kv_a_rope"] = layer_68_kv_a_rope;
  char *layer_68_kv_cache = static_cast<char*>(model_tensors.at("layer_68_kv_cache"));
  all_tensors["layer_68_kv_cache"] = layer_68_kv_cache;
  char *layer_68_o_proj = static_cast<char*>(model_tensors.at("layer_68_o_proj"));
  all_tensors["layer_68_o_proj"] = layer_68_o_proj;
  char *layer_69_q_proj = static_cast<char*>(model_tensors.at("layer_69_q_proj"));
  all_tensors["layer_69_q_proj"] = layer_69_q_proj;
  char *layer_69_kv_a_latent = static_cast<char*>(model_tensors.at("layer_69_kv_a_latent"));
  all_tensors["layer_69_kv_a_latent"] = layer_69_kv_a_latent;
  char *layer_69_kv_a_rope = static_cast<char*>(model_tensors.at("layer_69_kv_a_rope"));
  all_tensors["layer_69_kv_a_rope"] = layer_69_kv_a_rope;
  char *layer_69_kv_cache = static_cast<char*>(model_tensors.at("layer_69_kv_cache"));
  all_tensors["layer_69_kv_cache"] = layer_69_kv_cache;
  char *layer_69_o_proj = static_cast<char*>(model_tensors.at("layer_69_o_proj"));
  all_tensors["layer_69_o_proj"] = layer_69_o_proj;
  char *layer_70_q_proj = static_cast<char*>(model_tensors.at("layer_70_q_proj"));
  all_tensors["layer_70_q_proj"] = layer_70_q_proj;
  char *layer_70_kv_a_latent = static_cast<char*>(model_tensors.at("layer_70_kv_a_latent"));
  all_tensors["layer_70_kv_a_latent"] = layer_70_kv_a_latent;
  char *layer_70_kv_a_rope = static_cast<char*>(model_tensors.at("layer_70_kv_a_rope"));
  all_tensors["layer_70_kv_a_rope"] = layer_70_kv_a_rope;
  char *layer_70_kv_cache = static_cast<char*>(model_tensors.at("layer_70_kv_cache"));
  all_tensors["layer_70_kv_cache"] = layer_70_kv_cache;
  char *layer_70_o_proj = static_cast<char*>(model_tensors.at("layer_70_o_proj"));
  all_tensors["layer_70_o_proj"] = layer_70_o_proj;
  char *layer_71_q_proj = static_cast<char*>(model_tensors.at("layer_71_q_proj"));
  all_tensors["layer_71_q_proj"] = layer_71_q_proj;
  char *layer_71_kv_a_latent = static_cast<char*>(model_tensors.at("layer_71_kv_a_latent"));
  all_tensors["layer_71_kv_a_latent"] = layer_71_kv_a_latent;
  char *layer_71_kv_a_rope = static_cast<char*>(model_tensors.at("layer_71_kv_a_rope"));
  all_tensors["layer_71_kv_a_rope"] = layer_71_kv_a_rope;
  char *layer_71_kv_cache = static_cast<char*>(model_tensors.at("layer_71_kv_cache"));
  all_tensors["layer_71_kv_cache"] = layer_71_kv_cache;
  char *layer_71_o_proj = static_cast<char*>(model_tensors.at("layer_71_o_proj"));
  all_tensors["layer_71_o_proj"] = layer_71_o_proj;
  char *layer_72_q_proj = static_cast<char*>(model_tensors.at("layer_72_q_proj"));
  all_tensors["layer_72_q_proj"] = layer_72_q_proj;
  char *layer_72_kv_a_latent = static_cast<char*>(model_tensors.at("layer_72_kv_a_latent"));
  all_tensors["layer_72_kv_a_latent"] = layer_72_kv_a_latent;
  char *layer_72_kv_a_rope = static_cast<char*>(model_tensors.at("layer_72_kv_a_rope"));
  all_tensors["layer_72_kv_a_rope"] = layer_72_kv_a_rope;
  char *layer_72_kv_cache = static_cast<char*>(model_tensors.at("layer_72_kv_cache"));
  all_tensors["layer_72_kv_cache"] = layer_72_kv_cache;
  char *layer_72_o_proj = static_cast<char*>(model_tensors.at("layer_72_o_proj"));
  all_tensors["layer_72_o_proj"] = layer_72_o_proj;
  char *layer_73_q_proj = static_cast<char*>(model_tensors.at("layer_73_q_proj"));
  all_tensors["layer_73_q_proj"] = layer_73_q_proj;
  char *layer_73_kv_a_latent = static_cast<char*>(model_tensors.at("layer_73_kv_a_latent"));
  all_tensors["layer_73_kv_a_latent"] = layer_73_kv_a_latent;
  char *layer_73_kv_a_rope = static_cast<char*>(model_tensors.at("layer_73_kv_a_rope"));
  all_tensors["layer_73_kv_a_rope"] = layer_73_kv_a_rope;
  char *layer_73_kv_cache = static_cast<char*>(model_tensors.at("layer_73_kv_cache"));
  all_tensors["layer_73_kv_cache"] = layer_73_kv_cache;
  char *layer_73_o_proj = static_cast<char*>(model_tensors.at("layer_73_o_proj"));
  all_tensors["layer_73_o_proj"] = layer_73_o_proj;
  char *layer_74_q_proj = static_cast<char*>(model_tensors.at("layer_74_q_proj"));
  all_tensors["layer_74_q_proj"] = layer_74_q_proj;
  char *layer_74_kv_a_latent = static_cast<char*>(model_tensors.at("layer_74_kv_a_latent"));
  all_tensors["layer_74_kv_a_latent"] = layer_74_kv_a_latent;
  char *layer_74_kv_a_rope = static_cast<char*>(model_tensors.at("layer_74_kv_a_rope"));
  all_tensors["layer_74_kv_a_rope"] = layer_74_kv_a_rope;
  char *layer_74_kv_cache = static_cast<char*>(model_tensors.at("layer_74_kv_cache"));
  all_tensors["layer_74_kv_cache"] = layer_74_kv_cache;
  char *layer_74_o_proj = static_cast<char*>(model_tensors.at("layer_74_o_proj"));
  all_tensors["layer_74_o_proj"] = layer_74_o_proj;
  char *layer_75_q_proj = static_cast<char*>(model_tensors.at("layer_75_q_proj"));
  all_tensors["layer_75_q_proj"] = layer_75_q_proj;
  char *layer_75_kv_a_latent = static_cast<char*>(model_tensors.at("layer_75_kv_a_latent"));
  all_tensors["layer_75_kv_a_latent"] = layer_75_kv_a_latent;
  char *layer_75_kv_a_rope = static_cast<char*>(model_tensors.at("layer_75_kv_a_rope"));
  all_tensors["layer_75_kv_a_rope"] = layer_75_kv_a_rope;
  char *layer_75_kv_cache = static_cast<char*>(model_tensors.at("layer_75_kv_cache"));
  all_tensors["layer_75_kv_cache"] = layer_75_kv_cache;
  char *layer_75_o_proj = static_cast<char*>(model_tensors.at("layer_75_o_proj"));
  all_tensors["layer_75_o_proj"] = layer_75_o_proj;
  char *layer_76_q_proj = static_cast<char*>(model_tensors.at("layer_76_q_proj"));
  all_tensors["layer_76_q_proj"] = layer_76_q_proj;
  char *layer_76_kv_a_latent = static_cast<char*>(model_tensors.at("layer_76_kv_a_latent"));
  all_tensors["layer_76_kv_a_latent"] = layer_76_kv_a_latent;
  char *layer_76_kv_a_rope = static_cast<char*>(model_tensors.at("layer_76_kv_a_rope"));
  all_tensors["layer_76_kv_a_rope"] = layer_76_kv_a_rope;
  char *layer_76_kv_cache = static_cast<char*>(model_tensors.at("layer_76_kv_cache"));
  all_tensors["layer_76_kv_cache"] = layer_76_kv_cache;
  char *layer_76_o_proj = static_cast<char*>(model_tensors.at("layer_76_o_proj"));
  all_tensors["layer_76_o_proj"] = layer_76_o_proj;
  char *layer_77_q_proj = static_cast<char*>(model_tensors.at("layer_77_q_proj"));
  all_tensors["layer_77_q_proj"] = layer_77_q_proj;
  char *layer_77_kv_a_latent = static_cast<char*>(model_tensors.at("layer_77_kv_a_latent"));
  all_tensors["layer_77_kv_a_latent"] = layer_77_kv_a_latent;
  char *layer_77_kv_a_rope = static_cast<char*>(model_tensors.at("layer_77_kv_a_rope"));
  all_tensors["layer_77_kv_a_rope"] = layer_77_kv_a_rope;
  char *layer_77_kv_cache = static_cast<char*>(model_tensors.at("layer_77_kv_cache"));
  all_tensors["layer_77_kv_cache"] = layer_77_kv_cache;
  char *layer_77_o_proj = static_cast<char*>(model_tensors.at("layer_77_o_proj"));
  all_tensors["layer_77_o_proj"] = layer_77_o_proj;
  char *lm_head = static_cast<char*>(model_tensors.at("lm_head"));
  all_tensors["lm_head"] = lm_head;
  void *lm_head_out;
  CUDA_CHECK(cudaMalloc(&lm_head_out, 512));
  all_tensors["lm_head_out"] = lm_head_out;
  char *output_token = static_cast<char*>(model_tensors.at("output_token"));
  all_tensors["output_token"] = output_token;
  all_tensors["nullptr"] = nullptr;
  construct_task_graph(num_gpus, my_gpu_id, all_tasks, all_events, first_tasks, all_tensors);
}

__device__ __forceinline__
void _execute_task(TaskDesc const* task_desc,
                   RuntimeConfig const &runtime_config) {
  if (task_desc->task_type == TASK_EMBEDDING && task_desc->variant_id == 0) {
    kernel::embedding_kernel<bfloat16, 1, 256, 256>(
          task_desc->input_ptrs[0],
          task_desc->input_ptrs[1],
          task_desc->output_ptrs[0]);
  }
  else if (task_desc->task_type == TASK_LINEAR_WITH_RESIDUAL_SM100 && task_desc->variant_id == 0) {
    using TMA_A = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 256, 128, 128, 64, 128, 1, 1, 2, 8192, true>;
    using TMA_B = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 1, 128, 16, 64, 128, 1, 1, 2, 1024, true>;
    using TMA_OUT = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 1, 256, 16, 64, 256, 1, 1, 2, 1024, true>;
    TMA_A tma_a(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[1][0]));
    TMA_B tma_b(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[0][0]));
    TMA_OUT tma_out(static_cast<CUtensorMap*>(task_desc->output_tma_desc_ptrs[0][0]));
    cute::Layout layout_Bias = cute::make_layout(cute::make_shape(1, 256), cute::make_stride(256, cute::Int<1>{}));
    cute::Tensor mBias = cute::make_tensor(cute::make_gmem_ptr(static_cast<cute::bfloat16_t*>(task_desc->input_ptrs[2])), layout_Bias);
    kernel::linear_sm100_mpk_task_impl<cute::bfloat16_t, TMA_A, TMA_B, decltype(mBias), TMA_OUT, 128, 16, 1, 256, 128, false, false, 8, 2, 4>(
          tma_a,
          tma_b,
          mBias,
          tma_out);
  }
  else if (task_desc->task_type == TASK_LINEAR_SM100 && task_desc->variant_id == 0) {
    using TMA_A = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 256, 256, 128, 64, 256, 1, 1, 2, 8192, true>;
    using TMA_B = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 1, 256, 16, 64, 256, 1, 1, 2, 1024, true>;
    using TMA_OUT = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 1, 256, 16, 64, 256, 1, 1, 2, 1024, true>;
    TMA_A tma_a(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[1][0]));
    TMA_B tma_b(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[0][0]));
    TMA_OUT tma_out(static_cast<CUtensorMap*>(task_desc->output_tma_desc_ptrs[0][0]));
    cute::Layout layout_Bias = cute::make_layout(cute::make_shape(1, 256), cute::make_stride(256, cute::Int<1>{}));
    cute::Tensor mBias = cute::make_tensor(cute::make_gmem_ptr(static_cast<cute::bfloat16_t*>(nullptr)), layout_Bias);
    kernel::linear_sm100_mpk_task_impl<cute::bfloat16_t, TMA_A, TMA_B, decltype(mBias), TMA_OUT, 128, 16, 1, 256, 256, true, false, 8, 2, 4>(
          tma_a,
          tma_b,
          mBias,
          tma_out);
  }
  else if (task_desc->task_type == TASK_LINEAR_SM100 && task_desc->variant_id == 1) {
    using TMA_A = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 64, 256, 128, 64, 256, 1, 1, 2, 8192, true>;
    using TMA_B = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 1, 256, 16, 64, 256, 1, 1, 2, 1024, true>;
    using TMA_OUT = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 1, 64, 16, 64, 64, 1, 1, 2, 1024, true>;
    TMA_A tma_a(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[1][0]));
    TMA_B tma_b(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[0][0]));
    TMA_OUT tma_out(static_cast<CUtensorMap*>(task_desc->output_tma_desc_ptrs[0][0]));
    cute::Layout layout_Bias = cute::make_layout(cute::make_shape(1, 64), cute::make_stride(64, cute::Int<1>{}));
    cute::Tensor mBias = cute::make_tensor(cute::make_gmem_ptr(static_cast<cute::bfloat16_t*>(nullptr)), layout_Bias);
    kernel::linear_sm100_mpk_task_impl<cute::bfloat16_t, TMA_A, TMA_B, decltype(mBias), TMA_OUT, 128, 16, 1, 64, 256, true, false, 8, 2, 4>(
          tma_a,
          tma_b,
          mBias,
          tma_out);
  }
  else if (task_desc->task_type == TASK_ARGMAX_REDUCE_SM100 && task_desc->variant_id == 0) {
    kernel::argmax_reduce_sm100_kernel<bfloat16, 1, 1200, 1>(
          task_desc->input_ptrs[0],
          task_desc->input_ptrs[1],
          task_desc->output_ptrs[0],
          runtime_config.qo_indptr_buffer[MPK_MAX_NUM_BATCHED_REQUESTS]);
  }
  else if (task_desc->task_type == TASK_ARGMAX_PARTIAL_SM100 && task_desc->variant_id == 0) {
    kernel::argmax_partial_sm100_kernel<bfloat16, 1, 256, 1>(
          task_desc->input_ptrs[0],
          task_desc->output_ptrs[0],
          task_desc->output_ptrs[1],
          runtime_config.qo_indptr_buffer[MPK_MAX_NUM_BATCHED_REQUESTS]);
  }
  else if (task_desc->task_type == TASK_MLA_MTP_DECODE_SM100 && task_desc->variant_id == 0) {
  if (kernel::has_work(
      task_desc->task_metadata.merge_task_offset,
      runtime_config.paged_kv_indptr_buffer,
      runtime_config.paged_kv_indptr_buffer,
      runtime_config.paged_kv_last_page_len_buffer,
      runtime_config.qo_indptr_buffer,
      runtime_config.qo_indptr_buffer)) {
    using TMA = kernel::tma::tma_2d<bfloat16, 3, 3, 3, /*ROW=*/64, 64>;
    TMA tma(
      static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[0][0]),
      static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[1][0]),
      nullptr);  // the loader made the descriptors
    kernel::mla_mtp_decode_sm100_impl<bfloat16, 0>(
      tma,
      task_desc->output_ptrs[0],
      task_desc->output_ptrs[1],
      task_desc->task_metadata.request_id,
      task_desc->task_metadata.kv_idx);
  }
  }
  else if (task_desc->task_type == TASK_MLA_MTP_REDUCE_SM100 && task_desc->variant_id == 0) {
  if (kernel::has_work(
      task_desc->task_metadata.merge_task_offset,
      runtime_config.qo_indptr_buffer,
      runtime_config.qo_indptr_buffer)) {
    kernel::mla_mtp_reduce_sm100_impl<bfloat16, 0>(
      task_desc->input_ptrs[0],
      task_desc->input_ptrs[1],
      task_desc->output_ptrs[0],
      task_desc->task_metadata.kv_idx,
      task_desc->task_metadata.request_id);
  }
  }
  else if (task_desc->task_type == TASK_MLA_KV_GATHER_SM100 && task_desc->variant_id == 0) {
  if (kernel::has_work(
      task_desc->task_metadata.request_id,
      runtime_config.qo_indptr_buffer,
      runtime_config.paged_kv_indptr_buffer,
      runtime_config.paged_kv_indptr_buffer,
      runtime_config.paged_kv_last_page_len_buffer)) {
    kernel::mla_kv_gather_sm100_impl<bfloat16, 0>(
      task_desc->input_ptrs[0],
      task_desc->input_ptrs[1],
      task_desc->input_ptrs[3],
      task_desc->input_ptrs[2],
      runtime_config.qo_indptr_buffer,
      runtime_config.paged_kv_indptr_buffer,
      runtime_config.paged_kv_indices_buffer,
      runtime_config.paged_kv_last_page_len_buffer,
      task_desc->task_metadata.request_id);
  }
  }
}
