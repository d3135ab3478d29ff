// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/base/yaml.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

FsdpMode parse_fsdp_mode(const std::string& text) {
  static const std::vector<std::string> kKnown = {"full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2",
                                                  "offload",    "auto_wrap",     "true",         "false"};
  std::set<std::string> options;
  for (const auto& word : split(text, ' ')) {
    if (word.empty()) continue;
    const bool is_known = std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end();
    require(is_known, "--fsdp: unknown option \"{}\"{}", word, [&] { return suggest_name(word, kKnown); });
    options.insert(word == "true" ? "full_shard" : word);
  }
  const auto has = [&](const char* option) { return options.contains(option); };
  if (options.empty() || has("false")) {
    require(options.size() < 2, "--fsdp: false excludes every other option, got \"{}\"", text);
    return {};
  }
  const auto strategies =
      std::count_if(kKnown.begin(), kKnown.begin() + 4, [&](const std::string& s) { return has(s.c_str()); });
  require(strategies == 1,
          "--fsdp: give exactly one of full_shard, shard_grad_op, hybrid_shard and hybrid_shard_zero2, got \"{}\"",
          text);
  return {.enabled = true,
          .reshard_after_forward = has("full_shard") || has("hybrid_shard"),
          .hybrid = has("hybrid_shard") || has("hybrid_shard_zero2"),
          .offload = has("offload")};
}

