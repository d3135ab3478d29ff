// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/control/transforms.h"

#include <algorithm>

#include "control/enclosed_pull_back.h"
#include "control/traced_values.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

using control::tensors_of;
using control::values_of;

bool has_float_type(const Type& type) { return is_float(type.dtype()) || is_complex(type.dtype()); }

// The tensors of a float type, for which gradients exist.
std::vector<Value> float_values(const detail::Tensors& tensors) {
  detail::Tensors floats;
  for (const Tensor& tensor : tensors)
    if (has_float_type(tensor.type())) floats.push_back(tensor);
  return values_of(floats);
}

// One tensor for each of `like`: the next of `values` for a float, zeros for null and for integers.
detail::Tensors with_zeros(const detail::Tensors& like, const std::vector<Value>& values) {
  Trace& current = trace();
  detail::Tensors out;
  auto next = values.begin();
  for (const Tensor& tensor : like) {
    Value value = has_float_type(tensor.type()) ? *next++ : Value{};
    if (value.is_null()) value = current.full(tensor.type(), 0);
    out.push_back(current.wrap(value));
  }
  return out;
}

// The values of a pullback that belong to an enclosing computation. Without `wrt` if they belong to the current one.
struct Enclosed {
  std::vector<Value> outputs;
  std::vector<Value> d_outputs;
  std::vector<Value> wrt;
};
Enclosed enclosed_values(const detail::Tensors& outputs, const detail::Tensors& d_outputs, const detail::Tensors& wrt) {
  Trace& current = trace();
  Enclosed out;
  for (const Tensor& tensor : wrt)
    if (has_float_type(tensor.type())) out.wrt.push_back(current.traced_value(*tensor.impl().node));
  const auto is_here = [&](const Value& value) { return value.is_null() || value.builder == &current.builder(); };
  if (std::any_of(out.wrt.begin(), out.wrt.end(), is_here)) return {};
  for (std::size_t k = 0; k < outputs.size() && !out.wrt.empty(); ++k) {
    if (!has_float_type(outputs[k].type())) continue;
    const Value output = current.traced_value(*outputs[k].impl().node);
    if (output.is_null() || output.builder != out.wrt.front().builder) continue;  // does not depend on wrt
    out.outputs.push_back(output);
    out.d_outputs.push_back(current.use(d_outputs[k]));
  }
  return out;
}

}  // namespace

