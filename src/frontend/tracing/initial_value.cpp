// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tracing/initial_value.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostConstants = 64;  // elements of an input, such as the key of random numbers
constexpr std::size_t kMostOps = 256;

// The ops that compute a value. Operands are places in this list; the last op is the value.
using OpList = std::vector<Instruction>;

// Returns the constant in place of an input that the host has passed.
std::optional<Instruction> constant_of(const Trace& current, const Instruction& parameter, Id id) {
  const int input = current.input_index(id);
  if (input < 0 || current.is_from_outside(*at(current.inputs(), input))) return std::nullopt;
  const auto& host = at(current.inputs(), input)->host;
  if (!host || host->type().element_count() > kMostConstants) return std::nullopt;
  Instruction out = parameter;
  out.op = &rows::kConstant;
  out.attributes = make_attributes(ConstantAttributes{*host});
  out.sharding = nullptr;
  return out;
}

// Returns the op for the program of initial values, or nullopt if it can run only in this trace.
std::optional<Instruction> movable(const Trace& current, const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  const bool is_entry = !current.in_function();
  if (is_entry && current.computed(id)) return std::nullopt;
  if (instruction.op->role == Role::kParameter) return is_entry ? constant_of(current, instruction, id) : std::nullopt;
  const bool may_move = instruction.called.empty() && instruction.control_predecessors.empty() &&
                        !instruction.sharding && !has_side_effect(instruction) && instruction.type.is_array();
  return may_move ? std::optional(instruction) : std::nullopt;
}

std::vector<bool> needed_for(const Computation& computation, Id id) {
  std::vector<bool> out(static_cast<std::size_t>(id) + 1, false);
  out.back() = true;
  for (Id at_id = id; at_id >= 0; --at_id)
    if (at(out, at_id))
      for (const Id operand : computation[at_id].operands) at(out, operand) = true;
  return out;
}

std::optional<OpList> ops_of(const Trace& current, const Computation& computation, Id id) {
  const std::vector<bool> needed = needed_for(computation, id);
  std::vector<Id> places(needed.size(), -1);
  OpList out;
  for (Id each = 0; each <= id; ++each) {
    if (!at(needed, each)) continue;
    auto op = movable(current, computation, each);
    if (!op || out.size() == kMostOps) return std::nullopt;
    for (Id& operand : op->operands) operand = at(places, operand);
    at(places, each) = isize(out);
    out.push_back(std::move(*op));
  }
  return out;
}

bool is_used(const Computation& computation, Id id) {
  const auto uses = [&](const Instruction& op) {
    return std::find(op.operands.begin(), op.operands.end(), id) != op.operands.end();
  };
  return std::any_of(computation.instructions.begin() + id, computation.instructions.end(), uses);
}

// True for a value of the computation that is being traced.
bool is_in(const Computation& computation, const Node& node) {
  return node.id < computation.size() && trace().instruction_of(node) == &computation[node.id];
}

Value emitted(Builder& builder, const OpList& ops) {
  std::vector<Value> made;
  for (Instruction op : ops) {
    for (Id& operand : op.operands) operand = at(made, operand).id;
    made.push_back(builder.append(std::move(op)));
  }
  return made.back();
}

}  // namespace

void detail::compute_as_initial_value(const Tensor& variable, std::string_view name) {
  Trace& current = trace();
  const Node& traced = *variable.impl().node;
  const bool is_traced =
      !traced.has_data() && !traced.is_deferred() && traced.id >= 0 && traced.epoch == current.epoch();
  if (!is_traced) return;
  const Computation& computation = current.builder().computation();
  const bool is_plain = is_in(computation, traced) && !traced.sharding && !traced.replaces;
  const bool is_unused = is_plain && !is_used(computation, traced.id);  // the gradients of its uses belong to one value
  auto ops = is_unused ? ops_of(current, computation, traced.id) : std::nullopt;
  if (ops) {
    auto node = current.make_node(traced.type, traced.name);
    node->initializer = [ops = std::move(*ops)](Builder& builder, const Type&) { return emitted(builder, ops); };
    variable.impl().node = std::move(node);
    return;
  }
  require(!current.is_capturing() && !current.in_function(),
          "the initial value of {} {}, and {} would compute it again in every {}: register it outside of the function, "
          "or compute its value only from numbers",
          name,
          traced.sharding          ? "has a sharding (mark the registered tensor instead)"
          : is_plain && !is_unused ? "has other uses"
                                   : "depends on other values of the trace",
          current.in_function() ? "the function of cond, a loop or a transform" : "the compiled function",
          current.in_function() ? "step" : "call");
  // The value stays in this trace, for example because it depends on another variable. A variable is a leaf, so no
  // gradient flows on to that variable.
  if (is_unused) variable.impl().node = variable.detach().impl().node.shared();
}

}  // namespace tessera
