// SPDX-License-Identifier: Apache-2.0
// The state that an optimizer keeps for each parameter, and its formats in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::optim {

/// How state is stored. In every format, updates are computed in f32 at least.
enum class StateFormat : std::uint8_t {
  kFull,  // f64 for f64 parameters, else f32
  kBF16,  // rounded stochastically, so that small changes are not lost
  kInt8,  // 8 bits for each element and an f32 scale for each block of 256 elements of a row
};
/// Reads f32, bf16 or int8, or PyTorch's names float32 and bfloat16. The error contains the nearest name.
StateFormat state_format_from_name(const std::string& name);

struct StateOptions {
  StateFormat format = StateFormat::kFull;
  bool is_signed = true;  // false: values are never negative
  double initial = 0;     // of every element; not negative
  /// The dims of a parameter that its state does not have. By default the state has all dims.
  std::function<std::vector<int>(const Tensor& parameter)> without_dims{};
  /// True if a parameter has this state. By default all parameters have it.
  std::function<bool(const Tensor& parameter)> has_state{};
};

/// A state variable and its name.
struct NamedState {
  std::string name;
  Tensor tensor;
};

/// The numbers of state variables that have the requested format, and of those that have another one.
struct FormatCounts {
  StateFormat format = StateFormat::kFull;
  std::int64_t as_asked = 0;
  std::int64_t others = 0;
  std::int64_t elements = 0;
  std::int64_t other_elements = 0;
};

/// The element type of updates: f64 for f64 parameters, else f32.
DType update_dtype(const Tensor& parameter);

/// One quantity, such as exp_avg, of all parameters of an optimizer.
class StateQuantity {
 public:
  /// Makes variables with the names PREFIX.NAME, and PREFIX.scale.NAME for the scales of kInt8. Their elements have the
  /// initial value of the options.
  StateQuantity(const std::string& prefix, const std::vector<Tensor>& parameters, StateOptions options);
  /// Whether parameter number `index` has this state.
  [[nodiscard]] bool has(int index) const;
  /// The current value for parameter number `index`, in the element type of updates.
  [[nodiscard]] Tensor read(int index) const;
  /// Gives the state a new value if `applies` is true or null.
  void write(int index, const Tensor& value, const Tensor& applies);
  /// Appends the variables of parameter number `index`.
  void append_to(std::vector<NamedState>& out, int index) const;
  /// Adds the numbers of state variables and elements in the format of the options, and of those in another format.
  void count_formats(FormatCounts& counts) const;
  /// Gives state that has no value yet the sharding of the gradient of its parameter.
  void place(int index, const Tensor& parameter);

 private:
  struct Entry {
    Tensor values;
    Tensor scales;  // kInt8: one for each block
    std::vector<int> without_dims;
    DType dtype{};  // of updates
    bool is_placed = false;
  };
  StateOptions options_;
  std::vector<Entry> entries_;
};

}  // namespace tessera::optim