namespace detail {

Tensors fresh_copies(const Tensors& tensors, const std::source_location& where) {
  Tensors out;
  for (const Tensor& tensor : tensors)
    out.push_back(trace().record(where, [&](Builder&) { return ops::copy(trace().use(tensor)); }));
  return out;
}

Tensors pull_back(const Tensors& outputs, const Tensors& d_outputs, const Tensors& wrt,
                  const std::source_location& where) {
  return in_context("", {}, where, [&] {
    Trace& current = trace();
    current.builder().default_notes = current.notes(where);
    if (const Enclosed enclosed = enclosed_values(outputs, d_outputs, wrt); !enclosed.wrt.empty())
      return with_zeros(wrt, control::enclosed_pull_back(enclosed.outputs, enclosed.d_outputs, enclosed.wrt));
    return with_zeros(
        wrt, flowing_gradients(current.builder(), float_values(outputs), float_values(d_outputs), float_values(wrt)));
  });
}

Tensors push_forward(const Tensors& outputs, const Tensors& primals, const Tensors& tangents,
                     const std::source_location& where) {
  return in_context("jvp", {}, where, [&] {
    Trace& current = trace();
    Builder& builder = current.builder();
    builder.default_notes = current.notes(where);
    const std::vector<Value> results = float_values(outputs);
    std::vector<Value> cotangents;
    for (const Value& result : results) {
      const Type type = result.type();
      cotangents.push_back(ops::copy(current.full(type, 0)));
    }
    const auto pulled = flowing_gradients(builder, results, cotangents, float_values(primals));
    const std::vector<Value> given = float_values(tangents);
    std::vector<Value> linear;
    std::vector<Value> directions;
    for (std::size_t i = 0; i < pulled.size(); ++i) {
      if (pulled[i].is_null()) continue;
      linear.push_back(pulled[i]);
      directions.push_back(given[i]);
    }
    if (linear.empty()) return with_zeros(outputs, std::vector<Value>(results.size()));
    return with_zeros(outputs, flowing_gradients(builder, linear, directions, cotangents));
  });
}

Tensor one_like(const Tensor& loss, const std::source_location& where) {
  in_context("grad", {&loss}, where, [&] {
    require(loss.ndim() == 0 && is_float(loss.dtype()), "the function must return a scalar of a float type, got {}",
            loss.type());
  });
  return Tensor::ones(loss.type(), where);
}

void check_cotangents(std::string_view function, std::string_view what, const Tensors& expected, const Tensors& given) {
  require(expected.size() == given.size(), "{}: the {} has {} tensors, but {} are needed", function, what, given.size(),
          expected.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    require(expected[i].type() == given[i].type(), "{}: tensor {} of the {} is {}, but {} is needed", function, i, what,
            given[i].type(), expected[i].type());
}

Tensors without_gradient(const Tensors& tensors, const std::source_location& where) {
  Tensors out;
  for (const Tensor& tensor : tensors)
    out.push_back(trace().record(where, [&](Builder&) { return tessera::stop_gradient(trace().use(tensor)); }));
  return out;
}

namespace {

// Traces the backward function of (arguments, captured, results, d_results) and adds its computation.
ComputationId add_gradient(FunctionTrace& backward, const FunctionTrace& forward, const std::vector<Value>& arguments,
                           const std::vector<Value>& results, std::size_t output_count,
                           const std::function<Tensors(const Tensors&, const Tensors&)>& function) {
  const std::vector<Value> given = control::add_arguments(backward, arguments, "argument");
  control::add_arguments(backward, forward.captured(), "captured");
  const std::vector<Value> kept = control::add_arguments(backward, results, "result");
  const auto outputs_end = results.begin() + static_cast<std::ptrdiff_t>(output_count);
  std::vector<Value> floats;
  for (auto result = results.begin(); result != outputs_end; ++result)
    if (has_float_type(result->type())) floats.push_back(*result);
  const std::vector<Value> d_floats = control::add_arguments(backward, floats, "gradient");
  const auto kept_end = kept.begin() + static_cast<std::ptrdiff_t>(output_count);
  const Tensors d_outputs = with_zeros(tensors_of({kept.begin(), kept_end}), d_floats);
  const std::vector<Value> gradients = values_of(function(tensors_of({kept_end, kept.end()}), d_outputs));
  control::check_types("custom_gradient", "the arguments", given, gradients);
  std::vector<Value> out;
  for (const Value& gradient : gradients)
    if (has_float_type(gradient.type())) out.push_back(gradient);
  for (const Value& captured : forward.captured())
    if (has_float_type(captured.type())) out.push_back(trace().full(captured.type(), 0));
  backward.close(out);
  return trace().program().add(std::make_shared<const Computation>(backward.computation()));
}

}  // namespace

Tensors call_with_gradient(const Tensors& arguments, const std::function<CustomCall(const Tensors&)>& call,
                           const std::function<Tensors(const Tensors&, const Tensors&)>& backward,
                           const std::source_location& where) {
  return in_context("", {}, where, [&] {
    Trace& current = trace();
    Builder& outer = current.builder();
    outer.default_notes = current.notes(where);
    std::vector<Value> operands = values_of(arguments);
    FunctionTrace forward("custom_gradient");
    const CustomCall done = call(tensors_of(control::add_arguments(forward, operands, "argument")));
    forward.close(values_of(done.outputs));
    const std::size_t output_count = done.outputs.size() - done.residual_count;
    const auto results = ops::elements_of(forward.builder().value(forward.root()));
    FunctionTrace gradient("custom_gradient.backward");
    const ComputationId backward_id = add_gradient(gradient, forward, operands, results, output_count, backward);
    require(gradient.captured().empty(),
            "custom_gradient: the backward function uses {}, which belongs to the scope outside: return it from the "
            "function as a residual",
            [&] { return gradient.captured().front().instruction().type.str(); });
    operands.insert(operands.end(), forward.captured().begin(), forward.captured().end());
    outer.default_notes = with_frontend_attribute(current.notes(where), kGradientAttribute,
                                                  fmt::format("{}/{}", backward_id, output_count));
    const ComputationId id = current.program().add(std::make_shared<const Computation>(forward.computation()));
    const Value result = ops::call(outer, operands, id);
    std::vector<Value> elements;
    for (std::size_t k = 0; k < done.outputs.size(); ++k)
      elements.push_back(ops::get_tuple_element(result, static_cast<int>(k)));
    elements.resize(output_count);
    outer.default_notes = current.notes(where);
    return tensors_of(elements);
  });
}

CheckpointScope::CheckpointScope(const std::source_location& where) { trace().enter_checkpoint(where); }
CheckpointScope::~CheckpointScope() { trace().pop_scope(); }

// Copies outside of the region: the backward passes of their consumers read them.
Tensors kept(const Tensors& results, const std::source_location& where) { return fresh_copies(results, where); }

}  // namespace detail

std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs, std::source_location where) {
  return in_context("gradients", {&output}, where, [&] {
    Trace& current = trace();
    require(output.ndim() == 0 && is_float(output.dtype()), "the output must be a scalar of a float type, got {}",
            output.type());
    std::vector<Value> wrt;
    for (const Tensor& input : inputs)
      if (has_float_type(input.type())) wrt.push_back(current.stored(input));
    current.builder().default_notes = current.notes(where);
    const Value value = current.use(output);
    return with_zeros(inputs, flowing_gradients(current.builder(), {value}, {current.full(value.type(), 1)}, wrt));
  });
}

}  // namespace tessera
