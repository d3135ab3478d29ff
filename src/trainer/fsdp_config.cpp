// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "flags/fsdp/config_keys.h"
#include "flags/fsdp/mesh_sizes.h"
#include "flags/fsdp/read_fsdp_config.h"
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

std::string GivenKey::str() const {
  if (origin.empty()) return words;
  const std::size_t split_at = origin.rfind(": ");  // a.yaml: fsdp_config
  if (split_at == std::string::npos) return fmt::format("{} in {}", words, origin);
  return fmt::format("{} in {} of {}", words, origin.substr(split_at + 2), origin.substr(0, split_at));
}

std::string GivenKey::with(const GivenKey& other) const {
  if (origin.empty() || origin != other.origin) return fmt::format("{} and {}", str(), other.str());
  return fmt::format("{}: {} and {}", origin, words, other.words);
}

std::string FsdpConfig::what_gave(std::string_view field) const {
  const auto found = given.find(field);
  return found == given.end() ? std::string(field) : found->second.str();
}

namespace {

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

// Whether the object is a complete file of Accelerate, of which fsdp_config is one key.
bool is_of_accelerate(const JsonObject& json) {
  return json.has("fsdp_config") || json.has("parallelism_config") || json.has("distributed_type") ||
         json.has("compute_environment");
}

FsdpConfig from_accelerate(const JsonObject& file) {
  JsonObject own(fmt::format("{}: fsdp_config", file.origin()));
  if (has_value(file, "fsdp_config")) file.read("fsdp_config", own);
  FsdpConfig out = FsdpConfig::from_json(own);
  std::vector<GivenSize> sizes = find_sizes(own);
  for (GivenSize& size : sizes_of_parallelism(file)) sizes.push_back(std::move(size));
  set_axes(mesh_of_sizes(sizes), out);
  return out;
}

// The configuration of --fsdp_config: a text, a file, or a part of Accelerate's file.
FsdpConfig read_given(const std::string& given) {
  if (given.empty()) return {};
  if (given.starts_with('{')) return FsdpConfig::from_json(JsonObject::parse(given, "--fsdp_config"));
  return reading_file([&] {
    const JsonObject json = is_yaml(given) ? yaml_from_file(given) : JsonObject::from_file(given);
    return is_of_accelerate(json) ? from_accelerate(json) : FsdpConfig::from_json(json);
  });
}

}  // namespace

FsdpConfig FsdpConfig::of(const TrainingArguments& arguments) {
  FsdpConfig out = read_given(arguments.fsdp_config);
  if (arguments.fsdp_min_num_params > 0) {
    out.min_num_params = arguments.fsdp_min_num_params;
    out.given["min_num_params"] = {"--fsdp_min_num_params"};
  }
  for (std::string& name : class_names(arguments.fsdp_transformer_layer_cls_to_wrap)) {
    out.transformer_layer_cls_to_wrap.push_back(std::move(name));
    out.given["transformer_layer_cls_to_wrap"] = {"--fsdp_transformer_layer_cls_to_wrap"};
  }
  check_wrapping(out);
  return out;
}

}  // namespace tessera::trainer
