// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/initialize.h"

#include "execution/execute.h"

namespace tessera {

bool is_deferred(const Tensor& variable) {
  const TensorImpl& impl = variable.impl();
  return (impl.stack ? *impl.stack : impl).node->is_deferred();
}

void initialize(const std::vector<Tensor>& variables) {
  if (is_planning()) return;
  trace().require_no_function("variables are initialized");
  std::vector<std::shared_ptr<Node>> nodes;
  for (const Tensor& variable : variables) {
    const TensorImpl& impl = variable.impl();
    nodes.push_back((impl.stack ? *impl.stack : impl).node.shared());
  }
  materialize(nodes);
}

}  // namespace tessera
