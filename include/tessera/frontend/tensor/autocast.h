// SPDX-License-Identifier: Apache-2.0
// Automatic choice of the element type of each function, as torch.autocast.
//
//   const Autocast scope(DType::kBF16);
//   loss = model(tokens, labels);       products in bf16, softmax, norms and losses in f32
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor/dtype.h"

namespace tessera {

/// What a function does with its operands of f32, f16 and bf16 in an Autocast scope. Other types, also f64, stay.
enum class AutocastRule : std::uint8_t {
  kLower,   // converts them to the type of the scope: products, convolutions, attention
  kFull,    // converts them to f32: softmax, norms, losses, sums, exponentials, logarithms, powers
  kWidest,  // converts them to the widest of their types: functions of several tensors that are not in the other lists
};
/// The rule of a function; nullopt: it has one operand and keeps its type. The names are those in errors: `matmul`.
std::optional<AutocastRule> autocast_rule(std::string_view function);
/// The functions of a list, by name.
std::vector<std::string> autocast_functions(AutocastRule rule);

/// A scope in which functions of this rank choose their element types. Parameters stay as they are stored, and so do
/// their gradients. Scopes may be nested; the innermost one counts. The backward pass uses the types of the forward
/// pass, wherever backward() is called.
class Autocast {
 public:
  /// `dtype` is bf16 or f16. With `enabled` false, functions in the scope behave as outside of any. Error for another type.
  explicit Autocast(DType dtype = DType::kBF16, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

}  // namespace tessera
