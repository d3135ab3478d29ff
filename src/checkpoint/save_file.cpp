// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "files/partial_file.h"
#include "files/read_elements.h"
#include "on_all_ranks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/regions.h"
#include "tessera/checkpoint/save.h"
#include "tessera/frontend/execution/rendezvous.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/values_by_rank.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A file that gets its name when it is complete. Deleted unless that happens.
class NewFile {
 public:
  NewFile(const std::string& path, SafetensorsHeader header)
      : NewFile(path, std::move(header), create_partial_file(path)) {
    out_.resize(header_.file_bytes());
    const std::string text = header_.str();
    out_.write(0, std::as_bytes(std::span(text)));
  }
  ~NewFile() {
    std::error_code ignored;
    if (!is_published_) fs::remove(partial_, ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::size_t tensor, std::span<const std::byte> bytes) {
    out_.write(header_.data_begin + header_.tensors[tensor].begin, bytes);
  }
  void publish() {
    out_.finish();
    commit_rename(partial_, path_);
    is_published_ = true;
  }

 private:
  // A constructor of its own, so that the destructor runs if the other one fails.
  NewFile(const std::string& path, SafetensorsHeader header, std::string partial)
      : path_(path),
        partial_(std::move(partial)),
        header_(std::move(header)),
        out_(partial_, OutputFile::Mode::kExisting) {}

  std::string path_;
  std::string partial_;
  SafetensorsHeader header_;
  OutputFile out_;
  bool is_published_ = false;
};

SafetensorsHeader header_of(const StateDict& state) {
  std::vector<std::pair<std::string, Type>> types;
  for (const NamedTensor& entry : state.entries())
    types.emplace_back(entry.name, entry.tensor.type().with_dims(entry.exported_dims));
  return SafetensorsHeader::of(types, {{"format", "pt"}});
}

// Otherwise the file would have the names of one rank and the values of another tensor of the other ranks.
void check_same_tensors(const SafetensorsHeader& header, const std::string& what) {
  const auto hashes = gather_texts(*joined_world(), fmt::format("{:016x}", hash_text(header.str())));
  require(
      std::all_of(hashes.begin(), hashes.end(), [&](const auto& hash) { return hash == hashes.front(); }),
      "{}: the ranks save tensors with other names or types, whose hashes are {}; all ranks must save the same state",
      what, [&] { return values_by_rank(hashes); });
}

}  // namespace

void save(const StateDict& state, const std::string& path, const SaveOptions& options) {
  const std::string what = "cannot save " + path;
  SafetensorsHeader header;
  on_all_ranks(what, [&] { header = header_of(state); });
  check_same_tensors(header, what);
  std::unique_ptr<NewFile> file;  // on the ranks that write
  on_all_ranks(what, [&] {
    if (!is_master_ordinal({.local = options.on_each_node})) return;
    require(!fs::exists(path) || fs::is_regular_file(path), "it is not a file");
    file = std::make_unique<NewFile>(target_of_links(path), header);
  });
  std::exception_ptr failure;  // of this rank; the other ranks need it for the next tensors
  for (std::size_t i = 0; i < state.entries().size(); ++i) {
    const Literal value = current_value(state.entries()[i].tensor).to_host();
    if (!file || failure) continue;
    try {
      file->write(i, value.bytes());
    } catch (const Error&) {
      failure = std::current_exception();
    }
  }
  on_all_ranks(what, [&] {
    if (failure) std::rethrow_exception(failure);
    if (file) file->publish();
  });
}

StateDict load(const std::string& path) {
  const auto file = std::make_shared<const InputFile>(path);
  const SafetensorsHeader header = SafetensorsHeader::from_file(*file);
  StateDict out;
  for (const SafetensorsEntry& entry : header.tensors) {
    Tensor variable = Tensor::deferred(entry.type, nullptr, entry.name);
    const std::uint64_t begin = header.data_begin + entry.begin;
    const auto reader = [file, begin](const Type& type, const Sharding& sharding, std::int64_t device,
                                      std::span<std::byte> shard) {
      const Region region = region_of(type, sharding, device);
      const auto size = static_cast<std::size_t>(dtype_size(type.dtype()));
      for_each_run(region, RegionBuffer::complete(type), RegionBuffer::shard(type, sharding, region),
                   [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                     read_elements(
                         *file, begin, from, type.dtype(), type.dtype(),
                         shard.subspan(static_cast<std::size_t>(to) * size, static_cast<std::size_t>(count) * size));
                   });
    };
    read_when_needed(variable, reader, content_of_array(*file, begin, entry.end - entry.begin));
    out.add({entry.name, std::move(variable), {}});
  }
  return out;
}

}  // namespace tessera
