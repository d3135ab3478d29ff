// SPDX-License-Identifier: Apache-2.0
// Loops, calls and branches with random bodies, and manual regions with collectives.
#include <algorithm>

#include "random/generator.h"

#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::testing {

// ---- computations ----------------------------------------------------------------------------------------------------

Value Generator::finished(const Type& result) {
  std::vector<Value> fitting;
  for (const Entry& entry : scope_->values)
    if (entry.value.type() == result) fitting.push_back(entry.value);
  const Value last = fitting.empty() ? with_dims(result.dims(), result.dtype()) : fitting.back();
  return result.dtype() == DType::kF32 ? ops::tanh(last) : last;
}

ComputationId Generator::body(const std::string& name, const std::vector<Entry>& parameters, const Type& result) {
  Builder inner = program_.computation(name);
  Scope scope{.builder = &inner, .values = {}, .manual = {}, .is_entry = false};
  Scope* outer = std::exchange(scope_, &scope);
  ++depth_;
  for (int i = 0; i < isize(parameters); ++i) {
    const Value p = ops::parameter(inner, i, at(parameters, i).value.type());
    exact_[&inner][p.id] = at(parameters, i).exact;
    if (dice_.one_in(4)) annotate(p);
    put(p);
  }
  for (auto k = dice_.below(3); k > 0; --k) step();
  const Value root = finished(result);
  --depth_;
  scope_ = outer;
  exact_.erase(&inner);
  return program_.add(std::move(inner), root);
}

Value Generator::called(Value x) {
  const Value y = any_entry()->value;
  const auto callee = body("callee", {{x, is_exact(x)}, {y, is_exact(y)}}, x.type());
  const Value first = ops::call(builder(), {x, y}, callee);
  return dice_.one_in(2) ? first : ops::call(builder(), {first, y}, callee);
}

Value Generator::branches(Value x) {
  const Value y = any_entry()->value;
  const std::vector<ComputationId> callees{body("first", {{x, is_exact(x)}}, x.type()),
                                           body("second", {{y, is_exact(y)}}, x.type())};
  const Value index = drawn_index();
  const Value two = ops::scalar(builder(), DType::kS32, 0);
  if (dice_.one_in(2)) return ops::conditional(ops::compare(index, two, CompareDirection::kGt), {x, y}, callees);
  return ops::conditional(index, {x, y}, callees);
}

// State (iteration, x, w): the body computes a new x and passes w on.
ComputationId Generator::loop_body(const Type& state) {
  Builder inner = program_.computation("body");
  Scope scope{.builder = &inner, .values = {}, .manual = {}, .is_entry = false};
  Scope* outer = std::exchange(scope_, &scope);
  ++depth_;
  const Value p = ops::parameter(inner, 0, state);
  exact_[&inner][p.id] = false;  // the result of earlier iterations
  if (dice_.one_in(4)) annotate(p);
  const Value round = ops::get_tuple_element(p, 0);
  const Value next = ops::add(round, ops::scalar(inner, DType::kS32, 1));
  const Value w = ops::get_tuple_element(p, 2);
  put(ops::get_tuple_element(p, 1));
  put(w);
  for (auto k = 1 + dice_.below(3); k > 0; --k) step();
  const Value made = finished(state.elements()[1]);
  const Value root = ops::tuple(inner, {next, made, w});
  --depth_;
  scope_ = outer;
  exact_.erase(&inner);
  return program_.add(std::move(inner), root);
}

Value Generator::loop(Value x) {
  const Value w = any_entry()->value;
  const Type state = Type::tuple({Type::scalar(DType::kS32), x.type(), w.type()});
  Builder condition = program_.computation("cond");
  const Value p = ops::parameter(condition, 0, state);
  const Value more =
      ops::compare(ops::get_tuple_element(p, 0), ops::scalar(condition, DType::kS32, 3), CompareDirection::kLt);
  const auto condition_id = program_.add(std::move(condition), more);
  const auto body_id = loop_body(state);
  const Value init = ops::tuple(builder(), {ops::scalar(builder(), DType::kS32, 0), x, w});
  return ops::get_tuple_element(ops::while_loop(init, condition_id, body_id), 1);
}

// ---- manual regions --------------------------------------------------------------------------------------------------

namespace {

Sharding manual_sharding(const Mesh& mesh, int ndim, const std::vector<AxisRef>& axes) {
  if (axes_size(axes) == mesh.device_count()) return Sharding::manual_everywhere(mesh);
  Sharding out = Sharding::replicated(mesh, ndim);
  out.manual = axes;
  for (auto& dim : out.dims) dim.open = true;
  return out;
}

}  // namespace

