// SPDX-License-Identifier: Apache-2.0
// Memory of this process as the system counts it.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::bench {

/// Bytes of this process now; a page that n processes share counts as 1/n in each (PSS).
std::int64_t resident_bytes();
/// The most that samples taken while `work` runs see.
std::int64_t peak_resident_bytes(const std::function<void()>& work);

}  // namespace tessera::bench
