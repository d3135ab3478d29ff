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

/// How a function converts its operands of type f32, f16 and bf16 in an Autocast scope. Operands of other types, such
/// as f64, do not change.
enum class AutocastRule : std::uint8_t {
  kLower,   // converts them to the type of the scope: products, convolutions, attention
  kFull,    // converts them to f32: softmax, norms, losses, sums, exponentials, logarithms, powers
  kWidest,  // converts them to the widest of their types: functions of several tensors that are not in the other lists
};
/// Returns the rule of a function; nullopt for a function of one operand that keeps its type. Names are those in
/// errors, such as `matmul`.
std::optional<AutocastRule> autocast_rule(std::string_view function);
/// Returns the names of the functions with this rule.
std::vector<std::string> autocast_functions(AutocastRule rule);

/// A scope in which functions of this rank choose their element types. The types of parameters and of their gradients
/// do not change. Scopes may be nested; the innermost one applies. The backward pass uses the types of the forward
/// pass, wherever backward() is called.
class Autocast {
 public:
  /// `dtype` is bf16 or f16. If `enabled` is false, functions behave as outside of all scopes. Error for another type.
  explicit Autocast(DType dtype = DType::kBF16, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

}  // namespace tessera
