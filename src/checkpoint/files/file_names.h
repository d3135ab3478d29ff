// SPDX-License-Identifier: Apache-2.0
// Names of files and folders.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Of Hugging Face.
inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";
// The end of the name of a file or a checkpoint that is not complete.
inline constexpr std::string_view kPartial = ".partial";
/// The path without slashes at its end, to which such a suffix can be added.
inline std::string without_end_slash(const std::string& path) {
  const auto last = path.find_last_not_of('/');
  return last == std::string::npos ? path : path.substr(0, last + 1);
}

}  // namespace tessera
