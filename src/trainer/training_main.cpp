// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tessera/base/command_line.h"
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
  // Errors of the command line are reported once, before ranks exist.
  try {
    if (!read(argc, argv)) return status_after_output(0);
  } catch (const std::exception& error) {
    return fail_before_world(fmt::format("{}: {}", main.program, message_for_user(error)), exit_code_of(error));
  }
  return launch(argc, argv, [&](int rank_argc, char** rank_argv) { return main.run(*read(rank_argc, rank_argv)); });
}

}  // namespace tessera::trainer
