// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/tree.h"

#include <memory>

#include "tessera/frontend/tracing/inner.h"

namespace tessera::detail {

std::string TypesText::type_text(const Tensor& tensor) {
  if (tensor.is_null()) return "null";
  const std::optional<Sharding> sharding = tensor.sharding();
  return tensor.type().str() + (!sharding || sharding->is_replicated() ? "" : " " + sharding->str());
}

Tensor placeholder() { return Tensor(std::make_shared<TensorImpl>()); }

}  // namespace tessera::detail
