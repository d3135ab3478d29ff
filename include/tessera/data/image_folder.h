// SPDX-License-Identifier: Apache-2.0
// Image files, and folders of them with one sub-folder for each class.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/source.h"

namespace tessera::data {

/// Reads a PNG, PPM or PGM file (binary, `P5` or `P6`) as u8[height, width, channels]. `channels` is 3 (RGB) or 1
/// (grey); other images are converted. Palettes and 16-bit channels become 8-bit channels. Transparent pixels are
/// composed over black. Errors name the path: another format, damaged, truncated, larger than 256 MiB.
Literal read_image(const std::string& path, int channels);
/// The same from bytes. Errors call them `name`.
Literal parse_image(std::string_view bytes, const std::string& name, int channels);

/// The images of a folder: FOLDER/CLASS/…/FILE with the suffix .png, .ppm or .pgm, in lower or upper case. The classes
/// are the sub-folders, sorted by name. Hidden files and folders, whose names begin with a dot, are left out, and so
/// are other files, with a warning. A sample has `pixel_values` f32[channels, height, width] with values from 0 to 1,
/// and `labels` s32[].
class ImageFolder final : public Source {
 public:
  /// Errors: no sub-folder; no image in a sub-folder; channels other than 1 and 3. Does not read images yet.
  explicit ImageFolder(const std::string& folder, int channels = 3);
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] Arrays get(std::int64_t i) const override;
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
  [[nodiscard]] const std::string& path(std::int64_t i) const;

 private:
  struct File {
    std::string path;
    std::int32_t label = 0;
  };
  int channels_;
  std::vector<std::string> classes_;
  std::vector<File> files_;  // by class, then by path
};

}  // namespace tessera::data