namespace {

// A key that is accepted but has no effect here, with the reason. Its `standard` value needs no note.
struct InertKey {
  const char* key;
  const char* standard;
  const char* reason;
};
constexpr InertKey kInert[] = {
    {"backward_prefetch", "\"NO_PREFETCH\"", "the schedule decides when weights are gathered"},
    {"backward_prefetch_policy", "\"NO_PREFETCH\"", "the schedule decides when weights are gathered"},
    {"forward_prefetch", "false", "the schedule decides when weights are gathered"},
    {"limit_all_gathers", "true", "gathered units are always limited"},
    {"use_orig_params", "true", "parameters always keep their names and shapes"},
    {"sync_module_states", "true", "every rank starts from the same values"},
    {"cpu_ram_efficient_loading", "false", "no rank ever holds the complete model"},
    {"offload_params", "false", "weights already are in host memory"},
    {"cpu_offload", "false", "weights already are in host memory"},
    {"version", "*", "versions 1 and 2 are the same here"},
    {"enable_expert_parallel", "false", "--expert_parallel names the axis of the experts"},
    {"cp_backend", "*", "attention over sharded sequences has one implementation"},
    {"xla", "*", ""},
};
constexpr InertKey kInertOfXla[] = {
    {"xla_fsdp_v2", "true", "FSDP always is a choice of shardings"},
};
constexpr InertKey kInertSettings[] = {
    {"pin_layout_in_collective_ops", "true", "ranks always check that they run the same program"},
    {"flatten_parameters", "false", "parameters keep their shapes"},
    {"execute_sharding_on_init", "true", "parameters are created sharded"},
    {"buffer_dtype", "\"float32\"", "buffers keep their type"},
    {"coalesce_all_gather_ops", "*", "the partitioner combines collectives where memory allows"},
    {"reduce_scatter_bucket_size_mb", "*", "the partitioner combines collectives where memory allows"},
    {"optimization_barrier_in_forward", "true", "barriers are placed where they are needed"},
    {"optimization_barrier_in_backward", "true", "barriers are placed where they are needed"},
    {"sync_on_finalization", "false", "a step is one program"},
    {"mark_step_on_finalization", "false", "a step is one program"},
    {"sharding_groups", "null", "the axes of --mesh are the groups"},
    {"sharding_rank", "null", "the axes of --mesh are the groups"},
    {"sharding_world_size", "null", "the axes of --mesh are the groups"},
    {"opt_flatten_overlap_factor", "*", "parameters keep their shapes"},
    {"_shard_size_multiple", "*", "shards are padded only where no dim divides"},
    {"_use_xla_patched_linear", "*", "the gradient of a product is always two products"},
    {"_debug_dummy_all_reduce_op", "false", "the norm of gradients, which alone uses it, is one number"},
};

// Returns the value of a key as JSON text.
std::string value_text(const JsonObject& json, std::string_view key) {
  bool flag = false;
  std::int64_t number = 0;
  std::string text;
  try {
    if (json.read(key, flag)) return flag ? "true" : "false";
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the value has another type
  }
  try {
    if (json.read(key, number)) return fmt::format("{}", number);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
  }
  try {
    if (json.read(key, text)) return quote(text);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
  }
  return "?";
}

template <std::size_t N>
void note_inert(const JsonObject& json, const InertKey (&rows)[N], const std::string& key, std::string_view name,
                std::vector<std::string>& notes) {
  for (const auto& row : rows)
    if (name == row.key && !json.is_null(key) && std::string_view(row.standard) != "*" &&
        value_text(json, key) != row.standard)
      notes.push_back(fmt::format("{}: {} has no effect: {}", json.origin(), key, row.reason));
}

template <std::size_t N>
void add_names(const InertKey (&rows)[N], std::vector<std::string>& names) {
  for (const auto& row : rows) names.emplace_back(row.key);
}

std::string read_dtype(const JsonObject& json, const std::string& key) {
  static const std::vector<std::string> kNames = {"float32", "bfloat16", "float16"};
  std::string name;
  json.read(key, name);
  const bool is_known = std::find(kNames.begin(), kNames.end(), name) != kNames.end();
  require(is_known, "{}: {} must be float32, bfloat16 or float16, got \"{}\"", json.origin(), key, name);
  return name;
}

struct DebugKey {
  const char* key;
  bool FsdpDebugOptions::*option;
};
constexpr DebugKey kDebugKeys[] = {
    {"_debug_dummy_forward_pass", &FsdpDebugOptions::dummy_forward_pass},
    {"_debug_dummy_all_gather_op", &FsdpDebugOptions::dummy_all_gather_op},
    {"_debug_dummy_reduce_scatter_op", &FsdpDebugOptions::dummy_reduce_scatter_op},
    {"_debug_dummy_optimization_barrier_op", &FsdpDebugOptions::dummy_optimization_barrier_op},
    {"_debug_print", &FsdpDebugOptions::print},
};

void read_xla_settings(const JsonObject& json, FsdpConfig& config) {
  std::vector<std::string> known = {"compute_dtype",           "shard_param_on_dim_0", "reshard_after_forward",
                                    "disable_reshard_on_root", "fp32_reduce_scatter",  "_debug_msg"};
  add_names(kInertSettings, known);
  for (const DebugKey& row : kDebugKeys) known.emplace_back(row.key);
  json.require_known(known);
  if (json.has("compute_dtype")) config.compute_dtype = read_dtype(json, "compute_dtype");
  json.read("shard_param_on_dim_0", config.shard_param_on_dim_0);
  json.read("reshard_after_forward", config.reshard_after_forward);
  json.read("disable_reshard_on_root", config.disable_reshard_on_root);
  for (const DebugKey& row : kDebugKeys) json.read(row.key, config.debug.*row.option);
  json.read("_debug_msg", config.debug.msg);
  bool reduces_in_f32 = false;
  if (json.read("fp32_reduce_scatter", reduces_in_f32) && reduces_in_f32) config.reduce_dtype = "float32";
  for (const auto& key : json.keys()) note_inert(json, kInertSettings, key, key, config.notes);
}

// Reads "bf16" and similar names, or {"param_dtype": "bfloat16", "reduce_dtype": "float32"}.
void read_mixed_precision(const JsonObject& json, const std::string& key, FsdpConfig& config) {
  JsonObject types;
  if (!value_text(json, key).starts_with('"')) {
    json.read(key, types);
    types.require_known({"param_dtype", "reduce_dtype"});
    if (types.has("param_dtype")) config.compute_dtype = read_dtype(types, "param_dtype");
    if (types.has("reduce_dtype")) config.reduce_dtype = read_dtype(types, "reduce_dtype");
    return;
  }
  static const std::map<std::string, std::string> kShort = {
      {"bf16", "bfloat16"}, {"fp16", "float16"}, {"fp32", "float32"}};
  std::string name;
  json.read(key, name);
  const auto known = kShort.find(name);
  require(known != kShort.end(),
          "{}: {} must be bf16, fp16, fp32 or an object of param_dtype and reduce_dtype, got \"{}\"", json.origin(),
          key, name);
  config.compute_dtype = known->second;
}

// Reads the name of a strategy, or its number in Accelerate's enumeration. Only FULL_SHARD and HYBRID_SHARD gather again.
void read_strategy(const JsonObject& json, const std::string& key, FsdpConfig& config) {
  static const std::vector<std::string> kStrategies = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                                       "HYBRID_SHARD_ZERO2"};
  std::string name = json.text(key);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool is_number = name.size() == 1 && name[0] >= '1' && name[0] <= '5';
  if (is_number) name = kStrategies[static_cast<std::size_t>(name[0] - '1')];
  const bool is_known = std::find(kStrategies.begin(), kStrategies.end(), name) != kStrategies.end();
  require(is_known, "{}: {} must be one of {}, got \"{}\"{}", json.origin(), key, fmt::join(kStrategies, ", "), name,
          [&] { return suggest_name(name, kStrategies); });
  require(name != "NO_SHARD", "{}: {} NO_SHARD shards nothing; leave out --fsdp for data parallelism", json.origin(),
          key);
  config.reshard_after_forward = name == "FULL_SHARD" || name == "HYBRID_SHARD";
  config.hybrid = name.starts_with("HYBRID");
}

