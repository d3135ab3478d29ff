// SPDX-License-Identifier: Apache-2.0
// Converts programs to double precision: two orders of a sum then differ so little that any larger difference is a
// fault.
#pragma once

#include <optional>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Floats become f64 and c64 becomes c128. Constants keep their values. Values computed only from scalar constants are
/// computed in their original types, as a partitioner folds them, also in calls. An op that does not support the wider
/// types (such as bitcast-convert, which reads bits) is evaluated in its original types, between converts. Null if such
/// an op calls a computation.
std::optional<Program> with_wide_floats(const Program& program);

/// Converts a value to the types of the converted program.
Literal with_wide_floats(const Literal& value);

}  // namespace tessera
