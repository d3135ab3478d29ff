// SPDX-License-Identifier: Apache-2.0
#include "random/generator.h"

#include <algorithm>
#include <set>

#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kMostElements = 1500;

}  // namespace

Generator::Generator(std::uint64_t seed, const Feature& feature, int steps)
    : dice_(hash_mix(seed, 71)),
      feature_(feature),
      steps_(steps >= 0 ? steps : 2 + static_cast<int>(dice_.below(7))),
      shardings_(dice_, feature.kind),
      program_(fmt::format("random_{}", seed)),
      main_(program_.computation("main")) {
  program_.program().num_partitions = shardings_.mesh().device_count();
  program_.program().meshes = {shardings_.mesh()};
  entry_ = {.builder = &main_, .values = {}, .manual = {}, .is_entry = true};
  scope_ = &entry_;
}

Program Generator::make() {
  const int count = 2 + static_cast<int>(dice_.below(2));
  for (int p = 0; p < count; ++p) put(parameter(Type::array(DType::kF32, dims())));
  const auto before = dice_.below(steps_ + 1);
  for (std::int64_t i = 0; i < before; ++i) step();
  feature();
  for (std::int64_t i = before; i < steps_; ++i) step();
  const Value result = root();
  const auto id = program_.add(std::move(main_), result);
  return program_.finish(id);
}

Value Generator::parameter(const Type& type) {
  const Value value = ops::parameter(main_, parameters_, type, fmt::format("p{}", parameters_));
  ++parameters_;
  annotate(value);
  return value;
}

Value Generator::root() {
  std::vector<Value> results = featured_;
  results.push_back(entry_.values.back().value);
  while (dice_.one_in(2)) results.push_back(dice_.pick(entry_.values).value);
  const bool one = results.size() == 1 && dice_.one_in(2);
  const Value out = one ? results.front() : ops::tuple(main_, results);
  const bool is_free = !out.instruction().sharding;  // an existing annotation may be the feature
  if (is_free && !dice_.one_in(4)) annotate(out);
  return out;
}

void Generator::put(Value value) {
  const Type& type = value.type();
  if (!type.is_array() || type.element_count() == 0 || type.element_count() > kMostElements) return;
  scope_->values.push_back({value, is_exact(value)});
}

void Generator::put_leaves(Value value) {
  if (!value.type().is_tuple()) return put(value);
  for (int i = 0; i < isize(value.type().elements()); ++i)
    if (dice_.one_in(2) || i == 0) put_leaves(ops::get_tuple_element(value, i));
}

bool Generator::rounds(const Computation& computation, const Instruction& instruction) const {
  static const std::set<std::string_view> kExact = {
      "abs",     "negate",  "sign",  "floor",  "ceil",    "round-nearest-even", "round-nearest-afz",
      "maximum", "minimum", "clamp", "select", "convert", "bitcast-convert",    "complex",
      "real",    "imag"};
  const auto leaves = instruction.type.leaves();
  const bool floats = std::any_of(leaves.begin(), leaves.end(), [](const Type& leaf) {
    return leaf.is_array() && is_float(real_dtype(leaf.dtype()));
  });
  if (!floats || kExact.contains(instruction.op->name)) return false;
  for (const ComputationId called : instruction.called)
    for (const Instruction& inner : program_.program()[called].instructions)
      if (rounds(program_.program()[called], inner)) return true;
  if (instruction.op->role == Role::kCollective) return true;
  return flops_of(view_of(program_.program(), computation, instruction)) > 0;
}

bool Generator::is_exact(Value value) {
  auto& known = exact_[value.builder];
  if (const auto found = known.find(value.id); found != known.end()) return found->second;
  const Instruction& instruction = value.instruction();
  bool exact = !rounds(value.builder->computation(), instruction);
  for (const Id operand : instruction.operands) exact = is_exact(value.builder->value(operand)) && exact;
  const bool no_float = instruction.type.is_array() && !is_float(real_dtype(instruction.type.dtype()));
  return known[value.id] = exact || no_float;
}

