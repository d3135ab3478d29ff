// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Collectives in which every device is alone give what they are given; the only device is number 0. Dumps of programs over axes of
/// size 1 hold both outside of manual regions.
Program without_lone_collectives(const Program& program);

}  // namespace tessera
