// SPDX-License-Identifier: Apache-2.0
// Trains a causal language model on a text, from scratch:
//
//   mpirun -np 4 build/release/bin/run_clm --config_name examples/configs/gpt2_char.json --train_file kjv.txt
//     --block_size 64 --mesh data=2,model=2 --fsdp full_shard --tensor_parallel model --max_steps 1000
#include "tessera/trainer/clm.h"
#include "tessera/trainer/programs.h"

int main(int argc, char** argv) {
  return tessera::trainer::training_main(argc, argv,
                                         {.program = "run_clm",
                                          .about = "Trains a causal language model (GPT-2, Llama, Mistral, Qwen2, "
                                                   "Qwen3 or Mixtral) on a text, over a mesh of MPI ranks.",
                                          .run = tessera::trainer::run_clm});
}
