// SPDX-License-Identifier: Apache-2.0
#include "stream_writer.h"

#include <cstring>

#include "verified_file.h"

namespace tessera {
namespace {

constexpr std::size_t kBufferBytes = 32 * kBlockBytes;  // fits the second-level cache

}  // namespace

StreamWriter::StreamWriter(const std::string& path, bool has_list)
    : path_(path), has_list_(has_list), file_(path, OutputFile::Mode::kCreate), buffer_(kBufferBytes) {}

void StreamWriter::add(std::span<const std::byte> bytes) {
  add(bytes.size(),
      [&](std::size_t done, std::span<std::byte> into) { std::memcpy(into.data(), bytes.data() + done, into.size()); });
}

std::span<std::byte> StreamWriter::free_part(std::size_t most) {
  if (used_ == buffer_.size()) flush();
  return std::span(buffer_).subspan(used_, std::min(most, buffer_.size() - used_));
}

void StreamWriter::flush() {
  const auto bytes = std::span<const std::byte>(buffer_).first(used_);
  file_.write(written_, bytes);
  if (!has_list_) sum_.add(bytes);
  for (std::size_t at = 0; has_list_ && at < used_; at += kBlockBytes)
    blocks_.push_back(checksum_of(bytes.subspan(at, std::min(kBlockBytes, used_ - at))));
  written_ += used_;
  used_ = 0;
}

StoredFile StreamWriter::finish() {
  flush();
  file_.finish();
  if (!has_list_) return {written_, sum_.text(), false};
  const auto list = std::as_bytes(std::span(blocks_));
  OutputFile out(list_path(path_), OutputFile::Mode::kCreate);
  out.write(0, list);
  out.finish();
  return {written_, checksum_text(checksum_of(list)), true};
}

}  // namespace tessera
