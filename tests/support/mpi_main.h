// SPDX-License-Identifier: Apache-2.0
// The main of tests under mpirun (tessera_test with RANKS). Every rank runs every test. Rank 0 prints, the others print failures
// only. A fatal failure ends all ranks at once, since peers would wait for the rank that left its test; other failures are
// gathered at the end.
#pragma once

#include "tessera/collectives/world.h"

namespace tessera::testing {

/// The ranks that mpirun started.
Communicator& world();

}  // namespace tessera::testing
