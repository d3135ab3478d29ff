// SPDX-License-Identifier: Apache-2.0
#include "flags/fsdp/config_keys.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera::trainer {

bool has_value(const JsonObject& json, const std::string& key) { return json.has(key) && !json.is_null(key); }

std::string spelling_of(const JsonObject& json, const std::string& name, const std::vector<std::string>& prefixes) {
  std::string found = has_value(json, name) ? name : "";
  for (const std::string& prefix : prefixes) {
    const std::string other = prefix + name;
    if (!has_value(json, other)) continue;
    require(found.empty() || json.text(found) == json.text(other), "{}: {} {} and {} {} contradict each other",
            json.origin(), found, json.text(found), other, json.text(other));
    if (found.empty()) found = other;
  }
  return found;
}

namespace {

// A key with its reason. Its `standard` value needs no note. "*": no value does; "": every value does.
struct InertKey {
  const char* key;
  const char* standard;
  const char* reason;
};
constexpr InertKey kOfFsdp[] = {
    {"backward_prefetch", "NO_PREFETCH", "the schedule decides when weights are gathered"},
    {"backward_prefetch_policy", "NO_PREFETCH", "the schedule decides when weights are gathered"},
    {"forward_prefetch", "false", "the schedule decides when weights are gathered"},
    {"limit_all_gathers", "true", "gathered units are always limited"},
    {"use_orig_params", "true", "parameters always keep their names and shapes"},
    {"sync_module_states", "true", "every rank starts from the same values"},
    {"cpu_ram_efficient_loading", "false", "no rank ever holds the complete model"},
    {"offload_params", "false", "weights already are in host memory"},
    {"cpu_offload", "false", "weights already are in host memory"},
    {"enable_expert_parallel", "false", "--expert_parallel names the axis of the experts"},
    {"cp_backend", "torch", "attention over sharded sequences has one implementation"},
    {"state_dict_config", "", "checkpoints are sharded and can be read for any mesh"},
    {"optim_state_dict_config", "", "checkpoints are sharded and can be read for any mesh"},
};
constexpr InertKey kOfXla[] = {
    {"xla_fsdp_v2", "true", "FSDP always is a choice of shardings"},
};
constexpr InertKey kOfSettings[] = {
    {"pin_layout_in_collective_ops", "true", "ranks always check that they run the same program"},
    {"flatten_parameters", "false", "parameters keep their shapes"},
    {"execute_sharding_on_init", "true", "parameters are created sharded"},
    {"coalesce_all_gather_ops", "false", "the partitioner combines collectives where memory allows"},
    {"reduce_scatter_bucket_size_mb", "0", "the partitioner combines collectives where memory allows"},
    {"optimization_barrier_in_forward", "true", "barriers are placed where they are needed"},
    {"optimization_barrier_in_backward", "true", "barriers are placed where they are needed"},
    {"sync_on_finalization", "false",
     "the last backward pass and the update of the parameters are one compiled program, and the planned memory is that "
     "of this program"},
    {"mark_step_on_finalization", "false",
     "the last backward pass and the update of the parameters are one compiled program, and the planned memory is that "
     "of this program"},
    {"sharding_rank", "*", "every rank finds its place in sharding_groups"},
    {"opt_flatten_overlap_factor", "", "parameters keep their shapes"},
    {"_shard_size_multiple", "128", "shards are padded only where no dim divides"},
    {"_use_xla_patched_linear", "true", "the gradients of a product are always computed by two products"},
    {"_debug_dummy_all_reduce_op", "false", "only the norm of gradients is all-reduced, and it is one number"},
};

std::span<const InertKey> rows_of(InertKeys group) {
  switch (group) {
    case InertKeys::kOfFsdp: return kOfFsdp;
    case InertKeys::kOfXla: return kOfXla;
    case InertKeys::kOfSettings: return kOfSettings;
  }
  return {};
}

}  // namespace

std::vector<std::string> names_of(InertKeys group) {
  std::vector<std::string> out;
  for (const InertKey& row : rows_of(group)) out.emplace_back(row.key);
  return out;
}

void note_inert_keys(const JsonObject& json, InertKeys group, std::vector<std::string>& notes) {
  const std::vector<std::string> prefixes =
      group == InertKeys::kOfFsdp ? std::vector<std::string>{"fsdp_"} : std::vector<std::string>{};
  for (const InertKey& row : rows_of(group)) {
    const std::string key = spelling_of(json, row.key, prefixes);
    if (key.empty() || std::string_view(row.standard) == "*" || json.text(key) == row.standard) continue;
    notes.push_back(fmt::format("{}: {} has no effect: {}", json.origin(), key, row.reason));
  }
}

}  // namespace tessera::trainer
