// SPDX-License-Identifier: Apache-2.0
// Images from idx files (MNIST, Fashion-MNIST), plain or gzipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor/literal.h"

namespace tessera::data {

/// Reads an idx file, gzipped or not, as an array of its own element type. Errors name the path: not idx, cut short, longer than its
/// header says.
Literal read_idx(const std::string& path);
/// The same from bytes; `name` is what errors call them.
Literal parse_idx(std::string_view bytes, const std::string& name);

/// Labelled images of one size.
struct ImageDataset {
  Literal images;  // u8[count, height, width]
  Literal labels;  // u8[count]
  int classes = 0;
  [[nodiscard]] std::int64_t size() const { return labels.type().dim(0); }
  /// The samples' pixels as f32[n, height * width], scaled to (pixel / 255 - mean) / deviation.
  [[nodiscard]] Literal pixels(const std::vector<std::int64_t>& samples, float mean = 0, float deviation = 1) const;
  /// The samples' labels as s32[n].
  [[nodiscard]] Literal classes_of(const std::vector<std::int64_t>& samples) const;
};

/// `train` or `t10k` of a folder with MNIST's file names. Error naming folder and file when one is missing, or when images and labels
/// differ in number.
ImageDataset read_mnist(const std::string& folder, const std::string& part);

/// Where Debian's dataset-fashion-mnist puts its files.
inline constexpr std::string_view kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

}  // namespace tessera::data