Value Generator::enter_region(Value x, const std::vector<AxisRef>& axes) {
  Sharding placement = Sharding::replicated(shardings_.mesh(), x.type().ndim());
  for (const AxisRef& axis : axes)
    if (x.type().ndim() > 0 && !dice_.one_in(4)) {
      const auto d = dice_.below(x.type().ndim());
      const auto tiles = placement.tiles(static_cast<int>(d)) * axis.size;
      const bool even = x.type().dim(static_cast<int>(d)) % tiles == 0;
      if (even || dice_.one_in(4)) at(placement.dims, d).axes.push_back(axis);
    }
  Dims local;
  for (int d = 0; d < x.type().ndim(); ++d) local.push_back(ceil_div(x.type().dim(d), placement.tiles(d)));
  const bool some = axes_size(axes) != shardings_.mesh().device_count();
  for (auto& dim : placement.dims) dim.open = some;
  const Value marked = ops::sharding_mark(x, placement);
  const Value out = ops::custom_call(builder(), "SPMDFullToShardShape", {marked}, x.type().with_dims(local));
  builder().set_sharding(out, make_sharding(manual_sharding(shardings_.mesh(), x.type().ndim(), axes)));
  exact_[&builder()][out.id] = is_exact(x);
  return out;
}

// Sharded over every axis of the region, so that devices need not have equal values.
Value Generator::leave_region(Value local, const std::vector<AxisRef>& axes) {
  if (local.type().ndim() == 0) local = ops::reshape(local, {1});
  Sharding placement = Sharding::replicated(shardings_.mesh(), local.type().ndim());
  for (const AxisRef& axis : axes) at(placement.dims, dice_.below(local.type().ndim())).axes.push_back(axis);
  Dims global;
  for (int d = 0; d < local.type().ndim(); ++d) global.push_back(local.type().dim(d) * placement.tiles(d));
  const bool some = axes_size(axes) != shardings_.mesh().device_count();
  for (auto& dim : placement.dims) dim.open = some;
  local = ops::custom_call(builder(), "Sharding", {local}, local.type());
  builder().set_sharding(local, make_sharding(manual_sharding(shardings_.mesh(), local.type().ndim(), axes)));
  const Value out = ops::custom_call(builder(), "SPMDShardToFullShape", {local}, local.type().with_dims(global));
  builder().set_sharding(out, make_sharding(placement));
  return out;
}

void Generator::region(const std::vector<AxisRef>& axes, bool featured) {
  Scope inside{.builder = &builder(), .values = {}, .manual = axes, .is_entry = false};
  for (auto k = 1 + dice_.below(2); k > 0; --k) {
    const Value local = enter_region(any_entry()->value, axes);
    inside.values.push_back({local, is_exact(local)});
  }
  Scope* outer = std::exchange(scope_, &inside);
  const Id first = builder().computation().size();
  for (auto k = 1 + dice_.below(3); k > 0; --k) step();
  const auto known = inside.values.size();
  if (featured) feature_inside();
  std::vector<Value> leaving;
  for (auto i = known; i < inside.values.size(); ++i) leaving.push_back(inside.values[i].value);
  leaving.push_back(dice_.pick(inside.values).value);
  mark_collectives(first);
  std::vector<Value> left;
  for (const Value& value : leaving) left.push_back(leave_region(value, axes));
  scope_ = outer;
  for (const Value& value : left) {
    put(value);
    if (featured) featured_.push_back(value);
  }
}

void Generator::annotate_manual(Value value) {
  Shardings leaves;
  for (const Type& leaf : value.type().leaves())
    leaves.push_back(manual_sharding(shardings_.mesh(), leaf.is_array() ? leaf.ndim() : 0, scope_->manual));
  if (!leaves.empty()) value.builder->set_sharding(value, make_shardings(std::move(leaves)));
}

// Inside a region, parameters are those of called computations.
Id Generator::called_parameter() {
  const Value x = scope_->values.front().value;
  Builder inner = program_.computation("inside");
  const Value p = ops::parameter(inner, 0, x.type());
  annotate_manual(p);
  const Value root = ops::reverse(p, {});
  return ops::call(builder(), {x}, program_.add(std::move(inner), root)).id;
}

// As in JAX: without a mark, the region of a collective of constants would be unknown.
void Generator::mark_collectives(Id first) {
  for (auto id = first; id < builder().computation().size(); ++id)
    if (is_regional(*builder()[id].op)) annotate_manual(builder().value(id));
}

void Generator::feature_inside() {
  const OpDef& op = op_table().get(feature_.op);
  const auto first = builder().computation().size();
  Value made;
  if (op.role == Role::kPartitionId)
    made = coordinate();
  else if (is_regional(op))
    made = collective(any_entry()->value, op.name);
  if (made.is_null()) made = builder().value(sampled(op.name));
  for (auto id = first; id < builder().computation().size(); ++id)
    if (builder()[id].op == &op) annotate_manual(builder().value(id));
  put_leaves(is_regional(op) ? made : done(made));
}

// Returns the groups along some axes of the region.
std::vector<std::vector<std::int64_t>> Generator::groups() {
  std::vector<AxisRef> axes;
  for (const AxisRef& axis : scope_->manual)
    if (dice_.one_in(2)) axes.insert(axes.begin() + dice_.below(isize(axes) + 1), axis);
  if (axes.empty()) axes.push_back(dice_.pick(scope_->manual));
  return shardings_.mesh().groups(axes);
}

