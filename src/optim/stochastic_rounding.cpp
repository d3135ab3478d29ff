// SPDX-License-Identifier: Apache-2.0
#include "stochastic_rounding.h"

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::optim {

Tensor stochastically_rounded(const Tensor& x) {
  constexpr std::uint32_t kDropped = 0xffff;  // the bits that bf16 does not have
  const Tensor rounded = trace().record(std::source_location::current(), [&](Builder& builder) {
    const Value value = trace().stored(x);
    const Type words = value.type().with_dtype(DType::kU32);
    const auto all = [&](std::uint32_t word) {
      return ops::splat(ops::constant(builder, Literal::scalar(word)), words.dims());
    };
    const Value random = ops::logical_and(ops::random_bits(trace().random_key(), words.dims()), all(kDropped));
    const Value sum = ops::add(ops::bitcast_convert(value, words), random);
    return ops::bitcast_convert(ops::logical_and(sum, all(~kDropped)), value.type());
  });
  return where(isfinite(x), rounded, x).to(DType::kBF16);
}

}  // namespace tessera::optim
