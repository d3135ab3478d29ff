// SPDX-License-Identifier: Apache-2.0
// The main function of tests under mpirun (tessera_test with RANKS). Every rank runs every test. Rank 0 prints
// everything, the other ranks print only failures. A fatal failure ends all ranks immediately, because peers would wait
// for the rank that left its test. Other failures are collected at the end.
#pragma once

#include "tessera/collectives/world.h"

namespace tessera::testing {

/// The world of the ranks that mpirun started.
Communicator& world();

}  // namespace tessera::testing
