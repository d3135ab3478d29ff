// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Takes shardings off the parameters of bodies and conditions of loops where the loop itself has one (or the body, for the condition).
Program with_one_loop_state(const Program& program);

}  // namespace tessera
