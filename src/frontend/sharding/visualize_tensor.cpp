// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "execution/execute.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera {

std::string visualize_sharding(const Tensor& tensor, const VisualizeOptions& options) {
  return visualize_sharding(tensor.type(), storage_of(*tensor.impl().node), options);
}

void visualize_tensor_sharding(const Tensor& tensor, VisualizeOptions options, std::ostream& out) {
  options.color = options.color || (&out == &std::cout && isatty(STDOUT_FILENO) == 1);
  out << tensor.type().str() << ' ' << storage_of(*tensor.impl().node).str() << '\n'
      << visualize_sharding(tensor, options);
}

}  // namespace tessera