// `reshard_after_forward` is the name of a strategy in version 1, and true or false in version 2.
void read_reshard(const JsonObject& json, const std::string& key, FsdpConfig& config) {
  if (!json.is_bool(key)) return read_strategy(json, key, config);
  json.read(key, config.reshard_after_forward);
}

void read_policy(const JsonObject& json, const std::string& key, FsdpConfig& config) {
  const std::string name = json.text(key);
  static const std::vector<std::string> kPolicies = {"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"};
  const bool is_known = std::find(kPolicies.begin(), kPolicies.end(), name) != kPolicies.end();
  require(is_known, "{}: {} must be one of {}, got \"{}\"{}", json.origin(), key, fmt::join(kPolicies, ", "), name,
          [&] { return suggest_name(name, kPolicies); });
  config.wraps = name != "NO_WRAP";
  constexpr std::int64_t kStandardSize = 100'000'000;
  const bool needs_size = name == "SIZE_BASED_WRAP" && config.min_num_params == 0;
  if (needs_size) config.min_num_params = kStandardSize;
}

void read_state_dict_type(const JsonObject& json, const std::string& key, FsdpConfig& config) {
  const std::string name = json.text(key);
  static const std::vector<std::string> kTypes = {"FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT"};
  const bool is_known = std::find(kTypes.begin(), kTypes.end(), name) != kTypes.end();
  require(is_known, "{}: {} must be one of {}, got \"{}\"{}", json.origin(), key, fmt::join(kTypes, ", "), name,
          [&] { return suggest_name(name, kTypes); });
  if (name == "LOCAL_STATE_DICT")
    config.notes.push_back(fmt::format("{}: {} {} has no effect: checkpoints are sharded and can be read for any mesh",
                                       json.origin(), key, name));
}

// The sizes of a mesh, by Accelerate's names.
struct SizeKey {
  const char* key;
  const char* axis;
};
constexpr SizeKey kSizes[] = {{"dp_replicate_size", "data"}, {"dp_shard_size", "fsdp"}, {"size", "fsdp"},
                              {"tp_size", "model"},          {"cp_size", ""},           {"sp_size", ""}};

void read_size(const JsonObject& json, const std::string& key, std::string_view name, FsdpConfig& config) {
  for (const SizeKey& row : kSizes) {
    if (name != row.key) continue;
    std::int64_t size = 1;
    json.read(key, size);
    require(size >= 1 || size == -1, "{}: {} must be at least 1, or -1 for the remaining ranks, got {}", json.origin(),
            key, size);
    require(size == 1 || *row.axis != '\0', "{}: {} must be 1, because no key shards sequences; use tp_size",
            json.origin(), key);
    if (size != 1) config.axes.emplace_back(row.axis, size);
  }
}

std::string without_prefix(const std::string& key) {
  for (const std::string_view prefix : {"fsdp_", "parallelism_config_"})
    if (key.starts_with(prefix)) return key.substr(prefix.size());
  return key;
}

