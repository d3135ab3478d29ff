// SPDX-License-Identifier: Apache-2.0
// Collectives of a per-device program. Their evaluation has the operands of all devices. Members of a group are
// ordered: member k gives or receives part k, and reductions proceed in member order. Several operands are exchanged
// together and give a tuple.
//
//   %g = f32[8,64] all-gather(f32[2,64] %x), channel_id=1, replica_groups=[1,4]<=[4],
//     use_global_device_ids=true, dimensions={0}
//   %p = f32[2,64] collective-permute(f32[2,64] %x), channel_id=2, source_target_pairs={{0,1},{1,0}}
#include "tessera/ops/collectives.h"

#include <algorithm>
#include <optional>

#include "collective_evaluation.h"
#include "collective_gradients.h"
#include "row_support.h"
#include "tessera/base/checked.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

// The size of the groups; nullopt if the text does not specify it: replicas may have several partitions.
std::optional<std::int64_t> group_size(const CollectiveAttributes& a) {
  const auto& groups = a.replica_groups.groups;
  const bool lists_replicas = a.channel_id != 0 && !a.use_global_device_ids;
  if (groups.empty() || lists_replicas) return std::nullopt;
  for (const auto& group : groups)
    require(group.size() == groups[0].size(), "groups differ in size: {}",
            [&] { return field_text(a.replica_groups); });
  return static_cast<std::int64_t>(groups[0].size());
}

// ---- infer ---------------------------------------------------------------------------------------------------------

Type one_or_tuple(std::vector<Type> types) { return types.size() == 1 ? types.front() : Type::tuple(std::move(types)); }

// The declared type of result i, or null.
const Type* declared(const OpView& view, int i) {
  if (view.operands.size() == 1) return view.result.is_array() ? &view.result : nullptr;
  const bool has = view.result.is_tuple() && view.result.elements().size() == view.operands.size();
  return has ? &at(view.result.elements(), i) : nullptr;
}

// The size of dim `dim` in the result. The ratio of the larger to the smaller size is the group size.
std::int64_t factor_of(const OpView& view, int i, int dim, bool grows) {
  const Type& x = array_operand(view, i);
  check_dim(dim, x.ndim(), "dimension");
  const auto known = group_size(collective(view));
  const Type* type = declared(view, i);
  if (type == nullptr || !type->is_array() || type->ndim() != x.ndim()) {
    require(known.has_value(), "the result type must be declared if replica_groups do not specify the group size");
    return *known;
  }
  const std::int64_t large = grows ? type->dim(dim) : x.dim(dim);
  const std::int64_t small = grows ? x.dim(dim) : type->dim(dim);
  if (small == 0) return known.value_or(1);
  require(large % small == 0, "dim {} of {} and {} is not a multiple", dim, x, *type);
  require(!known || large / small == *known, "dim {} of {} and {} differ by a factor {}, but groups have {} devices",
          dim, x, *type, large / small, known.value_or(0));
  return large / small;
}

std::int64_t gathered_size(std::int64_t size, int dim, std::int64_t members) {
  const Checked all = Checked(size) * members;
  require(all.fits(), "dim {}: {} elements from each of {} devices are more than 64 bits can count", dim, size,
          members);
  return all.value();
}

Type infer_all_gather(const OpView& view) {
  const int dim = only_dim(view);
  std::vector<Type> out;
  for (int i = 0; i < isize(view.operands); ++i) {
    Dims dims = array_operand(view, i).dims();
    const std::int64_t factor = factor_of(view, i, dim, true);
    at(dims, dim) = gathered_size(at(dims, dim), dim, factor);
    out.push_back(Type::array(at(view.operands, i).dtype(), std::move(dims)));
  }
  return declared_or(view, one_or_tuple(std::move(out)));
}

bool are_of_one_class(DType a, DType b) {
  return a == b || (is_float(a) && is_float(b)) || (is_integer(a) && is_integer(b));
}

// Two scalars in, one out. XLA uses one reducer for several widths of a type, so only its reduction matters.
void check_reducer(const OpView& view) {
  require(view.called.size() == 1, "needs one computation, got {}", view.called.size());
  const Computation& reducer = *view.called[0];
  require(reducer.parameters.size() == 2, "the reducer %{} must take 2 parameters, takes {}", reducer.name,
          reducer.parameters.size());
  const Type& type = reducer.root_type();
  require(type.is_array() && type.ndim() == 0, "the reducer %{} must return a scalar, returns {}", reducer.name, type);
  for (const Type& parameter : reducer.parameter_types())
    require(parameter == type, "the reducer %{} takes {} and returns {}; they must be the same", reducer.name,
            parameter, type);
  for (int i = 0; i < isize(view.operands); ++i)
    require(are_of_one_class(array_operand(view, i).dtype(), type.dtype()),
            "the reducer %{} is for {}, operand {} is {}", reducer.name, type, i, at(view.operands, i));
}

