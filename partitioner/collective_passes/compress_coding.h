// SPDX-License-Identifier: Apache-2.0
// What f32 travels as between devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// Codes each of n parts by itself, so that whoever gets some parts can decode them.
class Coding {
 public:
  virtual ~Coding() = default;
  /// Said in reasons: `bf16`.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether a number becomes a number in its place, so that parts need not be told apart.
  [[nodiscard]] virtual bool keeps_shape() const = 0;
  /// f32 [n, ..] -> arrays [n, ..] that travel, each by a collective of its own.
  [[nodiscard]] virtual std::vector<Value> encode(Value parts) const = 0;
  /// What arrived, [m, ..] each -> f32 [m, dims..].
  [[nodiscard]] virtual Value decode(const std::vector<Value>& arrived, const Dims& dims) const = 0;
};

/// Each number rounded to bf16.
std::unique_ptr<Coding> bf16_coding();
/// Blocks of 256 numbers as whole multiples, -127 to 127, of a 127th of the largest magnitude, which travels too: an error of at most a 254th
/// of that, however small it is. A block with an infinity or a NaN arrives as NaNs.
std::unique_ptr<Coding> int8_coding();

}  // namespace tessera
