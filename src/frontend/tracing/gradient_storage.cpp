// SPDX-License-Identifier: Apache-2.0
#include "tracing/gradient_storage.h"

#include <algorithm>
#include <unordered_set>

#include "tessera/autodiff/gradients.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"

namespace tessera {
namespace {

// Returns the axes that shard rows and that `own` does not use.
std::vector<AxisRef> free_row_axes(const Sharding& own, const std::vector<Sharding>& rows) {
  std::vector<AxisRef> used = own.used_axes();
  std::vector<AxisRef> out;
  for (const auto& row : rows) {
    if (row.mesh != own.mesh) continue;
    for (const auto& axis : row.dims.front().axes) {
      if (overlaps_any(used, axis)) continue;
      used.push_back(axis);
      out.push_back(axis);
    }
  }
  return out;
}

// Returns the first dim that can be evenly divided into `parts` times as many tiles, or else the dim with the largest
// tiles. Returns -1 if every dim has too few elements. If the variable is replicated and the mesh has further axes, the
// search starts at the last dim, because those axes may shard the quantity that the first dim counts (positions).
int dim_to_shard(const Type& type, const Sharding& own, std::int64_t parts, bool is_stack) {
  const bool backwards = own.used_axes().empty() && own.mesh.device_count() > parts;
  int best = -1;
  std::int64_t largest = parts - 1;
  for (int i = 0; i < type.ndim(); ++i) {
    const int d = backwards ? type.ndim() - 1 - i : i;
    if (d == 0 && is_stack) continue;  // a loop visits it element by element
    const std::int64_t tiles = own.tiles(d);
    if (type.dim(d) > 0 && type.dim(d) % (tiles * parts) == 0) return d;
    if (type.dim(d) / tiles <= largest) continue;
    largest = type.dim(d) / tiles;
    best = d;
  }
  return best;
}

}  // namespace

std::vector<Sharding> row_shardings(const Trace& trace) {
  std::unordered_set<int> variables;
  for (const auto& leaf : trace.leaves()) variables.insert(trace.input_index(leaf.stored));
  std::vector<Sharding> out;
  for (int i = 0; i < isize(trace.inputs()); ++i) {
    const std::optional<Sharding>& sharding = at(trace.inputs(), i)->sharding;
    // In auto mode, the partitioner chooses the storage of gradients too.
    if (variables.contains(i) || !sharding || !sharding->is_tiled() || at(trace.inputs(), i)->is_automatic) continue;
    if (sharding->ndim() == 0 || sharding->tiles(0) == 1) continue;
    if (std::find(out.begin(), out.end(), *sharding) == out.end()) out.push_back(*sharding);
  }
  return out;
}

std::optional<Sharding> gradient_storage(const Node& variable, const std::vector<Sharding>& rows, bool is_stack) {
  if (rows.empty() || (variable.sharding && !variable.sharding->is_tiled())) return variable.sharding;
  Sharding out = variable.sharding.value_or(Sharding::replicated(rows.front().mesh, variable.type.ndim()));
  const std::vector<AxisRef> axes = free_row_axes(out, rows);
  const int dim = axes.empty() ? -1 : dim_to_shard(variable.type, out, axes_size(axes), is_stack);
  if (dim < 0) return variable.sharding;
  auto& dim_axes = at(out.dims, dim).axes;
  dim_axes.insert(dim_axes.end(), axes.begin(), axes.end());
  return out;
}

std::optional<Sharding> unreduced_storage(const TensorImpl& variable, const std::vector<Sharding>& rows) {
  const Node& node = *variable.node;
  if (rows.empty() || (node.sharding && !node.sharding->is_tiled())) return node.sharding;
  Sharding out = variable.unshard ? variable.unshard->gathered
                                  : node.sharding.value_or(Sharding::replicated(rows.front().mesh, node.type.ndim()));
  out.partial = free_row_axes(out, rows);
  std::sort(out.partial.begin(), out.partial.end());
  return out;
}

void set_gradient_storage(TensorImpl& variable, const std::vector<Sharding>& rows) {
  const GradientRules& rules = variable.gradient_rules;
  const auto sharded = gradient_storage(*variable.node, rows, variable.stack_count > 0);
  variable.gradient_storage = rules.shards == UpdateShards::kNone ? variable.node->sharding : sharded;
}

Value lay_out_gradient(Builder& builder, Value gradient, const Sharding& storage, const std::string& name) {
  if (gradient.instruction().frontend_attribute(kBarrierAttribute) == nullptr) {
    const Value stored = ops::sharding_barrier(gradient, storage);
    if (!name.empty())
      builder.set_notes(stored,
                        with_frontend_attribute(stored.instruction().notes, kSubjectAttribute, "gradient of " + name));
    return stored;
  }
  builder.set_sharding(gradient, make_sharding(storage));  // FSDP set its storage before these axes were known
  return gradient;
}

}  // namespace tessera