Type infer_reduce_scatter(const OpView& view) {
  check_reducer(view);
  const int dim = only_dim(view);
  std::vector<Type> out;
  for (int i = 0; i < isize(view.operands); ++i) {
    Dims dims = array_operand(view, i).dims();
    const std::int64_t factor = factor_of(view, i, dim, false);
    require(factor > 0 && at(dims, dim) % factor == 0, "dim {} is {}, which is not a multiple of {}", dim,
            at(dims, dim), factor);
    at(dims, dim) /= factor;
    out.push_back(Type::array(at(view.operands, i).dtype(), std::move(dims)));
  }
  return declared_or(view, one_or_tuple(std::move(out)));
}

Type infer_same(const OpView& view) {
  for (int i = 0; i < isize(view.operands); ++i) array_operand(view, i);
  return declared_or(view, one_or_tuple(view.operands));
}

Type infer_all_reduce(const OpView& view) {
  check_reducer(view);
  return infer_same(view);
}

Type infer_all_to_all(const OpView& view) {
  const auto size = group_size(collective(view));
  if (!collective(view).dimensions.empty()) {
    require(view.operands.size() == 1, "takes 1 operand with dimensions, got {}", view.operands.size());
    const Type& x = array_operand(view, 0);
    const int dim = only_dim(view);
    check_dim(dim, x.ndim(), "dimension");
    require(!size || x.dim(dim) % *size == 0, "dim {} is {}, which is not a multiple of {}", dim, x.dim(dim),
            size.value_or(1));
    return declared_or(view, x);
  }
  require(!size || *size == isize(view.operands), "takes one operand per device of a group: {} operands, groups of {}",
          view.operands.size(), size.value_or(1));
  for (const Type& operand : view.operands)
    require(operand == view.operands[0], "operands differ: {} and {}", view.operands[0], operand);
  return declared_or(view, Type::tuple(view.operands));  // even a single element gives a tuple
}

// In manual regions, other axes may shard the dims along which no data is exchanged.
FactorMap factors_collectives(const OpView& view) {
  FactorMap map;
  const bool permutes = view.op.collective == CollectiveKind::kPermute;
  const Dims none;
  const Dims& moved = permutes ? none : collective(view).dimensions;
  const auto results = view.result.leaves();
  for (int i = 0; i < isize(view.operands); ++i) {
    const Type& x = at(view.operands, i);
    TensorFactors operand = add_factors(map, x);
    TensorFactors result = operand;
    for (const auto d : moved) {
      at(map.factors, at(operand, d).front()).kind = FactorKind::kBlocked;
      at(result, d) = {map.add(at(results, i).dim(static_cast<int>(d)), FactorKind::kBlocked)};
    }
    map.operands.push_back(std::move(operand));
    if (isize(map.results) < isize(results)) map.results.push_back(std::move(result));
  }
  // Parts that are exchanged must have equal shardings.
  if (view.op.collective == CollectiveKind::kAllToAll && moved.empty()) {
    map.operands.assign(map.operands.size(), map.operands.front());
    map.results = map.operands;
  }
  return map;
}

// ---- bytes that a device of a group receives ------------------------------------------------------------------------

std::int64_t received_by_all_gather(std::int64_t, std::int64_t result, std::int64_t group) {
  return result / group * (group - 1);
}
std::int64_t received_by_all_reduce(std::int64_t operand, std::int64_t, std::int64_t group) {
  return 2 * operand -
         ceil_div(2 * operand, group);  // as a reduce-scatter and an all-gather: 2 (group - 1) / group of the operand
}
std::int64_t received_as_parts(std::int64_t operand, std::int64_t, std::int64_t group) {
  return operand / group * (group - 1);
}
std::int64_t received_as_operand(std::int64_t operand, std::int64_t, std::int64_t) { return operand; }

