// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel.h"

namespace tessera {

/// The kernel of a fused step, and the buffers that it reads and writes, in the order of its arguments.
struct FusedStep {
  KernelRef kernel;
  std::vector<BufferId> in;
  std::vector<BufferId> out;
  std::vector<std::string> fallbacks;  // ops in the group without a fast kernel
};
FusedStep make_fused_step(const Program& program, const Schedule& schedule, const Step& step, bool reference);

}  // namespace tessera
