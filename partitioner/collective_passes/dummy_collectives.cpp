// SPDX-License-Identifier: Apache-2.0
// For debugging FSDP: values of the right shape, without communication, replace collectives with a mark tessera.dummy.
#include <algorithm>

#include "collective_passes/collective_match.h"
#include "localize/device_numbers.h"
#include "localize/localize.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

bool is_replaced(const Computation& computation, const Instruction& collective) {
  if (collective.op->collective == CollectiveKind::kNone || collective.operands.size() != 1) return false;
  const bool is_unshard = collective.frontend_attribute(kUnshardAttribute) != nullptr;
  if (!has_dummy(collective, is_unshard ? kDummyGather : kDummyReduction)) return false;
  return collective.type == computation[collective.operands[0]].type ||
         is_single(collective, CollectiveKind::kAllGather) || is_single(collective, CollectiveKind::kReduceScatter);
}

int dim_of(const Instruction& collective) {
  return static_cast<int>(attributes_as<CollectiveAttributes>(collective.attributes).dimensions.front());
}

// x [.., s, ..] -> [.., n*s, ..], n times the same.
Value repeated(Value x, const Type& type, int dim) {
  Dims split_dims = x.type().dims();
  split_dims.insert(split_dims.begin() + dim, type.dim(dim) / std::max<std::int64_t>(x.type().dim(dim), 1));
  Dims order;
  for (int d = 0; d < isize(split_dims); ++d)
    if (d != dim) order.push_back(d);
  return ops::reshape(ops::broadcast(x, std::move(split_dims), std::move(order)), type.dims());
}

// The part of x that a reduce-scatter gives this device.
Value own_part(const Program& program, Value x, const Instruction& scatter) {
  const int dim = dim_of(scatter);
  DeviceColumn starts(static_cast<std::size_t>(program.num_partitions));
  for (const auto& group : groups_of(program, scatter))
    for (std::int64_t k = 0; k < isize(group); ++k) at(starts, at(group, k)) = k * scatter.type.dim(dim);
  std::vector<Value> indices(static_cast<std::size_t>(x.type().ndim()), number(*x.builder, 0));
  const Mesh devices({{"devices", program.num_partitions}});
  at(indices, dim) = emit_by_device(*x.builder, program.meshes.empty() ? devices : program.meshes.front(), starts);
  return ops::dynamic_slice(x, indices, scatter.type.dims());
}

Value dummy_of(const Program& program, ComputationRewriter& r, const Instruction& collective) {
  const Value x = r.mapped(collective.operands[0]);
  if (x.type() == collective.type) return x;
  const Value out = is_single(collective, CollectiveKind::kAllGather) ? repeated(x, collective.type, dim_of(collective))
                                                                      : own_part(program, x, collective);
  r.builder().set_name(out, collective.name);
  if (const std::string* dims = collective.frontend_attribute(kGlobalDimsAttribute))
    r.builder().set_notes(out, with_frontend_attribute(out.instruction().notes, kGlobalDimsAttribute, *dims));
  r.builder().set_sharding(out, collective.sharding);
  return out;
}

}  // namespace

Program dummy_collectives(const Program& program) {
  const auto touches = [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& i) { return is_replaced(computation, i); });
  };
  if (std::none_of(program.computations.begin(), program.computations.end(),
                   [&](const ComputationRef& computation) { return touches(*computation); }))
    return program;
  return remove_dead_code(rewrite(
      program,
      [&](ComputationRewriter& r, Id id) {
        const Instruction& instruction = r.from()[id];
        return is_replaced(r.from(), instruction) ? dummy_of(program, r, instruction) : Value{};
      },
      touches));
}

}  // namespace tessera
