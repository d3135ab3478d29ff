// SPDX-License-Identifier: Apache-2.0
#include "control/scan.h"

#include <fmt/format.h>

#include "tessera/autodiff/gradients.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera {
namespace control {

int ScanFunction::y_count() const { return isize(body.builder()[body.root()].operands) - carry_count; }

Value ScanFunction::place(Value i) const {
  return call.reverse ? ops::subtract(s32(*i.builder, call.length - 1), i) : i;
}

Value ScanFunction::index(Value place) const {
  return call.first == 0 ? place : ops::add(place, s32(*place.builder, call.first));
}

namespace {

// The body with further results.
Computation with_residuals(const ScanFunction& function, const std::vector<Id>& residuals) {
  Computation out = function.body.computation();
  Instruction& root = out.instructions.back();
  std::vector<Type> types = root.type.elements();
  for (const Id id : residuals) {
    root.operands.push_back(id);
    types.push_back(out[id].type);
  }
  root.type = Type::tuple(std::move(types));
  return out;
}

}  // namespace

ComputationId add_forward(const ScanFunction& function, const std::vector<Value>& operands,
                          const std::vector<Id>& residuals) {
  ProgramBuilder& program = trace().program();
  const Computation body = with_residuals(function, residuals);
  const int carries = function.carry_count;
  const int xs = function.x_count;
  const int stacks = isize(body[body.root].operands) - carries;
  Builder builder = program.computation(function.call.name);
  std::vector<Value> given;
  for (const Value& operand : operands) given.push_back(ops::parameter(builder, isize(given), operand.type()));
  std::vector<Value> init(given.begin(), given.begin() + carries);
  for (int k = 0; k < stacks; ++k)
    init.push_back(
        ops::full(builder, stacked_type(at(body.root_type().elements(), carries + k), function.call.length), 0));
  init.insert(init.end(), given.begin() + carries, given.end());
  const auto step = [&](Value i, const std::vector<Value>& state) {
    const Value place = function.place(i);
    std::vector<Value> arguments{function.index(place)};
    arguments.insert(arguments.end(), state.begin(), state.begin() + carries);
    const auto first_x = state.begin() + carries + stacks;
    for (auto x = first_x; x != first_x + xs; ++x) arguments.push_back(ops::row_at(*x, place));
    arguments.insert(arguments.end(), first_x + xs, state.end());
    const std::vector<Value> results = ops::elements_of(inlined(*i.builder, body, arguments));
    std::vector<Value> next(results.begin(), results.begin() + carries);
    for (int k = 0; k < stacks; ++k)
      next.push_back(ops::with_row_at(at(state, carries + k), at(results, carries + k), place));
    next.insert(next.end(), first_x, state.end());
    return next;
  };
  std::vector<Value> results = ops::counted_while(builder, function.call.name, function.call.length, init, step);
  results.resize(static_cast<std::size_t>(carries) + static_cast<std::size_t>(stacks));
  const Value root = ops::tuple(builder, results);
  return program.add(std::move(builder), root);
}

}  // namespace control

