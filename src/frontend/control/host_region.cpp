// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/control/host_region.h"

#include <fmt/format.h>

#include "control/traced_values.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {}  // namespace

namespace detail {

std::vector<Tensor> host_inputs(const std::string& name, const std::vector<Tensor>& inputs,
                                const std::source_location& where) {
  return in_context("", {}, where, [&] {
    Trace& current = trace();
    current.require_no_function("host_region is called");
    current.note_graph_break();
    require(!current.is_capturing(),
            "compile: the function contains the host_region {}, which is a graph break; compile it with full_graph = "
            "false, or compile the parts before and after it",
            name);
    metrics().count("fallback::" + name);
    const SyncScope place("sync::host_region");
    std::vector<Tensor> out;
    for (const Literal& value : read_all(inputs, where)) out.push_back(Tensor::from_host(value));
    return out;
  });
}

std::vector<Tensor> host_results(const std::string& name, const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& inputs, const std::source_location& where) {
  return in_context("", {}, where, [&] {
    for (const Tensor& result : results)
      require(result.is_materialized(),
              "host_region {}: the function must return tensors made from host data, but {} was "
              "traced",
              name, result.type());
    Trace& current = trace();
    Builder& outer = current.builder();
    const std::vector<Value> values = control::values_of(results);
    std::vector<Value> operands = values;
    for (const Value& input : control::values_of(inputs)) operands.push_back(input);
    Builder inner = current.program().computation("host_region");
    std::vector<Value> parameters;
    for (const Value& operand : operands)
      parameters.push_back(ops::parameter(inner, isize(parameters), operand.type()));
    parameters.resize(values.size());
    const Value root = ops::tuple(inner, parameters);
    const ComputationId id = current.program().add(std::move(inner), root);
    const std::string message = fmt::format(
        "!host_region {} has no gradient: give it a backward function, or stop_gradient() its inputs", name);
    outer.default_notes = with_frontend_attribute(current.notes(where), kGradientAttribute, message);
    const Value call = ops::call(outer, operands, id);
    outer.default_notes = current.notes(where);
    std::vector<Value> out;
    for (int k = 0; k < isize(values); ++k) out.push_back(ops::get_tuple_element(call, k));
    return control::tensors_of(out);
  });
}

}  // namespace detail

}  // namespace tessera
