// SPDX-License-Identifier: Apache-2.0
// Names of files and folders.
#pragma once

#include <string_view>

namespace tessera {

// Of Hugging Face.
inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";
// The end of the name of a file or a checkpoint that is not complete.
inline constexpr std::string_view kPartial = ".partial";

}  // namespace tessera
