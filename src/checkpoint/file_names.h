// SPDX-License-Identifier: Apache-2.0
// The names of Hugging Face's files.
#pragma once

namespace tessera {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

}  // namespace tessera
