// SPDX-License-Identifier: Apache-2.0
// The gradient of a scan. The body is differentiated once. Its backward pass reads
//   - arguments, of which xs and captured values are read again and carries are residuals;
//   - values that elementwise ops and movements compute from other values, which are computed again;
//   - all other values (products, sums), which are residuals.
#include "control/scan.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"

namespace tessera::control {
namespace {

bool is_float_value(const Type& type) {
  return type.is_array() && (is_float(type.dtype()) || is_complex(type.dtype()));
}

// Copies the instructions that the gradients need from the builder of the body into a computation of their own.
class GradientExtractor {
 public:
  GradientExtractor(const ScanFunction& function, int d_count)
      : function_(function),
        from_(function.body.builder()),
        root_(function.body.root()),
        d_count_(d_count),
        into_(trace().program().computation(function.call.name + ".gradient")),
        made_(from_.computation().instructions.size(), -1) {}

  BodyGradient run(const std::vector<Value>& gradients) {
    const auto& parameters = from_.computation().parameters;
    const int forward = isize(parameters) - d_count_;
    for (const Value& gradient : gradients)
      if (!gradient.is_null()) find_residuals(gradient.id);
    for (int k = 0; k < forward; ++k) add_parameter(at(parameters, k));
    for (const Id id : residuals_) residual_parameters_.push_back(new_parameter(from_[id].type));
    for (int k = forward; k < isize(parameters); ++k) add_parameter(at(parameters, k));
    for (std::size_t k = 0; k < residuals_.size(); ++k) at(made_, residuals_[k]) = residual_parameters_[k];
    std::vector<Value> results;
    int next = 0;
    for (int k = 1; k < forward; ++k) {  // without the index
      const Type& type = from_[at(parameters, k)].type;
      if (!is_float_value(type)) continue;
      const Value gradient = at(gradients, next++);
      results.push_back(gradient.is_null() ? ops::full(into_, type, 0) : into_.value(copied(gradient.id)));
    }
    const Id root = ops::tuple(into_, results).id;
    return {std::move(into_).finish({&into_, root}), std::move(residuals_)};
  }

 private:
  // True for a carry, which has another value in each iteration.
  [[nodiscard]] bool is_carry(Id id) const {
    const auto& parameters = from_.computation().parameters;
    const auto found = std::find(parameters.begin(), parameters.end(), id) - parameters.begin();
    return found >= 1 && found <= function_.carry_count;
  }
  // True for a conversion whose result is smaller than the residual from which it could be computed again.
  [[nodiscard]] bool narrows_residual(const Instruction& instruction) const {
    if (instruction.operands.size() != 1) return false;
    const Id operand = instruction.operands[0];
    const bool is_there = from_[operand].op->role == Role::kParameter && !is_carry(operand);
    return !is_there && from_[operand].type.is_array() &&
           instruction.type.byte_size() < from_[operand].type.byte_size();
  }
  [[nodiscard]] bool is_computed_again(Id id) const {
    const Instruction& instruction = from_[id];
    const OpDef& op = *instruction.op;
    if (!instruction.type.is_array() || !instruction.called.empty() || has_side_effect(instruction)) return false;
    if (op.role == Role::kConstant || op.role == Role::kCopy || is_sharding_mark(instruction)) return true;
    if (op.role != Role::kPlain) return false;
    if (op.elementwise) return !narrows_residual(instruction);
    OpView view{op, {}, instruction.type, instruction.attributes, {}};
    for (const Id operand : instruction.operands) view.operands.push_back(from_[operand].type);
    return op.flops != nullptr && op.flops(view) == 0 && instruction.operands.size() <= 1;
  }

  void find_residuals(Id first) {
    std::vector<Id> stack{first};
    visited_.resize(made_.size(), false);
    while (!stack.empty()) {
      const Id id = stack.back();
      stack.pop_back();
      if (at(visited_, id)) continue;
      visited_[static_cast<std::size_t>(id)] = true;
      const bool is_parameter = from_[id].op->role == Role::kParameter;
      if (is_parameter ? is_carry(id) : id < root_ && !passes(id)) {
        add_residual(id, stack);
      } else if (!is_parameter) {
        stack.insert(stack.end(), from_[id].operands.begin(), from_[id].operands.end());
      }
    }
  }
  [[nodiscard]] bool passes(Id id) const {
    const bool is_tuple = from_[id].type.is_tuple();
    return is_computed_again(id) || is_tuple;
  }
  // An array is a residual. An element of a tuple is one too; other uses of tuples copy the instruction.
  void add_residual(Id id, std::vector<Id>&) { residuals_.push_back(id); }

  Id new_parameter(const Type& type) {
    return ops::parameter(into_, static_cast<std::int64_t>(into_.computation().parameters.size()), type).id;
  }
  void add_parameter(Id id) { at(made_, id) = new_parameter(from_[id].type); }

  // Copies an instruction after those that it reads. Values are computed again where they are first needed.
  Id copied(Id first) {
    std::vector<Id> stack{first};
    while (!stack.empty()) {
      const Id id = stack.back();
      if (at(made_, id) >= 0) {
        stack.pop_back();
        continue;
      }
      bool is_ready = true;
      const auto& operands = from_[id].operands;
      for (auto operand = operands.rbegin(); operand != operands.rend(); ++operand)
        if (at(made_, *operand) < 0) {
          stack.push_back(*operand);
          is_ready = false;
        }
      if (!is_ready) continue;
      stack.pop_back();
      Instruction copy = from_[id];
      for (Id& operand : copy.operands) operand = at(made_, operand);
      copy.control_predecessors.clear();
      at(made_, id) = into_.append(std::move(copy)).id;
    }
    return at(made_, first);
  }

