// SPDX-License-Identifier: Apache-2.0
// Whether parts of an array have elements in common.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "manifest.h"

namespace tessera {

using TwoParts = std::pair<const TensorPart*, const TensorPart*>;
/// Two parts of an array that have an element in common; nullopt if there are none. For tiles of a grid, which may be divided
/// again, it takes little more time than to sort them. Parts without elements are ignored.
std::optional<TwoParts> parts_in_common(const std::vector<TensorPart>& parts);

}  // namespace tessera
