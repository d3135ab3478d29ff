// SPDX-License-Identifier: Apache-2.0
// Trains a BERT to classify texts, or pairs of texts, in TSV files as those of GLUE:
//
//   mpirun -np 4 build/release/bin/run_classification --model_name_or_path bert-base-uncased --train_file QNLI/train.tsv
//     --validation_file QNLI/dev.tsv --max_seq_length 128 --output_dir qnli
#include "tessera/trainer/programs.h"

int main(int argc, char** argv) {
  return tessera::trainer::training_main(
      argc, argv,
      {.program = "run_classification",
       .about = "Trains a BERT to classify texts or pairs of texts, over a mesh of MPI ranks.",
       .standard = tessera::trainer::classification_defaults(),
       .run = tessera::trainer::run_classification});
}