OpDef collective_row(std::string_view name, CollectiveKind kind, BytesReceived bytes_received) {
  OpDef row;
  row.name = name;
  row.collective = kind;
  row.bytes_received = bytes_received;
  row.exchanges_each_operand = true;
  row.min_operands = 1;
  row.max_operands = -1;
  row.role = Role::kCollective;
  row.listed_devices = listed_devices;
  row.parse = parse_attributes<CollectiveAttributes>;
  row.type_inferable = false;
  row.factors = factors_collectives;
  row.localize = localize_declared;
  row.flops = no_flops;
  return row;
}

OpDef with(OpDef row, Type (*infer)(const OpView&), std::vector<Literal> (*evaluate)(const CollectiveContext&),
           std::vector<std::string_view> called = {}) {
  row.infer = infer;
  row.evaluate_collective = evaluate;
  row.called = std::move(called);
  return row;
}

OpDef differentiated(OpDef row, std::vector<Value> (*gradient)(GradientContext&)) {
  row.gradient_kind = GradientKind::kFunction;
  row.gradient = gradient;
  return row;
}

OpDef all_gather_row() {
  OpDef row = with(collective_row("all-gather", CollectiveKind::kAllGather, received_by_all_gather), infer_all_gather,
                   evaluate_all_gather);
  row.materializes = true;
  return row;
}
OpDef all_reduce_row() {
  OpDef row = with(collective_row("all-reduce", CollectiveKind::kAllReduce, received_by_all_reduce), infer_all_reduce,
                   evaluate_all_reduce, {"to_apply"});
  row.chunkable = true;
  return row;
}
OpDef all_to_all_row() {
  OpDef row = with(collective_row("all-to-all", CollectiveKind::kAllToAll, received_as_parts), infer_all_to_all,
                   evaluate_all_to_all);
  row.exchanges_each_operand = false;
  return row;
}
OpDef permute_row() {
  OpDef row = with(collective_row("collective-permute", CollectiveKind::kPermute, received_as_operand), infer_same,
                   evaluate_collective_permute);
  row.parse = parse_attributes<PermuteAttributes>;
  return row;
}
OpDef broadcast_row() {
  OpDef row = with(collective_row("collective-broadcast", CollectiveKind::kBroadcast, received_as_operand), infer_same,
                   evaluate_collective_broadcast);
  row.max_operands = 1;
  row.exchanges_each_operand = false;
  return row;
}

Type infer_ragged_all_to_all(const OpView& view) {
  const Type& input = array_operand(view, 0);
  const Type& output = array_operand(view, 1);
  require(input.ndim() >= 1 && input.dtype() == output.dtype() && output.ndim() == input.ndim() &&
              std::equal(input.dims().begin() + 1, input.dims().end(), output.dims().begin() + 1),
          "rows of {} do not fit into {}", input, output);
  const auto members = group_size(collective(view));
  for (int i = 2; i < 6; ++i) {
    const Type& list = array_operand(view, i);
    require(is_integer(list.dtype()) && list.ndim() == 1 && (!members || list.dim(0) == *members),
            "operand {} must have an integer for each member of the group, got {}", i, list);
  }
  return declared_or(view, output);
}
// %y = f32[8,3] ragged-all-to-all(%rows, %room, %first, %count, %place, %received), replica_groups={{0,1}}
OpDef ragged_row() {
  OpDef row = with(collective_row("ragged-all-to-all", CollectiveKind::kRaggedAllToAll, received_as_parts),
                   infer_ragged_all_to_all, evaluate_ragged_all_to_all);
  row.min_operands = row.max_operands = 6;
  row.data_operands = 1;
  row.factors = nullptr;
  row.exchanges_each_operand = false;
  return row;
}

}  // namespace

const OpDef kRaggedAllToAll = ragged_row();
const OpDef kAllGather = differentiated(all_gather_row(), all_gather_gradient);
const OpDef kReduceScatter =
    differentiated(with(collective_row("reduce-scatter", CollectiveKind::kReduceScatter, received_as_parts),
                        infer_reduce_scatter, evaluate_reduce_scatter, {"to_apply"}),
                   reduce_scatter_gradient);
const OpDef kAllReduce = differentiated(all_reduce_row(), all_reduce_gradient);
const OpDef kAllToAll = differentiated(all_to_all_row(), all_to_all_gradient);
const OpDef kCollectivePermute = differentiated(permute_row(), permute_gradient);
const OpDef kCollectiveBroadcast = broadcast_row();

}  // namespace rows

