// SPDX-License-Identifier: Apache-2.0
#include "transformer/layer_parts.h"

#include <algorithm>

#include "tessera/base/text.h"

namespace tessera::nn::detail {

void check_activation(std::string_view layer, const TransformerOptions& options) {
  const auto& known = activation_names();
  require(std::find(known.begin(), known.end(), options.activation) != known.end(), "{}: unknown activation \"{}\"{}",
          layer, options.activation, [&] { return suggest_name(options.activation, known); });
}

void check_sequence(std::string_view layer, std::string_view name, const Tensor& x, std::int64_t d_model,
                    bool batch_first) {
  require(x.ndim() == 3 && x.dim(2) == d_model, "{}: {} must be [{}, {}], got {}", layer, name,
          batch_first ? "batch, time" : "time, batch", d_model, x.type());
}

}  // namespace tessera::nn::detail