void read_key(const JsonObject& json, const std::string& key, FsdpConfig& out) {
  const std::string name = without_prefix(key);
  JsonObject settings;
  if (name == "transformer_layer_cls_to_wrap") json.read(key, out.transformer_layer_cls_to_wrap);
  if (name == "min_num_params") json.read(key, out.min_num_params);
  if (name == "reshard_after_forward") read_reshard(json, key, out);
  if (name == "sharding_strategy") read_strategy(json, key, out);
  if (name == "auto_wrap_policy") read_policy(json, key, out);
  if (name == "state_dict_type") read_state_dict_type(json, key, out);
  if (name == "mixed_precision_policy") read_mixed_precision(json, key, out);
  if (name == "activation_checkpointing") json.read(key, out.activation_checkpointing);
  bool checkpoints = false;
  if (key == "xla_fsdp_grad_ckpt" && json.read(key, checkpoints)) out.activation_checkpointing |= checkpoints;
  if (key == "xla_fsdp_settings" && json.read(key, settings)) read_xla_settings(settings, out);
  read_size(json, key, name, out);
  note_inert(json, kInert, key, name, out.notes);
  note_inert(json, kInertOfXla, key, key, out.notes);
}

}  // namespace

FsdpConfig FsdpConfig::from_json(const JsonObject& json) {
  std::vector<std::string> names = {
      "transformer_layer_cls_to_wrap", "min_num_params",           "reshard_after_forward", "sharding_strategy",
      "mixed_precision_policy",        "activation_checkpointing", "auto_wrap_policy",      "state_dict_type"};
  add_names(kInert, names);
  std::vector<std::string> known = {"xla", "xla_fsdp_settings", "xla_fsdp_grad_ckpt"};
  add_names(kInertOfXla, known);
  for (const SizeKey& row : kSizes) {
    names.emplace_back(row.key);
    known.push_back(fmt::format("parallelism_config_{}", row.key));
  }
  for (const auto& name : names) {
    known.push_back(name);
    known.push_back("fsdp_" + name);
  }
  json.require_known(known);

  FsdpConfig out;
  for (const auto& key : json.keys())
    if (!json.is_null(key)) read_key(json, key, out);
  bool is_xla = true;
  const bool says_xla = json.read("xla", is_xla) || json.read("fsdp_xla", is_xla);
  if (out.activation_checkpointing && json.has("xla_fsdp_grad_ckpt") && says_xla && !is_xla)
    out.notes.push_back(fmt::format("{}: xla_fsdp_grad_ckpt applies although xla is false", json.origin()));
  require(out.min_num_params >= 0, "{}: min_num_params must not be negative, got {}", json.origin(),
          out.min_num_params);
  require(out.min_num_params == 0 || out.transformer_layer_cls_to_wrap.empty(),
          "{}: min_num_params and transformer_layer_cls_to_wrap exclude each other", json.origin());
  return out;
}

namespace {

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

// The object of --fsdp_config: a text, a file, or a part of Accelerate's file.
JsonObject fsdp_object(const std::string& given) {
  if (given.starts_with('{')) return JsonObject::parse(given, "--fsdp_config");
  JsonObject json = is_yaml(given) ? yaml_from_file(given) : JsonObject::parse(read_file(given), given);
  JsonObject part;
  if (!json.has("fsdp_config")) return json;
  json.read("fsdp_config", part);
  if (JsonObject sizes; json.has("parallelism_config") && !json.is_null("parallelism_config")) {
    json.read("parallelism_config", sizes);
    for (const std::string& key : sizes.keys()) {
      std::int64_t size = 1;
      if (key.ends_with("_size") && sizes.read(key, size)) part.set(key, size);
    }
  }
  return part;
}

}  // namespace

FsdpConfig FsdpConfig::of(const TrainingArguments& arguments) {
  FsdpConfig out;
  if (!arguments.fsdp_config.empty()) out = from_json(fsdp_object(arguments.fsdp_config));
  if (arguments.fsdp_min_num_params > 0) out.min_num_params = arguments.fsdp_min_num_params;
  for (const std::string& name : split(arguments.fsdp_transformer_layer_cls_to_wrap, ','))
    if (!name.empty()) out.transformer_layer_cls_to_wrap.push_back(name);
  require(out.min_num_params == 0 || out.transformer_layer_cls_to_wrap.empty(),
          "fsdp_min_num_params and fsdp_transformer_layer_cls_to_wrap exclude each other");
  return out;
}

}  // namespace tessera::trainer
