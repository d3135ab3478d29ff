// SPDX-License-Identifier: Apache-2.0
// Trains a BERT to classify texts, or pairs of texts, in the TSV files of GLUE or in others:
//
//   mpirun -np 4 build/release/bin/run_classification --model_name_or_path bert-base-uncased --task_name qnli
//     --data_dir glue_data --max_seq_length 128 --output_dir qnli
#include "tessera/trainer/programs.h"

int main(int argc, char** argv) {
  return tessera::trainer::training_main(
      argc, argv,
      {.program = "run_classification",
       .about = "Trains a BERT to classify texts or pairs of texts, over a mesh of MPI ranks.",
       .standard = tessera::trainer::classification_defaults(),
       .run = tessera::trainer::run_classification});
}
