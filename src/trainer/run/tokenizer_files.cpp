// SPDX-License-Identifier: Apache-2.0
#include "run/tokenizer_files.h"

#include <algorithm>
#include <filesystem>

#include "tessera/base/files.h"
#include "tessera/checkpoint/pretrained.h"

namespace tessera::trainer {
namespace {

namespace fs = std::filesystem;

bool has_known_name(const fs::path& file) {
  const auto names = tokenizer_file_names();
  return std::find(names.begin(), names.end(), file.filename().string()) != names.end();
}

}  // namespace

void write_tokenizer(const std::string& name, const data::Tokenizer* tokenizer, const std::string& folder) {
  const fs::path given(name);
  if (fs::is_directory(given)) return copy_tokenizer(name, folder);
  if (fs::is_regular_file(given) && has_known_name(given)) {
    const fs::path place = given.parent_path();  // a merges.txt has its vocab.json beside it
    return copy_tokenizer(place.empty() ? "." : place.string(), folder);
  }
  const std::string merges = tokenizer != nullptr ? tokenizer->vocabulary() : "";
  if (!merges.empty()) write_file((fs::path(folder) / "vocab.bpe").string(), merges);
}

}  // namespace tessera::trainer
