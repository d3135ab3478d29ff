// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Moves the shardings of the parameters of loop bodies and conditions to the loops. A loop that has a sharding keeps
/// it; else it gets that of the body, else that of the condition.
Program with_one_loop_state(const Program& program);

}  // namespace tessera
