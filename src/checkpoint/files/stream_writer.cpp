// SPDX-License-Identifier: Apache-2.0
#include "stream_writer.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include <sys/mman.h>

#include "file_names.h"
#include "verified_file.h"

namespace tessera {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kBufferBytes = 2 * kHugePage;  // large writes that bypass the page cache are fast
constexpr std::size_t kMostAtOnce = std::size_t{512} << 10;
static_assert(kBufferBytes % kBlockBytes == 0 && kBufferBytes % kDirectAlignment == 0);

std::byte* allocate(std::size_t bytes) {
  void* out = std::aligned_alloc(kHugePage, bytes);
  if (out == nullptr) throw std::bad_alloc();
  madvise(out, bytes, MADV_HUGEPAGE);  // faster, if the system has huge pages
  return static_cast<std::byte*>(out);
}

}  // namespace

void StreamWriter::Free::operator()(std::byte* memory) const { std::free(memory); }  // NOLINT: of aligned_alloc

// A document is small, and soon read again.
StreamWriter::StreamWriter(const std::string& path, bool has_list, std::uint64_t expected_bytes)
    : path_(path),
      has_list_(has_list),
      file_(path, has_list ? OutputFile::Mode::kCreateUncached : OutputFile::Mode::kCreate),
      memory_(allocate(kBufferBytes)),
      buffer_(memory_.get(), kBufferBytes) {
  if (expected_bytes > 0) file_.resize(expected_bytes);
}

void StreamWriter::add(std::span<const std::byte> bytes) {
  add(bytes.size(),
      [&](std::size_t done, std::span<std::byte> into) { std::memcpy(into.data(), bytes.data() + done, into.size()); });
}

std::span<std::byte> StreamWriter::free_part(std::size_t most) {
  if (used_ == buffer_.size()) flush();
  return buffer_.subspan(used_, std::min({most, kMostAtOnce, buffer_.size() - used_}));
}

void StreamWriter::flush() {
  const auto bytes = std::span<const std::byte>(buffer_.first(used_));
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
  const std::string partial = list_path(path_) + std::string(kPartial);
  OutputFile out(partial, OutputFile::Mode::kCreate);
  out.write(0, list);
  out.finish();
  std::filesystem::rename(partial, list_path(path_));
  return {written_, checksum_text(checksum_of(list)), true};
}

}  // namespace tessera
