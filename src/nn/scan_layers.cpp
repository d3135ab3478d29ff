// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/scan_layers.h"

#include <vector>

#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/tensor/stack.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn::detail {
namespace {

// Lets the parameters of the layer be other values within a scope.
class ParametersScope {
 public:
  ParametersScope(const std::vector<Tensor>& parameters, const std::vector<Tensor>& rows) : parameters_(parameters) {
    Trace& current = trace();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      TensorImpl& impl = parameters[i].impl();
      stacks_.push_back(impl.node);
      const Tensor row = current.wrap(current.use_row(impl, current.use(rows[i])));
      rows_.push_back(row.impl().node);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].impl().node = rows_[i];
  }
  ~ParametersScope() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].impl().node = stacks_[i];
  }
  ParametersScope(const ParametersScope&) = delete;
  ParametersScope& operator=(const ParametersScope&) = delete;

 private:
  const std::vector<Tensor>& parameters_;
  std::vector<NodeHandle> stacks_;
  std::vector<NodeHandle> rows_;
};

}  // namespace

void stack_layers(Module& layer, std::int64_t count) {
  require(layer.named_buffers().empty(),
          "ScanLayers: {} has the buffer {}, but the layers of a loop cannot assign buffers", layer.class_name(),
          [&] { return layer.named_buffers().front().name; });
  for (const Tensor& parameter : layer.parameters()) make_stack(parameter, count);
}

void check_carry(const Module& layer, const std::string& expected, const std::string& got) {
  require(expected == got, "ScanLayers: {} returns another structure than that of its carry: {} and {}",
          layer.class_name(), got, expected);
}

std::vector<Tensor> scan_layers(Module& layer, const std::vector<Tensor>& carry, bool with_checkpoint,
                                const LayerCall& call) {
  const std::vector<Tensor> parameters = layer.parameters();
  require(!parameters.empty(), "ScanLayers: {} has no parameters", layer.class_name());
  const std::source_location where = trace().call_site(std::source_location::current());
  const TraceScope scope(layer.path(), layer.unit());
  const auto step = [&](const std::vector<Tensor>& now, const std::vector<Tensor>& rows) {
    const ParametersScope of_one_layer(parameters, rows);
    std::vector<Tensor> next = with_checkpoint ? checkpoint(call, where)(now) : call(now);
    for (std::size_t i = 0; i < now.size(); ++i)
      require(next[i].type() == now[i].type(), "ScanLayers: {} returns {} for tensor {} of its carry, which is {}",
              layer.class_name(), next[i].type(), i, now[i].type());
    return std::pair(std::move(next), std::vector<Tensor>{});
  };
  return scan(step, carry, parameters, {}, where).first;
}

}  // namespace tessera::nn::detail
