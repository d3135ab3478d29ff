// SPDX-License-Identifier: Apache-2.0
// Reads the keys of an FSDP configuration in a fixed order, so that their order in the file has no effect.
#include "flags/fsdp/read_fsdp_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <span>
#include <utility>

#include "flags/fsdp/config_keys.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::trainer {
namespace {

using Keys = std::vector<std::string>;

GivenKey key_with_value(const JsonObject& json, const std::string& key) {
  return {fmt::format("{} {}", key, json.text(key)), json.origin()};
}

// Of a key in an object that is the value of another key.
GivenKey inner_key(const JsonObject& outer, const std::string& key, const JsonObject& inner, const std::string& name) {
  return {fmt::format("{}.{} {}", key, name, inner.text(name)), outer.origin()};
}

// Sets a field. Error if another key has given it another value.
template <class T>
void give(FsdpConfig& out, const char* field, T& target, T value, const GivenKey& key) {
  const auto [earlier, is_first] = out.given.emplace(field, key);
  require(is_first || target == value, "{} contradict each other", [&] { return earlier->second.with(key); });
  target = std::move(value);
}

// A number of devices is a form of true.
void give_reshard(FsdpConfig& out, ReshardAfterForward value, const GivenKey& key) {
  const auto [earlier, is_first] = out.given.emplace("reshard_after_forward", key);
  const auto& before = out.reshard_after_forward;
  const bool agrees = is_first || (before->reshards() == value.reshards() &&
                                   (!before->group() || !value.group() || before->group() == value.group()));
  require(agrees, "{} contradict each other", [&] { return earlier->second.with(key); });
  if (is_first || value.group()) out.reshard_after_forward = value;
}

void require_choice(const JsonObject& json, const std::string& key, const std::string& name, const Keys& known) {
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  require(is_known, "{}: {} must be one of {}, got \"{}\"{}", json.origin(), key, fmt::join(known, ", "), name,
          [&] { return suggest_name(name, known); });
}

// ---- precision ----------------------------------------------------------------------------------------------------------

// A type of values in the model.
std::string read_dtype(const JsonObject& json, const std::string& key) {
  std::string name;
  json.read(key, name);
  require(name == "float32" || name == "bfloat16" || name == "float16",
          "{}: {} must be float32, bfloat16 or float16, got \"{}\"", json.origin(), key, name);
  return name;
}

// Reads "bf16" and similar names, or {"param_dtype": "bfloat16", "reduce_dtype": "float32"}.
void read_mixed_precision(const JsonObject& json, FsdpConfig& out) {
  const std::string key = spelling_of(json, "mixed_precision_policy");
  if (key.empty()) return;
  if (!json.is_string(key)) {
    JsonObject types;
    json.read(key, types);
    types.require_known({"param_dtype", "reduce_dtype"});
    const auto read = [&](const char* name, const char* field, std::string& target) {
      if (has_value(types, name)) give(out, field, target, read_dtype(types, name), inner_key(json, key, types, name));
    };
    read("param_dtype", "compute_dtype", out.compute_dtype);
    read("reduce_dtype", "reduce_dtype", out.reduce_dtype);
    return;
  }
  static const std::map<std::string, std::string> kShort = {
      {"bf16", "bfloat16"}, {"fp16", "float16"}, {"fp32", "float32"}};
  const std::string name = json.text(key);
  const auto known = kShort.find(name);
  require(known != kShort.end(),
          "{}: {} must be bf16, fp16, fp32 or an object of param_dtype and reduce_dtype, got \"{}\"", json.origin(),
          key, name);
  give(out, "compute_dtype", out.compute_dtype, known->second, key_with_value(json, key));
}

// ---- strategies ---------------------------------------------------------------------------------------------------------

// Reads the name of a strategy, or its number in Accelerate's enumeration. Only FULL_SHARD and HYBRID_SHARD gather again.
void read_strategy(const JsonObject& json, const std::string& key, FsdpConfig& out) {
  static const Keys kStrategies = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  std::string name = json.text(key);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool is_number = name.size() == 1 && name[0] >= '1' && name[0] <= '5';
  if (is_number) name = kStrategies[static_cast<std::size_t>(name[0] - '1')];
  require_choice(json, key, name, kStrategies);
  require(name != "NO_SHARD", "{}: {} NO_SHARD shards nothing; leave out --fsdp for data parallelism", json.origin(),
          key);
  give_reshard(out, name == "FULL_SHARD" || name == "HYBRID_SHARD", key_with_value(json, key));
  give(out, "hybrid", out.hybrid, std::optional(name.starts_with("HYBRID")), key_with_value(json, key));
}

ReshardAfterForward reshard_value(const JsonObject& json, const std::string& key) {
  const auto wrong = [&] {
    fail("{}: {} must be true, false or a number of devices, got {}", json.origin(), key, json.text(key));
  };
  if (bool reshards = false; json.is_bool(key)) {
    json.read(key, reshards);
    return reshards;
  }
  int devices = 0;
  try {
    json.read(key, devices);
  } catch (const Error&) {
    wrong();
  }
  if (devices < 1) wrong();
  if (devices == 1) return false;  // complete parameters are kept
  return devices;
}

// `reshard_after_forward` is the name of a strategy in version 1, and true, false or a number of devices in version 2.
void read_strategies(const JsonObject& json, FsdpConfig& out) {
  if (const std::string key = spelling_of(json, "sharding_strategy"); !key.empty()) read_strategy(json, key, out);
  const std::string key = spelling_of(json, "reshard_after_forward");
  if (key.empty()) return;
  if (json.is_string(key)) return read_strategy(json, key, out);
  give_reshard(out, reshard_value(json, key), key_with_value(json, key));
}

// ---- units --------------------------------------------------------------------------------------------------------------

void read_policy(const JsonObject& json, FsdpConfig& out) {
  const std::string key = spelling_of(json, "auto_wrap_policy");
  if (key.empty()) return;
  out.auto_wrap_policy = json.text(key);
  require_choice(json, key, out.auto_wrap_policy, {"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"});
  out.wraps = out.auto_wrap_policy != "NO_WRAP";
  out.given["auto_wrap_policy"] = key_with_value(json, key);
  constexpr std::int64_t kStandardSize = 100'000'000;
  if (out.auto_wrap_policy != "SIZE_BASED_WRAP" || out.min_num_params > 0) return;
  out.min_num_params = kStandardSize;
  out.given["min_num_params"] = key_with_value(json, key);
}

void read_ignored_modules(const JsonObject& json, FsdpConfig& out) {
  const std::string key = spelling_of(json, "ignored_modules");
  if (key.empty()) return;
  json.read(key, out.ignored_modules);
  out.given["ignored_modules"] = {key, json.origin()};
  std::erase(out.ignored_modules, "");
  for (const std::string& pattern : out.ignored_modules) try {
      (void)std::regex(pattern);
    } catch (const std::regex_error& error) {
      fail("{}: {}: \"{}\" is no regular expression: {}", json.origin(), key, pattern, error.what());
    }
}

void read_units(const JsonObject& json, FsdpConfig& out) {
  if (const std::string key = spelling_of(json, "transformer_layer_cls_to_wrap"); !key.empty()) {
    Keys texts;
    json.read(key, texts);
    for (const std::string& text : texts)
      for (std::string& name : class_names(text)) out.transformer_layer_cls_to_wrap.push_back(std::move(name));
    out.given["transformer_layer_cls_to_wrap"] = {key, json.origin()};
  }
  if (const std::string key = spelling_of(json, "min_num_params"); !key.empty()) {
    json.read(key, out.min_num_params);
    require(out.min_num_params >= 0, "{}: {} must not be negative, got {}", json.origin(), key, out.min_num_params);
    if (out.min_num_params > 0) out.given["min_num_params"] = {key, json.origin()};
  }
  read_policy(json, out);
  check_wrapping(out);
  read_ignored_modules(json, out);
}

// ---- other keys ---------------------------------------------------------------------------------------------------------

void read_version(const JsonObject& json) {
  const std::string key = spelling_of(json, "version");
  const std::string version = key.empty() ? "1" : json.text(key);
  require(version == "1" || version == "2", "{}: {} must be 1 or 2, got {}", json.origin(), key, version);
}

void read_state_dict_type(const JsonObject& json, FsdpConfig& out) {
  const std::string key = spelling_of(json, "state_dict_type");
  if (key.empty()) return;
  const std::string name = json.text(key);
  require_choice(json, key, name, {"FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT"});
  if (name == "LOCAL_STATE_DICT")
    out.notes.push_back(fmt::format("{}: {} {} has no effect: checkpoints are sharded and can be read for any mesh",
                                    json.origin(), key, name));
}

void read_checkpointing(const JsonObject& json, FsdpConfig& out) {
  for (const std::string& key : {spelling_of(json, "activation_checkpointing"), std::string("xla_fsdp_grad_ckpt")}) {
    bool checkpoints = false;
    if (key.empty() || !has_value(json, key) || !json.read(key, checkpoints) || !checkpoints) continue;
    out.activation_checkpointing = true;
    out.given.emplace("activation_checkpointing", key_with_value(json, key));
  }
}

// Arguments that are functions in PyTorch. Their default is null.
struct FunctionKey {
  const char* key;
  const char* instead;
};
constexpr FunctionKey kFunctionsOfFsdp[] = {{"param_init_fn", "parameters are always created as shards"}};
constexpr FunctionKey kFunctionsOfSettings[] = {
    {"param_init_fn", "parameters are always created as shards"},
    {"auto_wrap_policy", "give transformer_layer_cls_to_wrap or min_num_params beside xla_fsdp_settings"},
    {"auto_wrapper_callable", "give xla_fsdp_grad_ckpt beside xla_fsdp_settings to recompute units"},
};

void refuse_functions(const JsonObject& json, std::span<const FunctionKey> rows, const Keys& prefixes) {
  for (const FunctionKey& row : rows) {
    const std::string key = spelling_of(json, row.key, prefixes);
    require(key.empty(), "{}: {} is a function, which a file cannot contain; {}", json.origin(), key, row.instead);
  }
}

// ---- PyTorch/XLA --------------------------------------------------------------------------------------------------------

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

Keys known_settings() {
  Keys out = {"compute_dtype",       "buffer_dtype",    "shard_param_on_dim_0", "reshard_after_forward",
              "fp32_reduce_scatter", "sharding_groups", "sharding_world_size",  "disable_reshard_on_root",
              "_debug_msg"};
  for (std::string& name : names_of(InertKeys::kOfSettings)) out.push_back(std::move(name));
  for (const DebugKey& row : kDebugKeys) out.emplace_back(row.key);
  for (const FunctionKey& row : kFunctionsOfSettings) out.emplace_back(row.key);
  return out;
}

void read_groups(const JsonObject& settings, FsdpConfig& out) {
  if (has_value(settings, "sharding_groups")) settings.read("sharding_groups", out.sharding_groups);
  if (!has_value(settings, "sharding_world_size")) return;
  std::int64_t size = 0;
  settings.read("sharding_world_size", size);
  for (const auto& group : out.sharding_groups)
    require(isize(group) == size, "{}: sharding_world_size is {}, but a group in sharding_groups has {} ranks",
            settings.origin(), size, group.size());
  require(!out.sharding_groups.empty(), "{}: sharding_world_size needs sharding_groups", settings.origin());
}

void read_settings(const JsonObject& json, FsdpConfig& out) {
  const std::string key = "xla_fsdp_settings";
  if (!has_value(json, key)) return;
  JsonObject settings;
  json.read(key, settings);
  settings.require_known(known_settings());
  refuse_functions(settings, kFunctionsOfSettings, {});
  const auto given = [&](const char* name) { return inner_key(json, key, settings, name); };
  if (has_value(settings, "compute_dtype"))
    give(out, "compute_dtype", out.compute_dtype, read_dtype(settings, "compute_dtype"), given("compute_dtype"));
  if (has_value(settings, "buffer_dtype")) out.buffer_dtype = read_dtype(settings, "buffer_dtype");
  if (has_value(settings, "reshard_after_forward"))
    give_reshard(out, reshard_value(settings, "reshard_after_forward"), given("reshard_after_forward"));
  bool reduces_in_f32 = false;
  if (settings.read("fp32_reduce_scatter", reduces_in_f32) && reduces_in_f32)
    give(out, "reduce_dtype", out.reduce_dtype, std::string("float32"), given("fp32_reduce_scatter"));
  settings.read("shard_param_on_dim_0", out.shard_param_on_dim_0);
  settings.read("disable_reshard_on_root", out.disable_reshard_on_root);
  read_groups(settings, out);
  for (const DebugKey& row : kDebugKeys) settings.read(row.key, out.debug.*row.option);
  settings.read("_debug_msg", out.debug.msg);
  note_inert_keys(settings, InertKeys::kOfSettings, out.notes);
}

// PyTorch/XLA's keys apply even if `xla` does not say so.
void note_xla(const JsonObject& json, FsdpConfig& out) {
  const std::string key = spelling_of(json, "xla");
  if (bool is_xla = false; !key.empty() && json.read(key, is_xla) && is_xla) return;
  const std::string reason = key.empty() ? "there is no xla: true" : fmt::format("{} is false", key);
  const auto note = [&](const char* name, bool applies) {
    if (applies) out.notes.push_back(fmt::format("{}: {} applies although {}", json.origin(), name, reason));
  };
  note("xla_fsdp_settings", has_value(json, "xla_fsdp_settings") && json.text("xla_fsdp_settings") != "{}");
  note("xla_fsdp_grad_ckpt", has_value(json, "xla_fsdp_grad_ckpt") && json.text("xla_fsdp_grad_ckpt") == "true");
}

Keys known_keys() {
  Keys names = {"transformer_layer_cls_to_wrap",
                "min_num_params",
                "reshard_after_forward",
                "sharding_strategy",
                "mixed_precision_policy",
                "activation_checkpointing",
                "auto_wrap_policy",
                "state_dict_type",
                "ignored_modules",
                "version",
                "xla"};
  for (std::string& name : names_of(InertKeys::kOfFsdp)) names.push_back(std::move(name));
  for (const FunctionKey& row : kFunctionsOfFsdp) names.emplace_back(row.key);
  Keys out = {"xla_fsdp_settings", "xla_fsdp_grad_ckpt"};
  for (std::string& name : names_of(InertKeys::kOfXla)) out.push_back(std::move(name));
  for (std::string& name : size_keys()) out.push_back(std::move(name));
  for (const std::string& name : names) {
    out.push_back(name);
    out.push_back("fsdp_" + name);
  }
  return out;
}

}  // namespace

