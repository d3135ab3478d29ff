// SPDX-License-Identifier: Apache-2.0
// The backends: the ways to execute per-device programs. PJRT_DEVICE selects one by its name. No other code than that of a
// backend depends on it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "tessera/runtime/executable/executable.h"

namespace tessera {

class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// The value of PJRT_DEVICE.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The hash of everything that determines the executable: the program, the options, variables, the processor. Ranks that
  /// run an executable together must have equal hashes.
  [[nodiscard]] virtual std::size_t hash(const Program& program, const ProcessGroup& world,
                                         const ExecutableOptions& options) const = 0;
  /// Makes the executable with this hash. Collective over `world` if the program contains collectives. compile() caches
  /// the result, and has checked the number of devices and split the program into its stages.
  [[nodiscard]] virtual std::shared_ptr<Executable> build(const Program& program, ProcessGroup& world,
                                                          const ExecutableOptions& options, std::size_t hash) const = 0;
};

/// CPU: the lowered program, scheduled, with a kernel for each step.
const Backend& kernel_backend();
/// REFERENCE: each op by its definition, instruction by instruction, without lowering, schedule, memory plan and kernels.
const Backend& reference_backend();

/// The backend that PJRT_DEVICE names. Error with the known names if there is none.
const Backend& selected_backend();

}  // namespace tessera
