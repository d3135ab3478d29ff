// SPDX-License-Identifier: Apache-2.0
// The bytes that the execution of a program moves between a device and its memory.
#pragma once

#include <cstdint>

#include "tessera/ir/program.h"

namespace tessera::trainer {

/// The bytes of the entry computation that one device reads and writes in memory. An op reads its operands and writes its
/// result. Exceptions: an elementwise op only writes, because it runs in one group with the op of its operand, and it
/// does not even write if all readers of its result are elementwise ops, broadcasts or reductions, which then belong to
/// the group. Ops that only move elements are read through other strides, and collectives are counted by their links.
std::int64_t memory_traffic(const Program& program);

}  // namespace tessera::trainer