bool Generator::annotate(Value value, std::optional<ShardingKind> kind) {
  if (kind == ShardingKind::kShardAs || kind == ShardingKind::kShardLike) return annotate_group(value, *kind);
  const auto leaves = value.type().leaves();
  if (leaves.empty()) return false;
  Shardings out;
  bool found = !kind;
  for (const Type& leaf : leaves) {
    std::optional<Sharding> one;
    if (kind && leaf.is_array()) one = shardings_.of_kind(leaf, *kind, scope_->manual);
    found = found || one.has_value();
    if (leaf.is_array())
      out.push_back(one ? *one : shardings_.any(leaf, scope_->manual));
    else
      out.push_back(shardings_.replicated(0, scope_->manual));
  }
  builder().set_sharding(value, make_shardings(std::move(out)));
  return found;
}

// Adds the value to a sharding group together with another value of the same dims, or with a mark of itself.
bool Generator::annotate_group(Value value, ShardingKind kind) {
  if (!value.type().is_array()) return false;
  const std::string suffix =
      fmt::format(" {} {}", kind == ShardingKind::kShardAs ? "shard_as" : "shard_like", next_group_++);
  const auto join_group = [&](Value member, const Sharding& sharding) {
    builder().set_sharding(member, make_sharding(sharding));
    builder().set_notes(member, with_frontend_attribute(member.instruction().notes, kSuffixAttribute, suffix));
  };
  const Sharding unknown = *shardings_.of_kind(value.type(), ShardingKind::kUnknown, {});
  const bool both = dice_.one_in(2) && !is_manual();
  const Sharding given = shardings_.any(value.type(), scope_->manual);
  join_group(value, both ? unknown : given);
  std::vector<Value> partners{value};
  for (const Entry& entry : scope_->values)
    if (entry.value.type().dims() == value.type().dims() && entry.value.id != value.id) partners.push_back(entry.value);
  const Value partner = ops::sharding_mark(partners.back(), is_manual() ? given : unknown);
  join_group(partner, is_manual() ? given : unknown);
  put(partner);
  return true;
}

void Generator::step() {
  const auto draw = dice_.below(12);
  const std::optional<Entry> from = any_entry();
  Value made;
  if (draw < 3 || !from) {
    made = any_sample();
  } else if (draw == 3 && !is_manual() && depth_ == 0 && dice_.one_in(2) && shardings_.mesh().device_count() > 1) {
    return region(shardings_.manual_axes(dice_.one_in(2)), false);
  } else if (draw < 6 && is_manual()) {
    made = any_collective(from->value);
  } else if (draw == 4 && depth_ < 2 && !is_manual()) {
    const auto which = dice_.below(3);
    made = which == 0 ? loop(from->value) : which == 1 ? called(from->value) : branches(from->value);
  } else {
    made = draw < 8 ? chained(from->value) : float_op(any_value(DType::kF32));
  }
  if (made.is_null()) return;
  if (dice_.one_in(4) && !made.instruction().sharding && made.instruction().op->role == Role::kPlain) annotate(made);
  put_leaves(made);
}

void Generator::feature() {
  const bool manual = feature_.kind == ShardingKind::kManual || feature_.kind == ShardingKind::kManualSubgroup;
  if (manual) return region(shardings_.manual_axes(feature_.kind == ShardingKind::kManual), true);
  const Value made = builder().value(sampled(feature_.op));
  annotate(made, feature_.kind);
  const auto known = scope_->values.size();
  put_leaves(done(made));
  for (auto i = known; i < scope_->values.size(); ++i) featured_.push_back(scope_->values[i].value);
}

Program random_program(std::uint64_t seed, const Feature& feature, int steps) {
  return Generator(seed, feature, steps).make();
}

}  // namespace tessera::testing
