// SPDX-License-Identifier: Apache-2.0
// Collectives of a per-device program. Their evaluation sees the operands of all devices at once. Members of a group are ordered:
// member k gives or takes part k; reductions run in member order. Several operands travel together and give a tuple.
//
//   %g = f32[8,64] all-gather(f32[2,64] %x), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}
//   %p = f32[2,64] collective-permute(f32[2,64] %x), channel_id=2, source_target_pairs={{0,1},{1,0}}
#include "tessera/ops/collectives.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "row_support.h"
#include "rows.h"
#include "tessera/ops/contraction.h"

namespace tessera {
namespace rows {
namespace {

using Group = std::vector<std::int64_t>;

const CollectiveAttributes& collective(const OpView& view) { return view.as<CollectiveAttributes>(); }

// ---- groups -------------------------------------------------------------------------------------------------------------------

// Without use_global_device_ids but with a channel, ids are replicas, each standing for all its partitions: with one replica
// that is everyone.
bool names_one_replica(const CollectiveAttributes& a) {
  return a.channel_id != 0 && !a.use_global_device_ids && a.replica_groups.groups == std::vector<Group>{{0}};
}

std::vector<Group> groups_of(const CollectiveContext& context) {
  const auto& a = collective(context.view);
  const auto devices = static_cast<std::int64_t>(context.operands.size());
  if (a.replica_groups.groups.empty() || names_one_replica(a)) {
    Group all(static_cast<std::size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  std::vector<bool> seen(context.operands.size(), false);
  for (const auto& group : a.replica_groups.groups)
    for (const auto device : group) {
      require(device >= 0 && device < devices, "replica_groups name device {}; there are {}", device, devices);
      at(seen, device) = true;
    }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  require(missing == seen.end() || context.view.op.name == "collective-broadcast", "device {} is in no group of {}",
          missing - seen.begin(), field_text(a.replica_groups));
  return a.replica_groups.groups;
}

// The size of the groups; nothing when the text does not tell.
std::optional<std::int64_t> group_size(const CollectiveAttributes& a) {
  const auto& groups = a.replica_groups.groups;
  if (groups.empty() || names_one_replica(a)) return std::nullopt;
  for (const auto& group : groups)
    require(group.size() == groups[0].size(), "groups differ in size: {}", field_text(a.replica_groups));
  return static_cast<std::int64_t>(groups[0].size());
}

// ---- infer ----------------------------------------------------------------------------------------------------------------------

int only_dim(const OpView& view) {
  const Dims& dims = collective(view).dimensions;
  require(dims.size() == 1, "dimensions must name one dim, got {}", field_text(dims));
  return static_cast<int>(dims[0]);
}

Type one_or_tuple(std::vector<Type> types) { return types.size() == 1 ? types.front() : Type::tuple(std::move(types)); }

// The declared type of result i, or null.
const Type* declared(const OpView& view, int i) {
  if (view.operands.size() == 1) return view.result.is_array() ? &view.result : nullptr;
  const bool has = view.result.is_tuple() && view.result.elements().size() == view.operands.size();
  return has ? &at(view.result.elements(), i) : nullptr;
}

// The size of dim `dim` in the result, where `factor` of large and small is the group size.
std::int64_t factor_of(const OpView& view, int i, int dim, bool grows) {
  const Type& x = array_operand(view, i);
  check_dim(dim, x.ndim(), "dimension");
  const auto known = group_size(collective(view));
  const Type* type = declared(view, i);
  if (type == nullptr || !type->is_array() || type->ndim() != x.ndim()) {
    require(known.has_value(), "the result type must be declared when replica_groups do not tell the group size");
    return *known;
  }
  const std::int64_t large = grows ? type->dim(dim) : x.dim(dim);
  const std::int64_t small = grows ? x.dim(dim) : type->dim(dim);
  if (small == 0) return known.value_or(1);
  require(large % small == 0, "dim {} of {} and {} is not a multiple", dim, x.str(), type->str());
  require(!known || large / small == *known, "dim {} of {} and {} differ by a factor {}, but groups have {} devices", dim, x.str(),
          type->str(), large / small, *known);
  return large / small;
}

Type infer_all_gather(const OpView& view) {
  const int dim = only_dim(view);
  std::vector<Type> out;
  for (int i = 0; i < isize(view.operands); ++i) {
    Dims dims = array_operand(view, i).dims();
    const std::int64_t factor = factor_of(view, i, dim, true);
    at(dims, dim) *= factor;
    out.push_back(Type::array(at(view.operands, i).dtype(), std::move(dims)));
  }
  return declared_or(view, one_or_tuple(std::move(out)));
}

void check_reducer(const OpView& view) {
  require(view.called.size() == 1, "needs one computation, got {}", view.called.size());
  require(view.called[0]->parameters.size() == 2, "the reducer %{} must take 2 parameters, takes {}", view.called[0]->name,
          view.called[0]->parameters.size());
}

Type infer_reduce_scatter(const OpView& view) {
  check_reducer(view);
  const int dim = only_dim(view);
  std::vector<Type> out;
  for (int i = 0; i < isize(view.operands); ++i) {
    Dims dims = array_operand(view, i).dims();
    const std::int64_t factor = factor_of(view, i, dim, false);
    require(factor > 0 && at(dims, dim) % factor == 0, "dim {} is {}, which does not split into {} parts", dim, at(dims, dim),
            factor);
    at(dims, dim) /= factor;
    out.push_back(Type::array(at(view.operands, i).dtype(), std::move(dims)));
  }
  return declared_or(view, one_or_tuple(std::move(out)));
}

Type infer_same(const OpView& view) { return declared_or(view, one_or_tuple(view.operands)); }

Type infer_all_reduce(const OpView& view) {
  check_reducer(view);
  for (int i = 0; i < isize(view.operands); ++i) array_operand(view, i);
  return infer_same(view);
}

Type infer_all_to_all(const OpView& view) {
  const auto size = group_size(collective(view));
  if (!collective(view).dimensions.empty()) {
    require(view.operands.size() == 1, "takes 1 operand with dimensions, got {}", view.operands.size());
    const Type& x = array_operand(view, 0);
    const int dim = only_dim(view);
    check_dim(dim, x.ndim(), "dimension");
    require(!size || x.dim(dim) % *size == 0, "dim {} is {}, which does not split into {} parts", dim, x.dim(dim), size.value_or(1));
    return declared_or(view, x);
  }
  require(!size || *size == isize(view.operands), "takes one operand per device of a group: {} operands, groups of {}",
          view.operands.size(), size.value_or(1));
  for (const Type& operand : view.operands)
    require(operand == view.operands[0], "operands differ: {} and {}", view.operands[0].str(), operand.str());
  return declared_or(view, Type::tuple(view.operands));  // a tuple even of one
}

// ---- evaluation -----------------------------------------------------------------------------------------------------------------

Type result_type(const OpView& view, std::size_t i) {
  return view.result.is_tuple() ? view.result.elements()[i] : view.result;
}

Literal combined(const CollectiveContext& context, const Literal& a, const Literal& b) {
  Literal out(a.type());
  Literal left(Type::scalar(a.type().dtype()));
  Literal right = left;
  for (std::int64_t i = 0; i < a.type().element_count(); ++i) {
    strided_copy(a, {i, {}}, left, {0, {}}, {});
    strided_copy(b, {i, {}}, right, {0, {}}, {});
    strided_copy(context.call(0, {left, right}), {0, {}}, out, {i, {}}, {});
  }
  return out;
}

// Sums of numbers without a call per element.
Literal reduced_pair(const CollectiveContext& context, const Literal& a, const Literal& b, bool is_sum) {
  if (!is_sum) return combined(context, a, b);
  Literal out = a;
  visit_dtype(a.type().dtype(), [&]<class T>() {
    const auto addends = b.data<T>();
    auto sums = out.mutable_data<T>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) sums[i] += addends[i];
      else if constexpr (is_float(kDTypeOf<T>)) sums[i] = T(static_cast<float>(sums[i]) + static_cast<float>(addends[i]));
      else if constexpr (is_integer(kDTypeOf<T>))
        sums[i] = static_cast<T>(static_cast<std::uint64_t>(sums[i]) + static_cast<std::uint64_t>(addends[i]));
    }
  });
  return out;
}

Literal reduced(const CollectiveContext& context, const Group& group, std::size_t operand) {
  const auto reduction = reduction_of(*context.view.called[0]);
  Literal out = at(context.operands, group[0])[operand];
  const bool is_sum = reduction == Reduction::kSum && out.type().dtype() != DType::kPred;
  for (std::size_t k = 1; k < group.size(); ++k)
    out = reduced_pair(context, out, at(context.operands, group[k])[operand], is_sum);
  return out;
}

// Copies `part`, of part k of `parts` along dim, into or out of the whole.
Literal part_of(const Literal& whole, int dim, std::int64_t part, std::int64_t parts) {
  Dims dims = whole.type().dims();
  const Dims strides = row_major_strides(dims);
  at(dims, dim) /= parts;
  Literal out(Type::array(whole.type().dtype(), dims));
  strided_copy(whole, {part * at(dims, dim) * at(strides, dim), strides}, out, {0, row_major_strides(dims)}, dims);
  return out;
}
void put_part(Literal& whole, const Literal& part, int dim, std::int64_t start) {
  const Dims strides = row_major_strides(whole.type().dims());
  const Dims& dims = part.type().dims();
  strided_copy(part, {0, row_major_strides(dims)}, whole, {start * at(strides, dim), strides}, dims);
}

// f(group, member, operand) gives the result of each member for each operand.
template <class F>
std::vector<Literal> for_each_member(const CollectiveContext& context, F&& f) {
  std::vector<Literal> results(context.operands.size());
  const std::size_t count = context.view.operands.size();
  for (const Group& group : groups_of(context))
    for (std::size_t member = 0; member < group.size(); ++member) {
      std::vector<Literal> parts;
      for (std::size_t i = 0; i < count; ++i) parts.push_back(f(group, static_cast<std::int64_t>(member), i));
      at(results, group[member]) = count == 1 ? parts[0] : Literal::tuple(std::move(parts));
    }
  return results;
}

std::vector<Literal> evaluate_all_gather(const CollectiveContext& context) {
  const int dim = only_dim(context.view);
  return for_each_member(context, [&](const Group& group, std::int64_t, std::size_t i) {
    Literal out(result_type(context.view, i));
    const std::int64_t size = context.view.operands[i].dim(dim);
    require(size * static_cast<std::int64_t>(group.size()) == out.type().dim(dim), "{} gathered from {} devices is not {}",
            context.view.operands[i].str(), group.size(), out.type().str());
    for (std::size_t k = 0; k < group.size(); ++k)
      put_part(out, at(context.operands, group[k])[i], dim, static_cast<std::int64_t>(k) * size);
    return out;
  });
}

// Every member of a group gets the same bits, computed once.
std::vector<Literal> evaluate_all_reduce(const CollectiveContext& context) {
  std::vector<Literal> sums(context.view.operands.size());
  return for_each_member(context, [&](const Group& group, std::int64_t member, std::size_t i) {
    if (member == 0) sums[i] = reduced(context, group, i);
    return sums[i];
  });
}

std::vector<Literal> evaluate_reduce_scatter(const CollectiveContext& context) {
  const int dim = only_dim(context.view);
  std::vector<Literal> sums(context.view.operands.size());
  return for_each_member(context, [&](const Group& group, std::int64_t member, std::size_t i) {
    if (member == 0) sums[i] = reduced(context, group, i);
    return part_of(sums[i], dim, member, static_cast<std::int64_t>(group.size()));
  });
}

std::vector<Literal> evaluate_all_to_all(const CollectiveContext& context) {
  const Dims& dimensions = collective(context.view).dimensions;
  if (!dimensions.empty()) {
    const auto dim = static_cast<int>(dimensions[0]);
    return for_each_member(context, [&](const Group& group, std::int64_t member, std::size_t i) {
      Literal out(context.view.operands[i]);
      const auto parts = static_cast<std::int64_t>(group.size());
      require(out.type().dim(dim) % parts == 0, "dim {} of {} does not split into {} parts", dim, out.type().str(), parts);
      for (std::int64_t k = 0; k < parts; ++k)
        put_part(out, part_of(at(context.operands, at(group, k))[i], dim, member, parts), dim, k * (out.type().dim(dim) / parts));
      return out;
    });
  }
  std::vector<Literal> results(context.operands.size());
  for (const Group& group : groups_of(context)) {
    require(group.size() == context.view.operands.size(), "{} operands for groups of {}", context.view.operands.size(), group.size());
    for (std::size_t member = 0; member < group.size(); ++member) {
      std::vector<Literal> received;
      for (const auto sender : group) received.push_back(at(context.operands, sender)[member]);
      at(results, group[member]) = Literal::tuple(std::move(received));
    }
  }
  return results;
}

std::vector<Literal> evaluate_collective_permute(const CollectiveContext& context) {
  const auto& pairs = context.view.as<PermuteAttributes>().source_target_pairs.pairs;
  const auto devices = static_cast<std::int64_t>(context.operands.size());
  std::vector<Literal> results(context.operands.size(), Literal(context.view.operands[0]));
  for (const auto& [source, target] : pairs) {
    require(source >= 0 && source < devices && target >= 0 && target < devices,
            "source_target_pairs name {{{},{}}}; there are {} devices", source, target, devices);
    at(results, target) = at(context.operands, source)[0];
  }
  return results;
}

std::vector<Literal> evaluate_collective_broadcast(const CollectiveContext& context) {
  std::vector<Literal> results(context.operands.size(), Literal(context.view.operands[0]));
  for (const Group& group : groups_of(context))
    for (const auto device : group) at(results, device) = at(context.operands, group[0])[0];
  return results;
}

OpDef collective_row(std::string_view name) {
  OpDef row;
  row.name = name;
  row.min_operands = 1;
  row.max_operands = -1;
  row.role = Role::kCollective;
  row.parse = parse_attributes<CollectiveAttributes>;
  row.type_inferable = false;
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

OpDef permute_row() {
  OpDef row = with(collective_row("collective-permute"), infer_same, evaluate_collective_permute);
  row.max_operands = 1;
  row.parse = parse_attributes<PermuteAttributes>;
  return row;
}
OpDef broadcast_row() {
  OpDef row = with(collective_row("collective-broadcast"), infer_same, evaluate_collective_broadcast);
  row.max_operands = 1;
  return row;
}

}  // namespace

const OpDef kAllGather = with(collective_row("all-gather"), infer_all_gather, evaluate_all_gather);
const OpDef kReduceScatter =
    with(collective_row("reduce-scatter"), infer_reduce_scatter, evaluate_reduce_scatter, {"to_apply"});
const OpDef kAllReduce = with(collective_row("all-reduce"), infer_all_reduce, evaluate_all_reduce, {"to_apply"});
const OpDef kAllToAll = with(collective_row("all-to-all"), infer_all_to_all, evaluate_all_to_all);
const OpDef kCollectivePermute = permute_row();
const OpDef kCollectiveBroadcast = broadcast_row();

}  // namespace rows

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

// Groups that name no device mean all: their number is the program's.
std::int64_t size_of_groups(Value x, const ReplicaGroups& groups) {
  if (!groups.groups.empty()) return static_cast<std::int64_t>(groups.groups.front().size());
  return x.builder->program().program().num_partitions;
}

}  // namespace

Value all_gather(Value x, int dim, ReplicaGroups groups, std::int64_t channel_id) {
  Dims dims = x.type().dims();
  at(dims, dim) *= size_of_groups(x, groups);
  const Type type = Type::array(x.type().dtype(), std::move(dims));
  return x.builder->emit(rows::kAllGather, {x}, attributes_of(std::move(groups), channel_id, {dim}), {.type = type});
}

Value reduce_scatter(Value x, int dim, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id) {
  Dims dims = x.type().dims();
  const std::int64_t parts = size_of_groups(x, groups);
  require(at(dims, dim) % parts == 0, "reduce-scatter: dim {} is {}, which does not split into {} parts", dim, at(dims, dim), parts);
  at(dims, dim) /= parts;
  const Type type = Type::array(x.type().dtype(), std::move(dims));
  const ComputationId reducer = reduction_computation(x.builder->program(), reduction, type.dtype());
  return x.builder->emit(rows::kReduceScatter, {x}, attributes_of(std::move(groups), channel_id, {dim}),
                         {.type = type, .called = {reducer}});
}

Value all_reduce(Value x, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id) {
  const ComputationId reducer = reduction_computation(x.builder->program(), reduction, x.type().dtype());
  return x.builder->emit(rows::kAllReduce, {x}, attributes_of(std::move(groups), channel_id, {}), {.called = {reducer}});
}

Value all_to_all(Value x, int split_dim, ReplicaGroups groups, std::int64_t channel_id) {
  CollectiveAttributes attributes;
  attributes.channel_id = channel_id;
  attributes.replica_groups = std::move(groups);
  attributes.dimensions = {split_dim};
  return x.builder->emit(rows::kAllToAll, {x}, make_attributes(std::move(attributes)));
}

Value collective_permute(Value x, SourceTargetPairs pairs, std::int64_t channel_id) {
  return x.builder->emit(rows::kCollectivePermute, {x}, make_attributes(PermuteAttributes{channel_id, std::move(pairs)}));
}

}  // namespace ops
}  // namespace tessera
