// SPDX-License-Identifier: Apache-2.0
// Programs with every float in double precision: two orders of a sum then differ by so little that a difference is a fault.
#pragma once

#include <optional>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Floats become f64, c64 becomes c128; constants keep their values, and what is computed of nothing but constants is computed in its own
/// types, as a partitioner folds it. An op whose row does not take the wider types (bitcast-convert, which sees bits) is evaluated in its own, between converts. Null when such an op calls a
/// computation.
std::optional<Program> with_wide_floats(const Program& program);

/// A value of the types that its type has there.
Literal with_wide_floats(const Literal& value);

}  // namespace tessera
