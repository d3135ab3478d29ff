// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/generation/key_value_cache.h"

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/update_slice.h"

namespace tessera::nn {

Tensor cached_attention(KeyValueCache& cache, std::int64_t layer, const StepPlace& place, const Tensor& q,
                        const Tensor& k, const Tensor& v, AttentionSettings settings) {
  require(layer >= 0 && layer < isize(cache.keys), "the cache has {} layers, not a layer {}", cache.keys.size(), layer);
  Tensor& keys = at(cache.keys, layer);
  Tensor& values = at(cache.values, layer);
  keys = update_slice(keys, k.to(keys.dtype()), place.start, 1);
  values = update_slice(values, v.to(values.dtype()), place.start, 1);
  settings.causal = true;
  settings.query_offset = place.start;
  settings.mask = place.visible;
  // The new rows are converted, not the cache.
  return dot_product_attention(q.to(keys.dtype()), keys, values, settings).to(q.dtype());
}

}  // namespace tessera::nn
