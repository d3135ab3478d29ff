// SPDX-License-Identifier: Apache-2.0
// Values in files of the host instead of memory.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera::ops {

/// Writes an array to a file of the host. The result has the same elements, and is in the file: it uses no memory of
/// the device. Only in the entry computation; elsewhere the result is in memory.
Value move_to_host(Value x);
/// Reads an array that is in a file into memory.
Value move_to_device(Value x);

}  // namespace tessera::ops
