// SPDX-License-Identifier: Apache-2.0
// Trains GPT-2 on a text, from scratch:
//
//   mpirun -np 4 build/release/bin/run_clm --config_name examples/configs/gpt2_char.json --train_file kjv.txt
//     --block_size 64 --mesh data=2,model=2 --fsdp full_shard --tensor_parallel model --max_steps 1000
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/collectives/world.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/trainer/clm.h"

namespace {

std::optional<tessera::trainer::TrainingArguments> read_arguments(int argc, char** argv) {
  return tessera::trainer::parse_training_arguments(argc, argv, "run_clm",
                                                    "Trains GPT-2 on a text, over a mesh of MPI ranks.");
}

}  // namespace

int main(int argc, char** argv) {
  // Usage errors are reported once, before ranks exist, and have a separate exit status.
  constexpr int kUsageError = 2;
  try {
    if (!read_arguments(argc, argv)) return tessera::status_after_output(0);
  } catch (const tessera::Error& error) {
    return tessera::fail_before_world(fmt::format("run_clm: {}", error.what()), kUsageError);
  }
  return tessera::launch(argc, argv, [](int rank_argc, char** rank_argv) {
    return tessera::trainer::run_clm(*read_arguments(rank_argc, rank_argv));
  });
}