Value Generator::permuted(Value x) {
  SourceTargetPairs pairs;
  const auto all = groups();
  const auto size = isize(all.front());
  const auto shift = dice_.below(size);
  // The same in all groups, because groups along other axes must not differ.
  const auto left_out = dice_.below(2 * size);
  for (const auto& group : all)
    for (std::int64_t k = 0; k < size; ++k)
      if (k != left_out) pairs.pairs.emplace_back(at(group, k), at(group, (k + shift) % size));
  return ops::collective_permute(x, pairs, next_channel_++);
}

// Looks up the device's coordinate in the region. The result must not depend on other axes.
Value Generator::coordinate() {
  const Mesh& mesh = shardings_.mesh();
  std::vector<std::uint32_t> table;
  for (std::int64_t device = 0; device < mesh.device_count(); ++device)
    table.push_back(static_cast<std::uint32_t>(mesh.coordinate(mesh.position_of(device), scope_->manual)));
  const Value all = ops::constant(builder(), Literal::from<std::uint32_t>({mesh.device_count()}, table));
  return ops::dynamic_slice(all, {ops::partition_id(builder())}, {1});
}

Value Generator::any_collective(Value x) {
  if (dice_.one_in(8)) return coordinate();
  static const std::vector<std::string_view> kOps = {"all-gather",       "reduce-scatter",     "all-reduce",
                                                     "all-to-all",       "collective-permute", "collective-broadcast",
                                                     "ragged-all-to-all"};
  return collective(x, dice_.pick(kOps));
}

// Pads the array so that the size of the group divides it.
Value Generator::collective(Value x, std::string_view op) {
  if (op.ends_with("-start") || op.ends_with("-done")) return in_two_halves(x, op.substr(0, op.rfind('-')));
  if (op == "collective-permute") return permuted(x);
  const ReplicaGroups all{groups()};
  const auto size = isize(all.groups.front());
  if (x.type().ndim() == 0) x = ops::reshape(x, {1});
  const int d = static_cast<int>(dice_.below(x.type().ndim()));
  const auto channel = next_channel_++;
  const bool splits = op == "reduce-scatter" || op == "all-to-all";
  if (splits && x.type().dim(d) % size != 0) {
    std::vector<PaddingDim> padding(static_cast<std::size_t>(x.type().ndim()));
    at(padding, d).high = size - x.type().dim(d) % size;
    x = ops::pad(x, number(x.type().dtype(), 1), padding);
  }
  const DType dtype = x.type().dtype();
  std::vector<Reduction> reductions = {Reduction::kSum, Reduction::kMax, Reduction::kMin};
  if (dtype == DType::kPred) reductions = {Reduction::kAnd, Reduction::kOr};
  if (is_complex(dtype)) reductions = {Reduction::kSum};
  const Reduction reduction = dice_.pick(reductions);
  if (op == "all-gather") return ops::all_gather(x, d, all, channel);
  if (op == "reduce-scatter") return ops::reduce_scatter(x, d, reduction, all, channel);
  if (op == "all-reduce") return ops::all_reduce(x, reduction, all, channel);
  if (op == "all-to-all") return ops::all_to_all(x, d, all, channel);
  CollectiveAttributes attributes;
  attributes.replica_groups = all;
  attributes.channel_id = channel;
  attributes.use_global_device_ids = true;
  if (op == "ragged-all-to-all") return ragged_all_to_all(x, std::move(attributes));
  return builder().emit(op_table().get("collective-broadcast"), {x}, make_attributes(attributes));
}

// Sends rows of the value. Positions may be before the first or after the last row.
Value Generator::ragged_all_to_all(Value x, CollectiveAttributes attributes) {
  const auto members = isize(attributes.replica_groups.groups.front());
  const auto rows = x.type().dim(0);
  std::vector<Value> operands{x, ops::reverse(x, {0})};
  for (int list = 0; list < 4; ++list) {
    std::vector<std::int32_t> numbers;
    for (std::int64_t member = 0; member < members; ++member)
      numbers.push_back(static_cast<std::int32_t>(dice_.below(rows + 3)) - 1);
    operands.push_back(ops::constant(builder(), Literal::from<std::int32_t>({members}, numbers)));
  }
  return builder().emit(op_table().get("ragged-all-to-all"), operands, make_attributes(std::move(attributes)),
                        {.type = x.type()});
}

Value Generator::in_two_halves(Value x, std::string_view op) {
  const Instruction synchronous = collective(x, op).instruction();
  const Value operand = builder().value(synchronous.operands.front());
  const Type type = op == "all-reduce" ? synchronous.type : Type::tuple({operand.type(), synchronous.type});
  const std::string name(op);
  const Value started = builder().emit(op_table().get(name + "-start"), {operand}, synchronous.attributes,
                                       {.type = type, .called = synchronous.called});
  return builder().emit(op_table().get(name + "-done"), {started});
}

}  // namespace tessera::testing
