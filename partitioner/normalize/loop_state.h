// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Removes shardings from the parameters of loop bodies and conditions if the loop itself has one (or the body, for the
/// condition).
Program with_one_loop_state(const Program& program);

}  // namespace tessera
