// SPDX-License-Identifier: Apache-2.0
// Encodings of f32 values for transfers between devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// Encodes each of n parts separately, so that a device that receives only some parts can decode them.
class Coding {
 public:
  virtual ~Coding() = default;
  /// The name shown in reasons: `bf16`.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether the encoding maps each number to one number, so that it need not know the parts.
  [[nodiscard]] virtual bool keeps_shape() const = 0;
  /// f32 [n, ..] -> arrays [n, ..], each of which is sent by a separate collective.
  [[nodiscard]] virtual std::vector<Value> encode(Value parts) const = 0;
  /// Received arrays, each [m, ..] -> f32 [m, dims..].
  [[nodiscard]] virtual Value decode(const std::vector<Value>& arrived, const Dims& dims) const = 0;
};

/// Rounds each number to bf16.
std::unique_ptr<Coding> bf16_coding();
/// Encodes blocks of 256 numbers as integers from -127 to 127 in units of 1/127 of the block's largest magnitude, which
/// is sent too. The error is at most 1/254 of that magnitude, even if it is subnormal. A block that contains an
/// infinity or a NaN decodes to NaNs.
std::unique_ptr<Coding> int8_coding();

}  // namespace tessera