std::vector<std::string> class_names(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& part : split(text, ','))
    if (const std::string_view name = trim(part); !name.empty()) out.emplace_back(name);
  return out;
}

void set_axes(const MeshSizes& sizes, FsdpConfig& config) {
  config.axes = sizes.axes;
  if (!sizes.axes.empty()) config.given["axes"] = {sizes.what_gave};
}

void check_wrapping(const FsdpConfig& config) {
  const auto exclude = [&](bool both, const char* one, const char* other) {
    require(!both, "{} exclude each other", [&] { return config.given.at(one).with(config.given.at(other)); });
  };
  const bool has_size = config.min_num_params > 0;
  const bool has_classes = !config.transformer_layer_cls_to_wrap.empty();
  exclude(has_size && has_classes, "min_num_params", "transformer_layer_cls_to_wrap");
  exclude(has_size && config.auto_wrap_policy == "TRANSFORMER_BASED_WRAP", "auto_wrap_policy", "min_num_params");
  exclude(has_size && !config.wraps, "auto_wrap_policy", "min_num_params");
  exclude(has_classes && !config.wraps, "auto_wrap_policy", "transformer_layer_cls_to_wrap");
}

FsdpConfig FsdpConfig::from_json(const JsonObject& json) {
  json.require_known(known_keys());
  refuse_functions(json, kFunctionsOfFsdp, {"fsdp_"});
  FsdpConfig out;
  read_version(json);
  read_units(json, out);
  read_strategies(json, out);
  read_mixed_precision(json, out);
  read_checkpointing(json, out);
  read_state_dict_type(json, out);
  read_settings(json, out);
  set_axes(mesh_of_sizes(find_sizes(json)), out);
  note_inert_keys(json, InertKeys::kOfFsdp, out.notes);
  note_inert_keys(json, InertKeys::kOfXla, out.notes);
  note_xla(json, out);
  return out;
}

}  // namespace tessera::trainer
