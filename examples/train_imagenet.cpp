// SPDX-License-Identifier: Apache-2.0
// Trains a classifier of images and reports images per second:
//
//   mpirun -np 4 build/release/bin/train_imagenet --fake_data --model resnet18 --batch_size 8 --num_epochs 1
//   mpirun -np 4 build/release/bin/train_imagenet --datadir imagenet --mesh data=2,rows=2 --spatial_sharding rows
#include "tessera/trainer/programs.h"

int main(int argc, char** argv) {
  return tessera::trainer::training_main(argc, argv,
                                         {.program = "train_imagenet",
                                          .about = "Trains a classifier of images, over a mesh of MPI ranks.",
                                          .standard = tessera::trainer::image_defaults(),
                                          .run = tessera::trainer::train_imagenet});
}
