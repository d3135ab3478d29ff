// SPDX-License-Identifier: Apache-2.0
// Numbers that depend on the device.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/sharding/mesh.h"

namespace tessera {

/// One number per device; a device without one may get any number.
using DeviceColumn = std::vector<std::optional<std::int64_t>>;

/// Emits a number (number), or the number of the device that runs the program (device_number), as s32[].
Value number(Builder& builder, std::int64_t value);
Value device_number(Builder& builder);

/// This device's entry of `numbers` as s32[]: a constant, arithmetic on the digits of partition-id, or else a table of
/// the smallest sufficient integer type.
Value emit_by_device(Builder& builder, const Mesh& mesh, const DeviceColumn& numbers);

/// The number of all devices that have one (0 if none has); null if the numbers differ.
std::optional<std::int64_t> common_number(const DeviceColumn& numbers);

}  // namespace tessera