namespace detail {
namespace {

using control::ScanFunction;

void check_call(const Tensors& xs, const ScanCall& call) {
  require(call.unroll >= 1, "{}: .unroll must be at least 1, got {}", call.name, call.unroll);
  for (const Tensor& x : xs)
    require(x.ndim() >= 1 && x.dim(0) == call.length, "{}: dim 0 of every x must be the length {}, got {}", call.name,
            call.length, x.type());
}

void trace_body(ScanFunction& function, const ScanBody& body, const std::vector<Value>& carry,
                const std::vector<Value>& xs) {
  FunctionTrace& traced = function.body;
  const Value index = traced.argument(Type::scalar(DType::kS32), "index");
  traced.set_iteration(index);
  const std::vector<Value> carried = control::add_arguments(traced, carry, "carry");
  std::vector<Value> rows;
  for (const Value& x : xs) {
    const Dims dims(x.type().dims().begin() + 1, x.type().dims().end());
    rows.push_back(traced.argument(Type::array(x.type().dtype(), dims), "x"));
  }
  const ScanStep step = body(trace().wrap(index), control::tensors_of(carried), control::tensors_of(rows));
  std::vector<Value> results = control::values_of(step.carry);
  control::check_types(function.call.name, "the carry", carried, results);
  for (const Tensor& y : step.ys) results.push_back(trace().use(y));
  traced.close(results);
}

// Emits the call of the forward loop, whose attribute names the backward loop, and its results.
std::vector<Value> emit_loop(const ScanFunction& function, const std::vector<Value>& operands) {
  Builder& outer = trace().builder();
  std::string message;
  const auto gradient = control::body_gradient(function, message);
  const std::vector<Id> residuals = gradient ? gradient->residuals : std::vector<Id>{};
  const ComputationId forward = control::add_forward(function, operands, residuals);
  const Type result = trace().program().program()[forward].root_type();
  const int count = function.carry_count + function.y_count();
  const NotesRef before = outer.default_notes;
  if (gradient) {
    const ComputationId backward = control::add_backward(function, operands, result, *gradient);
    outer.default_notes = with_frontend_attribute(before, kGradientAttribute, fmt::format("{}/{}", backward, count));
  } else if (!message.empty()) {
    outer.default_notes = with_frontend_attribute(before, kGradientAttribute, "!" + message);
  }
  const Value results = ops::call(outer, operands, forward);
  outer.default_notes = before;
  std::vector<Value> out;  // directly after the call, where its gradient looks for the residuals
  for (int k = 0; k < isize(result.elements()); ++k) out.push_back(ops::get_tuple_element(results, k));
  out.resize(static_cast<std::size_t>(count));
  return out;
}

// Without a loop: the function is called once for each element.
ScanStep unrolled(const ScanBody& body, Tensors carry, const Tensors& xs, const ScanCall& call,
                  const std::source_location& where) {
  std::vector<Tensors> ys(static_cast<std::size_t>(call.length));
  for (std::int64_t i = 0; i < call.length; ++i) {
    const std::int64_t place = call.reverse ? call.length - 1 - i : i;
    Tensors rows;
    for (const Tensor& x : xs) rows.push_back(x.select(0, place, where));
    const Tensor index = Tensor::full(Type::scalar(DType::kS32), static_cast<double>(call.first + place), where);
    ScanStep step = body(index, carry, rows);
    carry = std::move(step.carry);
    ys[static_cast<std::size_t>(place)] = std::move(step.ys);
  }
  ScanStep out{std::move(carry), {}};
  for (std::size_t k = 0; k < ys.front().size(); ++k) {
    Tensors parts;
    for (const Tensors& y : ys) parts.push_back(y[k].unsqueeze(0, where));
    out.ys.push_back(concat(parts, 0, where));
  }
  return out;
}

Tensors rows_between(const Tensors& xs, std::int64_t begin, std::int64_t end, const std::source_location& where) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(x.slice(0, begin, end, where));
  return out;
}

// A loop whose body performs call.unroll iterations, before (or, in reverse order, after) the iterations that remain.
ScanStep partly_unrolled(const ScanBody& body, const Tensors& carry, const Tensors& xs, const ScanCall& call,
                         const std::source_location& where) {
  const std::int64_t blocks = call.length / call.unroll;
  const std::int64_t in_blocks = blocks * call.unroll;
  const auto block = [&](const Tensor& index, const Tensors& c, const Tensors& rows) {
    const ScanBody one = [&](const Tensor& i, const Tensors& now, const Tensors& x) {
      return body(index * static_cast<double>(call.unroll) + (i + static_cast<double>(call.first)), now, x);
    };
    return unrolled(one, c, rows, {call.name, 0, call.unroll, call.reverse, 1}, where);
  };
  const auto in_loop = [&](const Tensors& c) {
    Tensors grouped;
    for (const Tensor& x : rows_between(xs, 0, in_blocks, where)) {
      Dims dims = x.dims();
      dims.front() = call.unroll;
      dims.insert(dims.begin(), blocks);
      grouped.push_back(x.reshape(dims, where));
    }
    ScanStep out = scan_tensors(block, c, grouped, {call.name, 0, blocks, call.reverse, 1}, where);
    for (Tensor& y : out.ys) {
      Dims dims(y.dims().begin() + 1, y.dims().end());
      dims.front() = in_blocks;
      y = y.reshape(dims, where);
    }
    return out;
  };
  if (in_blocks == call.length) return in_loop(carry);
  const auto rest = [&](const Tensors& c) {
    return unrolled(body, c, rows_between(xs, in_blocks, call.length, where),
                    {call.name, call.first + in_blocks, call.length - in_blocks, call.reverse, 1}, where);
  };
  ScanStep first = call.reverse ? rest(carry) : in_loop(carry);
  ScanStep second = call.reverse ? in_loop(first.carry) : rest(first.carry);
  ScanStep& low = call.reverse ? second : first;
  ScanStep& high = call.reverse ? first : second;
  ScanStep out{second.carry, {}};
  for (std::size_t k = 0; k < low.ys.size(); ++k) out.ys.push_back(concat({low.ys[k], high.ys[k]}, 0, where));
  return out;
}

}  // namespace

