// SPDX-License-Identifier: Apache-2.0
#include "int8_blocks.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera::optim {
namespace {

constexpr std::int64_t kFewestElements = 4096;
constexpr double kLargestSigned = 127;
constexpr double kLargestUnsigned = 255;

std::int64_t block_of(const Dims& dims) { return std::min(dims.back(), kBlockSize); }

// [..., n] -> [..., blocks, elements of a block]; missing elements are 0.
Tensor in_blocks(const Tensor& x) {
  const Dims scales = block_dims(x.dims());
  const std::int64_t size = block_of(x.dims());
  const std::int64_t missing = scales.back() * size - x.dim(-1);
  Dims dims = scales;
  dims.push_back(size);
  return (missing > 0 ? pad(x, -1, 0, missing) : x).reshape(std::move(dims));
}

// The scale of the block of each element: the dims of the elements.
Tensor for_elements(const Tensor& scales, const Dims& dims) {
  if (scales.dim(-1) == 1) return scales.broadcast_to(dims);
  Dims blocks = scales.dims();
  blocks.push_back(kBlockSize);
  Dims rows = scales.dims();
  rows.back() *= kBlockSize;
  const Tensor out = scales.unsqueeze(-1).broadcast_to(std::move(blocks)).reshape(std::move(rows));
  return out.dim(-1) == dims.back() ? out : out.slice(-1, 0, dims.back());
}

}  // namespace

bool is_worth_quantizing(const Dims& dims) { return !dims.empty() && product(dims) >= kFewestElements; }

Dims block_dims(const Dims& dims) {
  Dims out = dims;
  out.back() = (dims.back() + block_of(dims) - 1) / block_of(dims);
  return out;
}

double largest_code(bool is_signed) { return is_signed ? kLargestSigned : kLargestUnsigned; }

Int8Blocks quantize(const Tensor& x, bool is_signed) {
  const Tensor magnitude = abs(x);
  const Tensor scales = block_dims(x.dims()).back() == 1 ? max(magnitude, {.dims = {-1}, .keep_dims = true})
                                                         : max(in_blocks(magnitude), -1);
  const Tensor scale = for_elements(scales, x.dims());
  const Tensor fraction = where(scale > 0.0, magnitude / scale, 0.0);
  const double largest = largest_code(is_signed);
  const Tensor exact = (is_signed ? sqrt(fraction) : sqrt(sqrt(fraction))) * largest;
  Tensor code = minimum(floor(exact + random_uniform(x.type())), largest);
  if (is_signed) return {(code * sign(x)).to(DType::kS8), scales};
  code = where(fraction > 0.0, maximum(code, 1.0), code);
  return {code.to(DType::kU8), scales};
}

Tensor dequantize(const Int8Blocks& blocks) {
  const bool is_signed = blocks.codes.dtype() == DType::kS8;
  const Tensor code = blocks.codes.to(DType::kF32) * (1 / largest_code(is_signed));
  const Tensor scale = for_elements(blocks.scales, blocks.codes.dims());
  return is_signed ? code * abs(code) * scale : square(square(code)) * scale;
}

}  // namespace tessera::optim
