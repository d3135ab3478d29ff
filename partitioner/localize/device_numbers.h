// SPDX-License-Identifier: Apache-2.0
// Numbers that differ by device.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/sharding/mesh.h"

namespace tessera {

/// One per device; a device without one may get any.
using DeviceColumn = std::vector<std::optional<std::int64_t>>;

/// A number as s32[]; the number of the device that runs the program.
Value number(Builder& builder, std::int64_t value);
Value device_number(Builder& builder);

/// This device's number of `numbers` as s32[]: a constant, arithmetic on the digits of partition-id, or else a table of the smallest integers that
/// hold them.
Value emit_by_device(Builder& builder, const Mesh& mesh, const DeviceColumn& numbers);

/// The one number of all that have one (0 when none has); null when they differ.
std::optional<std::int64_t> common_number(const DeviceColumn& numbers);

}  // namespace tessera