ScanStep scan_tensors(const ScanBody& body, const Tensors& carry, const Tensors& xs, const ScanCall& call,
                      const std::source_location& where) {
  in_context("", {}, where, [&] { check_call(xs, call); });
  if (call.length > 0 && call.unroll >= call.length) return unrolled(body, carry, xs, call, where);
  if (call.unroll > 1) return partly_unrolled(body, carry, xs, call, where);
  Trace& current = trace();
  Builder& outer = current.builder();
  outer.default_notes = current.notes(where);
  const std::vector<Value> carried = control::values_of(carry);
  const std::vector<Value> stacks = control::values_of(xs);
  FunctionTrace traced(call.name + ".function");
  ScanFunction function{traced, call, isize(carry), isize(xs)};
  in_context("", {}, where, [&] { trace_body(function, body, carried, stacks); });
  outer.default_notes = current.notes(where);
  if (call.length == 0) {
    ScanStep out{carry, {}};
    const Computation computation = traced.computation();
    for (int k = 0; k < function.y_count(); ++k) {
      const Id y = at(computation[computation.root].operands, function.carry_count + k);
      out.ys.push_back(current.wrap(ops::full(outer, control::stacked_type(computation[y].type, 0), 0)));
    }
    return out;
  }
  std::vector<Value> operands = carried;
  operands.insert(operands.end(), stacks.begin(), stacks.end());
  operands.insert(operands.end(), traced.captured().begin(), traced.captured().end());
  Tensors all = control::tensors_of(in_context("", {}, where, [&] { return emit_loop(function, operands); }));
  const auto middle = all.begin() + function.carry_count;
  return {{all.begin(), middle}, {middle, all.end()}};
}

std::int64_t scan_length(const Tensors& xs, const ScanOptions& options, const std::source_location& where) {
  return in_context("scan", {}, where, [&] {
    require(!xs.empty() || options.length.has_value(), "without xs, give the number of iterations as .length");
    if (xs.empty()) {
      require(*options.length >= 0, ".length must not be negative, got {}", *options.length);
      return *options.length;
    }
    require(xs.front().ndim() >= 1, "every x needs a dim 0 to scan over, got {}", xs.front().type());
    const std::int64_t length = xs.front().dim(0);
    require(!options.length || *options.length == length, ".length is {}, but dim 0 of the xs is {}",
            options.length.value_or(0), length);
    return length;
  });
}

void check_same_structure(std::string_view function, std::string_view what, const std::string& expected,
                          const std::string& got) {
  require(expected == got, "{}: {}: {} and {}", function, what, expected, got);
}

}  // namespace detail
}  // namespace tessera
