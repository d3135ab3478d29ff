// SPDX-License-Identifier: Apache-2.0
// Composes two permutes of a shard into one: permute(f(permute(x))) becomes permute(f(x)).
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Requires a per-device program. f must compute the same function on every device and depend only on the permuted
/// value, no other instruction may read the values in between, and every device that sends in the second permute must
/// receive in the first.
Program compose_permutes(const Program& program);

}  // namespace tessera
