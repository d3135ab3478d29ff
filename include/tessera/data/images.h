// SPDX-License-Identifier: Apache-2.0
// Images from idx files (MNIST, Fashion-MNIST), plain or gzipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor/literal.h"

namespace tessera::data {

/// Reads an idx file, gzipped or not, as an array with the element type of the file. Errors name the path: not idx,
/// truncated, longer than its header specifies.
Literal read_idx(const std::string& path);
/// The same from bytes. Errors call them `name`.
Literal parse_idx(std::string_view bytes, const std::string& name);

/// Labelled images of one size.
struct ImageDataset {
  Literal images;  // u8[count, height, width]
  Literal labels;  // u8[count]
  int classes = 0;
  [[nodiscard]] std::int64_t size() const { return labels.type().dim(0); }
  /// Returns the pixels of the samples as f32[n, height * width], scaled to (pixel / 255 - mean) / deviation.
  [[nodiscard]] Literal pixels(const std::vector<std::int64_t>& samples, float mean = 0, float deviation = 1) const;
  /// Returns the labels of the samples as s32[n].
  [[nodiscard]] Literal classes_of(const std::vector<std::int64_t>& samples) const;
};

/// Reads `train` or `t10k` from a folder with the file names of MNIST. Error, with folder and file, if a file is
/// missing, the numbers of images and labels differ, or a label is not one of 0..most_classes - 1.
ImageDataset read_mnist(const std::string& folder, const std::string& part, int most_classes = 256);

/// The folder of Debian's dataset-fashion-mnist.
inline constexpr std::string_view kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

}  // namespace tessera::data