  const ScanFunction& function_;
  const Builder& from_;
  Id root_;
  int d_count_;
  Builder into_;
  std::vector<Id> made_;
  std::vector<bool> visited_;
  std::vector<Id> residuals_;
  std::vector<Id> residual_parameters_;
};

}  // namespace

std::optional<BodyGradient> body_gradient(const ScanFunction& function, std::string& message) {
  Builder& builder = function.body.builder();
  const std::vector<Id> parameters = builder.computation().parameters;
  const std::vector<Id> results = builder[function.body.root()].operands;
  std::vector<Value> wrt;
  for (int k = 1; k < isize(parameters); ++k)
    if (is_float_value(builder[at(parameters, k)].type)) wrt.push_back(builder.value(at(parameters, k)));
  std::vector<Value> outputs;
  std::vector<Value> d_outputs;
  for (const Id result : results) {
    const Type type = builder[result].type;
    if (!is_float_value(type)) continue;
    const auto number = static_cast<std::int64_t>(builder.computation().parameters.size());
    d_outputs.push_back(ops::parameter(builder, number, type));
    outputs.push_back(builder.value(result));
  }
  if (wrt.empty() || outputs.empty()) return std::nullopt;
  try {
    const auto gradients = flowing_gradients(builder, outputs, d_outputs, wrt);
    return GradientExtractor(function, isize(d_outputs)).run(gradients);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    message = error.what();
    return std::nullopt;
  }
}

ComputationId add_backward(const ScanFunction& function, const std::vector<Value>& operands, const Type& result,
                           const BodyGradient& gradient) {
  ProgramBuilder& program = trace().program();
  const int carries = function.carry_count;
  const int xs = function.x_count;
  const int ys = function.y_count();
  const int residuals = isize(gradient.residuals);
  const std::int64_t length = function.call.length;
  Builder builder = program.computation(function.call.name + ".backward");
  const auto add = [&](const Type& type) {
    return ops::parameter(builder, static_cast<std::int64_t>(builder.computation().parameters.size()), type);
  };
  std::vector<Value> given;
  for (const Value& operand : operands) given.push_back(add(operand.type()));
  std::vector<Value> stacks;  // of the residuals
  for (int k = 0; k < isize(result.elements()); ++k) {
    const Value value = add(at(result.elements(), k));
    if (k >= carries + ys) stacks.push_back(value);
  }
  // The state: gradients of the carry, of xs (stacked), of captured values (sums); then values that do not change.
  std::vector<Value> init;
  std::vector<Value> fixed(given.begin() + carries, given.end());
  fixed.insert(fixed.end(), stacks.begin(), stacks.end());
  int d_ys = 0;
  int d_carries = 0;
  for (int k = 0; k < carries + ys; ++k) {
    const Type& type = at(result.elements(), k);
    if (!is_float_value(type)) continue;
    const Value arriving = add(type);
    (k < carries ? init : fixed).push_back(arriving);
    ++(k < carries ? d_carries : d_ys);
  }
  const auto d_types = gradient.computation.root_type().elements();
  int place_in_root = d_carries;
  int d_xs = 0;
  for (int k = carries; k < isize(operands); ++k) {
    if (!is_float_value(at(operands, k).type())) continue;
    const Type& type = at(d_types, place_in_root++);
    init.push_back(ops::full(builder, k < carries + xs ? stacked_type(type, length) : type, 0));
    if (k < carries + xs) ++d_xs;
  }
  const int changing = isize(init);
  init.insert(init.end(), fixed.begin(), fixed.end());
  const auto step = [&](Value i, const std::vector<Value>& state) {
    const Value last = function.call.reverse ? i : ops::subtract(s32(*i.builder, length - 1), i);
    std::vector<Value> arguments{function.index(last)};
    for (int k = 0; k < carries; ++k)  // not read: a carry that the gradient needs is a residual
      arguments.push_back(ops::full(*i.builder, at(operands, k).type(), 0));
    auto next_fixed = state.begin() + changing;
    for (int k = 0; k < xs; ++k) arguments.push_back(ops::row_at(*next_fixed++, last));
    for (int k = carries + xs; k < isize(operands); ++k) arguments.push_back(*next_fixed++);
    for (int k = 0; k < residuals; ++k) arguments.push_back(ops::row_at(*next_fixed++, last));
    arguments.insert(arguments.end(), state.begin(), state.begin() + d_carries);
    for (int k = 0; k < d_ys; ++k) arguments.push_back(ops::row_at(*next_fixed++, last));
    const std::vector<Value> flowing = ops::elements_of(inlined(*i.builder, gradient.computation, arguments));
    std::vector<Value> next(flowing.begin(), flowing.begin() + d_carries);
    for (int k = d_carries; k < changing; ++k)
      next.push_back(k < d_carries + d_xs ? ops::with_row_at(at(state, k), at(flowing, k), last)
                                          : ops::add(at(state, k), at(flowing, k)));
    next.insert(next.end(), state.begin() + changing, state.end());
    return next;
  };
  std::vector<Value> results = ops::counted_while(builder, function.call.name + ".backward", length, init, step);
  results.resize(static_cast<std::size_t>(changing));
  const Value root = ops::tuple(builder, results);
  return program.add(std::move(builder), root);
}

}  // namespace tessera::control