ListedDevices listed_devices(const Attributes& attributes) {
  if (const auto* permute = dynamic_cast<const AttributesOf<PermuteAttributes>*>(attributes.get())) {
    ListedDevices out{"source_target_pairs", {}};
    for (const auto& [source, target] : permute->value.source_target_pairs.pairs) {
      out.devices.push_back(source);
      out.devices.push_back(target);
    }
    return out;
  }
  ListedDevices out{"replica_groups", {}};
  for (const auto& group : attributes_as<CollectiveAttributes>(attributes).replica_groups.groups)
    out.devices.insert(out.devices.end(), group.begin(), group.end());
  return out;
}

std::int64_t collective_group_size(const Instruction& instruction, std::int64_t devices) {
  const auto& groups = attributes_as<CollectiveAttributes>(instruction.attributes).replica_groups.groups;
  return groups.empty() || groups.front().empty() ? devices : isize(groups.front());
}

std::int64_t bytes_received(const Instruction& instruction, std::int64_t operand, std::int64_t result,
                            std::int64_t devices) {
  ensure(instruction.op->bytes_received != nullptr, "{} has no cost in bytes", instruction.op->name);
  const bool is_permute = instruction.op->collective == CollectiveKind::kPermute;
  const std::int64_t group = is_permute ? 2 : collective_group_size(instruction, devices);
  return group <= 1 ? 0 : instruction.op->bytes_received(operand, result, group);
}

Attributes with_channel(const Attributes& attributes, std::int64_t channel_id) {
  if (const auto* permute = dynamic_cast<const AttributesOf<PermuteAttributes>*>(attributes.get())) {
    PermuteAttributes out = permute->value;
    out.channel_id = out.channel_id == 0 ? 0 : channel_id;
    return make_attributes(std::move(out));
  }
  CollectiveAttributes out = attributes_as<CollectiveAttributes>(attributes);
  out.channel_id = out.channel_id == 0 ? 0 : channel_id;
  return make_attributes(std::move(out));
}

namespace ops {
namespace {

Attributes attributes_of(ReplicaGroups groups, std::int64_t channel_id, Dims dimensions) {
  CollectiveAttributes out;
  out.channel_id = channel_id;
  out.replica_groups = std::move(groups);
  out.use_global_device_ids = channel_id != 0;
  out.dimensions = std::move(dimensions);
  return make_attributes(std::move(out));
}

// Groups without devices mean all devices of the program.
std::int64_t size_of_groups(Value x, const ReplicaGroups& groups) {
  if (!groups.groups.empty()) return static_cast<std::int64_t>(groups.groups.front().size());
  return x.builder->program().program().num_partitions;
}

}  // namespace

Value all_gather(Value x, int dim, ReplicaGroups groups, std::int64_t channel_id) {
  Dims dims = x.type().dims();
  at(dims, dim) = rows::gathered_size(at(dims, dim), dim, size_of_groups(x, groups));
  const Type type = Type::array(x.type().dtype(), std::move(dims));
  return x.builder->emit(rows::kAllGather, {x}, attributes_of(std::move(groups), channel_id, {dim}), {.type = type});
}

Value reduce_scatter(Value x, int dim, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id) {
  Dims dims = x.type().dims();
  const std::int64_t parts = size_of_groups(x, groups);
  require(at(dims, dim) % parts == 0, "reduce-scatter: dim {} is {}, which is not a multiple of {}", dim, at(dims, dim),
          parts);
  at(dims, dim) /= parts;
  const Type type = Type::array(x.type().dtype(), std::move(dims));
  const ComputationId reducer = reduction_computation(x.builder->program(), reduction, type.dtype());
  return x.builder->emit(rows::kReduceScatter, {x}, attributes_of(std::move(groups), channel_id, {dim}),
                         {.type = type, .called = {reducer}});
}

Value all_reduce(Value x, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id) {
  const ComputationId reducer = reduction_computation(x.builder->program(), reduction, x.type().dtype());
  return x.builder->emit(rows::kAllReduce, {x}, attributes_of(std::move(groups), channel_id, {}),
                         {.called = {reducer}});
}

Value all_to_all(Value x, int split_dim, ReplicaGroups groups, std::int64_t channel_id) {
  CollectiveAttributes attributes;
  attributes.channel_id = channel_id;
  attributes.replica_groups = std::move(groups);
  attributes.dimensions = {split_dim};
  return x.builder->emit(rows::kAllToAll, {x}, make_attributes(std::move(attributes)));
}

Value collective_permute(Value x, SourceTargetPairs pairs, std::int64_t channel_id) {
  return x.builder->emit(rows::kCollectivePermute, {x},
                         make_attributes(PermuteAttributes{channel_id, std::move(pairs)}));
}

}  // namespace ops
}  // namespace tessera
