// SPDX-License-Identifier: Apache-2.0
// The resources and settings of a job, which follow from the machine, the launcher and the environment variables.
// `tessera env` prints it.
//
//   launch(argc, argv, [](int, char**) {
//     if (job_info().ranks > 1) …
//     std::cout << environment().str();
//   });
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/memory_limit.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {

/// The resources and settings of a job on this rank.
struct Environment {
  std::string build;                      // the version and the linker's build id
  std::string backend;                    // PJRT_DEVICE
  std::string_view instruction_set;       // of the kernels (TESSERA_ISA)
  std::string_view best_instruction_set;  // of those that the processor of this rank supports
  JobInfo job;
  std::string exchange;             // how ranks exchange data: `shared memory, in place; MPI between nodes`
  std::int64_t threads = 1;         // compute threads of each rank
  int cores = 1;                    // that this rank may use
  std::vector<SharedLimit> memory;  // of the machine and the control groups of this rank
  std::string memory_limit;         // TESSERA_MEMORY_LIMIT; "": none
  std::vector<std::pair<std::string, std::string>> variables;  // of Options::table() that are set

  /// One line for each fact.
  [[nodiscard]] std::string str() const;
};
/// The environment of this rank. Error if TESSERA_ISA names a set that the processor does not support.
Environment environment();

}  // namespace tessera
