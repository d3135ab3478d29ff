// SPDX-License-Identifier: Apache-2.0
// Variables that model folders hold in parts. A name with the component `*`, such as `experts.*.w1.weight`, stands for one
// tensor for each index of dim 0: `experts.0.w1.weight`, …. Checkpoints hold such a variable as one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/tensor/type.h"

namespace tessera {

[[nodiscard]] bool has_parts(std::string_view name);
/// The name of part `index`. Needs has_parts(name).
[[nodiscard]] std::string part_name(std::string_view name, std::int64_t index);
/// The names of which `name` may be a part: one component that is a number is replaced by `*`.
[[nodiscard]] std::vector<std::string> names_with_part(std::string_view name);
/// The tensors in model folders: the variable itself, or its parts in order. The elements of all parts one after the other
/// are those of the variable.
[[nodiscard]] std::vector<std::pair<std::string, Type>> file_tensors(const std::string& name, const Type& type);

}  // namespace tessera
