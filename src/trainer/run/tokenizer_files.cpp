// SPDX-License-Identifier: Apache-2.0
#include "run/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/checkpoint/pretrained.h"

namespace tessera::trainer {
namespace {

namespace fs = std::filesystem;

bool has_known_name(const fs::path& file) {
  const auto names = tokenizer_file_names();
  return std::find(names.begin(), names.end(), file.filename().string()) != names.end();
}

using Files = std::map<std::string, std::string>;  // content by name

void add(const fs::path& file, Files& out, const std::string& name) {
  if (fs::is_regular_file(file)) out[name] = read_file(file.string());
}

// The files of a tokenizer that was read from `given`, under the names with which a model folder has them.
Files files_of(const fs::path& given) {
  Files out;
  if (fs::is_directory(given)) {
    for (const std::string_view name : tokenizer_file_names()) add(given / name, out, std::string(name));
    return out;
  }
  const std::string text = read_file(given.string());
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  out[has_known_name(given) ? given.filename().string() : is_json ? "tokenizer.json" : "vocab.txt"] = text;
  if (given.filename() == "merges.txt") add(given.parent_path() / "vocab.json", out, "vocab.json");
  if (!out.contains("merges.txt")) add(given.parent_path() / "tokenizer_config.json", out, "tokenizer_config.json");
  return out;
}

}  // namespace

void write_tokenizer(const std::string& name, const data::Tokenizer* tokenizer, const std::string& folder) {
  std::error_code ignored;
  if (fs::equivalent(name, folder, ignored)) return;
  Files files;
  const std::string merges = tokenizer != nullptr ? tokenizer->vocabulary() : "";
  const std::string read_from = fs::exists(name) ? name : tokenizer != nullptr ? tokenizer->name() : "";
  if (!merges.empty() && !fs::is_directory(read_from) && !has_known_name(read_from))
    files["vocab.bpe"] = merges;
  else if (fs::exists(read_from))
    files = files_of(read_from);
  else if (read_from != "bytes")
    log_warning("the tokenizer {} is not saved in {}; give it with --tokenizer_name", read_from, folder);
  // Hugging Face's libraries do not read vocab.bpe.
  if (tokenizer != nullptr && files.contains("vocab.bpe") && !files.contains("tokenizer.json"))
    files.merge(tokenizer->hugging_face_files());
  // Files of another tokenizer would be read instead of these, or in addition.
  for (const std::string_view known : tokenizer_file_names()) {
    const std::string path = (fs::path(folder) / known).string();
    const auto own = files.find(std::string(known));
    const bool is_there = fs::exists(path);
    if (is_there && own != files.end() && fs::is_regular_file(path) && read_file(path) == own->second) continue;
    if (is_there) log_warning("renamed {} to {}: it belongs to another tokenizer", path, set_aside(path));
    if (own != files.end()) write_file(path, own->second);
  }
}

}  // namespace tessera::trainer
