// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
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
          "--fsdp: exactly one of full_shard, shard_grad_op, hybrid_shard and hybrid_shard_zero2, got \"{}\"", text);
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
    {"forward_prefetch", "false", "the schedule decides when weights are gathered"},
    {"limit_all_gathers", "true", "gathered units are always limited"},
    {"use_orig_params", "true", "parameters always keep their names and shapes"},
    {"sync_module_states", "true", "every rank starts from the same values"},
    {"cpu_ram_efficient_loading", "false", "no rank ever holds the complete model"},
    {"offload_params", "false", "weights already are in host memory"},
    {"cpu_offload", "false", "weights already are in host memory"},
    {"activation_checkpointing", "false", "activations are kept, not recomputed"},
    {"version", "1", "versions 1 and 2 are the same here"},
    {"auto_wrap_policy", "\"TRANSFORMER_BASED_WRAP\"", "min_num_params and transformer_layer_cls_to_wrap decide"},
    {"state_dict_type", "\"FULL_STATE_DICT\"", "no state is saved"},
};
constexpr InertKey kInertOfXla[] = {
    {"xla_fsdp_v2", "true", "FSDP always is a choice of shardings"},
    {"xla_fsdp_grad_ckpt", "false", "activations are kept, not recomputed"},
};
constexpr InertKey kInertSettings[] = {
    {"pin_layout_in_collective_ops", "true", "ranks always check that they run the same program"},
    {"flatten_parameters", "false", "parameters keep their shapes"},
    {"execute_sharding_on_init", "true", "parameters are created sharded"},
    {"buffer_dtype", "\"float32\"", "the models have no buffers of floats"},
    {"coalesce_all_gather_ops", "true", "the partitioner combines collectives where memory allows"},
    {"optimization_barrier_in_forward", "true", "barriers are placed where they are needed"},
    {"optimization_barrier_in_backward", "true", "barriers are placed where they are needed"},
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
    if (name == row.key && !json.is_null(key) && value_text(json, key) != row.standard)
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

void read_xla_settings(const JsonObject& json, FsdpConfig& config) {
  std::vector<std::string> known = {"compute_dtype", "shard_param_on_dim_0", "reshard_after_forward"};
  add_names(kInertSettings, known);
  json.require_known(known);
  if (json.has("compute_dtype")) config.compute_dtype = read_dtype(json, "compute_dtype");
  json.read("shard_param_on_dim_0", config.shard_param_on_dim_0);
  json.read("reshard_after_forward", config.reshard_after_forward);
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

// `reshard_after_forward` is the name of a strategy in version 1, and true or false in version 2.
bool read_reshard(const JsonObject& json, const std::string& key) {
  bool value = true;
  if (value_text(json, key).starts_with('"')) {
    std::string strategy;
    json.read(key, strategy);
    std::transform(strategy.begin(), strategy.end(), strategy.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return parse_fsdp_mode(strategy).reshard_after_forward;
  }
  json.read(key, value);
  return value;
}

}  // namespace

FsdpConfig FsdpConfig::from_json(const JsonObject& json) {
  std::vector<std::string> names = {"transformer_layer_cls_to_wrap", "min_num_params", "reshard_after_forward",
                                    "mixed_precision_policy"};
  add_names(kInert, names);
  std::vector<std::string> known = {"xla", "xla_fsdp_settings"};
  add_names(kInertOfXla, known);
  for (const auto& name : names) {
    known.push_back(name);
    known.push_back("fsdp_" + name);
  }
  json.require_known(known);

  FsdpConfig out;
  const auto is = [](const std::string& key, std::string_view name) {
    return key == name || (key.starts_with("fsdp_") && key.substr(5) == name);
  };
  for (const auto& key : json.keys()) {
    if (json.is_null(key)) continue;
    JsonObject settings;
    if (is(key, "transformer_layer_cls_to_wrap")) json.read(key, out.transformer_layer_cls_to_wrap);
    if (is(key, "min_num_params")) json.read(key, out.min_num_params);
    if (is(key, "reshard_after_forward")) out.reshard_after_forward = read_reshard(json, key);
    if (is(key, "mixed_precision_policy")) read_mixed_precision(json, key, out);
    if (key == "xla_fsdp_settings" && json.read(key, settings)) read_xla_settings(settings, out);
    note_inert(json, kInert, key, key.starts_with("fsdp_") ? key.substr(5) : key, out.notes);
    note_inert(json, kInertOfXla, key, key, out.notes);
  }
  require(out.min_num_params >= 0, "{}: min_num_params must not be negative, got {}", json.origin(),
          out.min_num_params);
  require(out.min_num_params == 0 || out.transformer_layer_cls_to_wrap.empty(),
          "{}: min_num_params and transformer_layer_cls_to_wrap exclude each other", json.origin());
  return out;
}

}  // namespace tessera::trainer
