// SPDX-License-Identifier: Apache-2.0
#include "model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "file_names.h"
#include "part_names.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/random_access.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

JsonObject index_of(const std::vector<ModelFile>& files) {
  JsonObject map;
  std::int64_t total = 0;
  for (const ModelFile& file : files)
    for (const SafetensorsEntry& entry : file.header.tensors) {
      map.set(entry.name, file.name);
      total += entry.type.byte_size();
    }
  JsonObject metadata;
  metadata.set("total_size", total);
  JsonObject out;
  out.set("metadata", metadata);
  out.set("weight_map", map);
  return out;
}

// Files of an earlier save with another number of files.
void remove_older_files(const std::string& folder, const std::vector<ModelFile>& files) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_new =
        std::any_of(files.begin(), files.end(), [&](const ModelFile& file) { return file.name == name; });
    if (is_model_file(name) && !is_new) fs::remove(entry.path());
  }
}

}  // namespace

bool is_model_file(std::string_view name) {
  constexpr std::string_view kForm = "model-00000-of-00000.safetensors";
  const auto fits = [](char c, char form) { return form == '0' ? c >= '0' && c <= '9' : c == form; };
  return name == kSingleFile || std::equal(name.begin(), name.end(), kForm.begin(), kForm.end(), fits);
}

std::vector<ModelFile> divide_into_files(const std::vector<std::pair<std::string, Type>>& tensors,
                                         std::int64_t most_bytes) {
  std::vector<ModelFile> out(1);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t own = tensors[i].second.byte_size();
    if (!out.back().tensors.empty() && bytes + own > most_bytes) {
      out.emplace_back();
      bytes = 0;
    }
    out.back().tensors.push_back(i);
    bytes += own;
  }
  for (std::size_t f = 0; f < out.size(); ++f) {
    out[f].name = out.size() == 1 ? kSingleFile : fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, out.size());
    std::vector<std::pair<std::string, Type>> own;
    for (const std::size_t i : out[f].tensors) {
      out[f].entries.push_back(own.size());
      for (auto& tensor : file_tensors(tensors[i].first, tensors[i].second)) own.push_back(std::move(tensor));
    }
    out[f].header = SafetensorsHeader::of(own, {{"format", "pt"}});
  }
  return out;
}

std::string partial_path(const std::string& folder, const ModelFile& file) {
  return fmt::format("{}/{}{}", folder, file.name, kPartial);
}

void create_files(const std::string& folder, const std::vector<ModelFile>& files) {
  make_folder(folder);
  for (const ModelFile& file : files) {
    OutputFile out(partial_path(folder, file), OutputFile::Mode::kCreate);
    out.resize(file.header.file_bytes());
    const std::string text = file.header.str();
    out.write(0, std::as_bytes(std::span(text)));
  }
}

void publish_files(const std::string& folder, const std::vector<ModelFile>& files) {
  const fs::path index = fs::path(folder) / kIndexFile;
  if (files.size() > 1) fs::remove(index);
  for (const ModelFile& file : files) commit_rename(partial_path(folder, file), folder + "/" + file.name);
  // A reader takes a single file first, else the index, so old files are deleted after the index is replaced.
  if (files.size() > 1)
    write_document(index, index_of(files).str());
  else
    fs::remove(index);
  remove_older_files(folder, files);
}

void remove_partial_files(const std::string& folder, const std::vector<ModelFile>& files) {
  std::error_code ignored;
  for (const ModelFile& file : files) fs::remove(partial_path(folder, file), ignored);
}

void write_document(const std::string& path, std::string_view text) {
  const std::string partial = path + std::string(kPartial);
  try {
    OutputFile out(partial, OutputFile::Mode::kCreate);
    out.write(0, std::as_bytes(std::span(text)));
    out.finish();
    commit_rename(partial, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    throw;
  }
}

}  // namespace tessera
