// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/collectives/world.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/trainer/programs.h"

namespace tessera::trainer {

int training_main(int argc, char** argv, const TrainingMain& main) {
  const auto read = [&main](int count, char** words) {
    return parse_training_arguments(count, words, main.program, main.about, main.standard);
  };
  // Usage errors are reported once, before ranks exist, and have a separate exit status.
  constexpr int kUsageError = 2;
  try {
    if (!read(argc, argv)) return status_after_output(0);
  } catch (const Error& error) {
    return fail_before_world(fmt::format("{}: {}", main.program, error.what()), kUsageError);
  }
  return launch(argc, argv, [&](int rank_argc, char** rank_argv) { return main.run(*read(rank_argc, rank_argv)); });
}

}  // namespace tessera::trainer
