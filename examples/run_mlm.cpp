// SPDX-License-Identifier: Apache-2.0
// Trains a BERT to predict masked tokens of a text:
//
//   mpirun -np 4 build/release/bin/run_mlm --config_name tiny --train_file kjv.txt --max_seq_length 64
//     --mesh data=2,fsdp=2 --fsdp full_shard --max_steps 1000 --output_dir mlm
#include "tessera/trainer/programs.h"

int main(int argc, char** argv) {
  return tessera::trainer::training_main(
      argc, argv,
      {.program = "run_mlm",
       .about = "Trains a BERT to predict masked tokens of a text, over a mesh of MPI ranks.",
       .standard = tessera::trainer::mlm_defaults(),
       .run = tessera::trainer::run_mlm});
}
