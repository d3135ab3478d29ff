// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/sharding/mark_sharding.h"

#include "execution/execute.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/base/rank_context.h"
#include "tessera/ops/control_flow.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

Sharding sharding_for(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec) {
  require(
      mesh.device_count() == device_count(),
      "{0} has {1} devices, but this job has {2}: start {1} ranks (mpirun -np {1}, or --virtual_ranks {1}), or give a "
      "mesh for {2}",
      mesh, mesh.device_count(), device_count());
  Sharding sharding = Sharding::from_spec(mesh, spec, tensor.ndim());
  check_sharding(tensor.type(), sharding);
  return sharding;
}

Sharding checked_sharding(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                          const std::source_location& where) {
  Sharding sharding = in_context("mark_sharding", {&tensor}, where, [&] { return sharding_for(tensor, mesh, spec); });
  if (!session().mesh) session().mesh = mesh;
  return sharding;
}

void check_not_marked_otherwise(const Tensor& tensor, const Sharding& sharding) {
  const auto before = tensor.sharding();
  if (!before || before->is_replicated()) return;
  require(
      same_placement(tensor.type(), *before, sharding),
      "{} is already sharded as {}; clear_sharding() it before marking it as {}", [&] { return what_is(tensor); },
      *before, sharding);
}

// A parameter that is stored sharded and used with fewer axes is gathered, as FSDP gathers it: the mark is an unshard
// without a unit, so that both give the same program.
bool is_gathered_parameter(const Tensor& tensor, const Sharding& sharding) {
  const TensorImpl& variable = tensor.impl();
  const auto& stored = variable.node->sharding;
  if (trace().is_recorded(*variable.node) || variable.unshard || !variable.requires_grad || !stored ||
      !stored->is_tiled())
    return false;
  return sharding.is_tiled() && sharding == sharding.closed() && stored->mesh == sharding.mesh &&
         sharding.used_axes().size() < stored->used_axes().size();
}

Tensor constrained(const Tensor& tensor, const Sharding& sharding, const std::source_location& where, bool gradients) {
  Trace& current = trace();
  Tensor out = current.record(where, [&](Builder& builder) {
    const Value value = current.use(tensor);
    const NotesRef before = builder.default_notes;
    if (!gradients && is_gathered_parameter(tensor, sharding)) {
      builder.default_notes = with_frontend_attribute(before, kUnshardAttribute, "false");
      if (!tensor.name().empty())
        builder.default_notes = with_frontend_attribute(builder.default_notes, kSubjectAttribute, tensor.name());
    }
    if (gradients)
      builder.default_notes = with_frontend_attribute(before, "tessera.gradient_sharding", sdy_sharding_text(sharding));
    const Value marked = ops::sharding_mark(value, sharding);
    builder.default_notes = before;
    return marked;
  });
  if (!out.impl().node->has_data()) out.impl().node->sharding = sharding;
  return out;
}

// Sets the sharding in which a variable or input is stored. Complete data is sharded immediately, without
// communication.
void set_storage(Node& node, const Sharding& sharding) {
  node.is_automatic = false;
  if (node.is_under_way) await_execution();
  const bool is_divided = !node.shard.is_null() && node.sharding && !node.sharding->is_replicated();
  if (is_divided) {  // the same placement: mark_sharding() has checked it
    node.sharding = sharding;
    return;
  }
  if (!node.shard.is_null() && !node.host) {
    node.host = node.shard.to_literal();
    node.shard.reset();
  }
  node.sharding = sharding;
  if (node.host && !is_planning()) device_shard(node);
}

}  // namespace

Tensor mark_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec, std::source_location where) {
  const Sharding sharding = checked_sharding(tensor, mesh, spec, where);
  TensorImpl& variable = tensor.impl();
  in_context("mark_sharding", {&tensor}, where, [&] {
    check_not_marked_otherwise(tensor, sharding);
    require(!variable.has_optimizer_state || variable.node->sharding == std::optional(sharding),
            "{} already has optimizer state; mark shardings before making the optimizer",
            [&] { return what_is(tensor); });
    require(
        trace().is_recorded(*variable.node) || sharding == sharding.closed(),
        "{} is a stored tensor: spec {} must close every dim (\"?\" is only for traced tensors)",
        [&] { return what_is(tensor); }, spec);
  });
  if (trace().is_recorded(*variable.node)) {
    variable.node = constrained(tensor, sharding, where, false).impl().node;
    return tensor;
  }
  set_storage(*variable.node, sharding);
  return tensor;
}

bool shard_complete_value(const Tensor& variable, const Sharding& sharding) {
  Node& node = *variable.impl().node;
  const bool is_complete = node.has_data() && !node.is_abstract && (!node.sharding || node.sharding->is_replicated());
  if (!is_complete) return false;
  set_storage(node, sharding);
  return true;
}

Tensor with_sharding_constraint(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                std::source_location where) {
  return constrained(tensor, checked_sharding(tensor, mesh, spec, where), where, false);
}

Tensor mark_sharding_with_gradients(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                    std::source_location where) {
  return constrained(tensor, checked_sharding(tensor, mesh, spec, where), where, true);
}

void annotate_custom_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec, std::source_location where) {
  const Sharding sharding = checked_sharding(tensor, mesh, spec, where);
  trace().note_assignment(tensor.impl_pointer());
  tensor.impl().node = constrained(tensor, sharding, where, false).impl().node;
}

namespace {

// A mark without a sharding that belongs to a group: propagation gives all marks of the group the same sharding.
Tensor group_member(const Tensor& tensor, std::uint64_t group, const std::source_location& where) {
  return trace().record(where, [&](Builder& builder) {
    const Value value = trace().use(tensor);
    const NotesRef before = builder.default_notes;
    builder.default_notes =
        with_frontend_attribute(before, "tessera.sharding_suffix", fmt::format(" shard_as {}", group));
    Sharding open;
    open.kind = Sharding::Kind::kUnknown;
    open.mesh = default_mesh();
    const Value member = ops::sharding_mark(value, std::move(open));
    builder.default_notes = before;
    return member;
  });
}

}  // namespace

std::pair<Tensor, Tensor> shard_as(const Tensor& a, const Tensor& b, std::source_location where) {
  in_context("shard_as", {&a, &b}, where, [&] {
    require(a.dims() == b.dims(), "tensors of the same sharding need the same dims, got {} and {}", a.type(), b.type());
  });
  const auto group = static_cast<std::uint64_t>(trace().builder().computation().size()) + 1;
  Tensor first = group_member(a, group, where);
  return {std::move(first), group_member(b, group, where)};
}

void clear_sharding(Tensor tensor) {
  TensorImpl& variable = tensor.impl();
  Node& node = *variable.node;
  if (!node.sharding) return;
  if (node.is_deferred() || node.host || node.is_abstract || node.sharding->is_replicated()) {
    node.sharding.reset();
    return;
  }
  const Sharding replicated = Sharding::replicated(node.sharding->mesh, tensor.ndim());
  Trace& current = trace();
  const Value value = current.stored(tensor);
  current.builder().default_notes = current.notes(std::source_location::current());
  variable.node = current.wrap(ops::sharding_mark(value, replicated), {}, variable.name).impl().node;
}

}  // namespace tessera
