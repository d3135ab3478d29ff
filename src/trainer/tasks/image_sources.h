// SPDX-License-Identifier: Apache-2.0
// Images of one size to train on: those of a folder, and images that are made up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/data/collate.h"
#include "tessera/data/image_folder.h"
#include "tessera/data/source.h"

namespace tessera::trainer {

/// The images of a folder. Each is scaled so that its shorter side has `size` pixels, the square in its centre is taken, and
/// its channels are normalized with the means and deviations of ImageNet.
class SquareImages final : public data::Source {
 public:
  SquareImages(std::shared_ptr<const data::ImageFolder> folder, std::int64_t size)
      : folder_(std::move(folder)), size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return folder_->size(); }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override;

 private:
  std::shared_ptr<const data::ImageFolder> folder_;
  std::int64_t size_;
};

/// Noise with a pattern for each class, equal on every rank. Sample i has class i modulo `classes`.
class FakeImages final : public data::Source {
 public:
  FakeImages(std::int64_t count, std::int64_t classes, std::int64_t size)
      : count_(count), classes_(classes), size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override;

 private:
  std::int64_t count_, classes_, size_;
};

/// A part of an image in pixels, which may begin and end between pixels.
struct ImagePart {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
  bool is_mirrored = false;  // left and right
};
/// Returns a random part for training (Szegedy et al., 2015): of 8% to 100% of the area, with a ratio of its sides from 3:4
/// to 4:3, mirrored with probability 1/2. It follows from `seed`.
ImagePart random_part(std::int64_t height, std::int64_t width, std::uint64_t seed);
/// Scales a part of `image` [channels, height, width] to `size` x `size` pixels with bilinear interpolation.
Literal scaled_part(const Literal& image, const ImagePart& part, std::int64_t size);

/// Makes rows of random parts of images of any size, normalized as SquareImages. The parts follow from the seed, the epoch
/// and the number of the sample, so they do not depend on ranks, threads or batches.
class RandomParts final : public data::Collator {
 public:
  explicit RandomParts(std::int64_t size) : size_(size) {}
  [[nodiscard]] data::Arrays collate(const std::vector<data::Arrays>& samples,
                                     const data::RowsToMake& request) const override;

 private:
  std::int64_t size_;
};

/// Returns the square in the centre of `image` [channels, height, width], `size` pixels wide, with bilinear interpolation.
Literal centre_square(const Literal& image, std::int64_t size);

}  // namespace tessera::trainer
