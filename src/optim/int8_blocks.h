// SPDX-License-Identifier: Apache-2.0
// Eight bits for each element and a scale for each block of a row. The codes are finer near zero: a signed value is
// scale * sign(c) * (c / 127)^2, and a value that is never negative is scale * (c / 255)^4.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::optim {

struct Int8Blocks {
  Tensor codes;   // s8 or u8 with the dims of the values
  Tensor scales;  // f32: the largest magnitude of each block; the last dim counts the blocks of a row
};
/// The number of elements of a block. The last block of a row may have fewer.
inline constexpr std::int64_t kBlockSize = 256;
/// Whether an array has enough elements that its scales are few in comparison: 4096, as in other implementations.
bool is_worth_quantizing(const Dims& dims);
/// The dims of the scales.
Dims block_dims(const Dims& dims);
/// Rounds f32 values stochastically. A value that is not 0 gets a code that is not 0 if it is never negative: a second
/// moment of 0 would make the update infinite.
Int8Blocks quantize(const Tensor& x, bool is_signed);
/// The code of the largest magnitude of a block.
double largest_code(bool is_signed);
/// The f32 values.
Tensor dequantize(const Int8Blocks& blocks);

}  // namespace tessera::optim
