// SPDX-License-Identifier: Apache-2.0
// Shards that change devices twice change once: permute(f(permute(x))) becomes permute(f(x)).
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Of per-device programs. f computes the same on every device, of what it is given alone; nobody else reads what lies between; and
/// every device whose value the second permute sends has received one in the first.
Program compose_permutes(const Program& program);

}  // namespace tessera
