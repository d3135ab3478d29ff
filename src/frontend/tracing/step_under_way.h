// SPDX-License-Identifier: Apache-2.0
// The step that runs while the rank traces the next one (TESSERA_ASYNC). There is one at most: who needs the world, the arena or a
// value of it waits for it first.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "execution/execute.h"
#include "execution/execution_worker.h"

namespace tessera {

/// One per RankContext.
struct StepUnderWay {
  ExecutionWorker* worker = nullptr;  // of the context; made with the first step
  std::optional<bool> is_wanted;      // TESSERA_ASYNC, looked at once
  bool is_running = false;
  std::vector<std::weak_ptr<Node>> nodes;  // that its results are for, while somebody holds them
  std::vector<DeviceArray> results;        // once it has ended
};

/// True where steps run beside the trace.
bool steps_overlap();
/// Hands the run over and returns; the nodes have their values when it has been waited for.
void start_step(std::shared_ptr<Executable> executable, std::vector<DeviceArray> arguments,
                const std::vector<std::shared_ptr<Node>>& nodes, const RunReason& reason);

}  // namespace tessera
