// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/executable/pinned_content.h"

#include <cstring>
#include <new>

#include "tessera/base/error.h"

namespace tessera {

void PinnedContent::read(std::size_t offset, std::span<std::byte> into) {
  const std::scoped_lock lock(mutex_);
  ensure(state_ != State::kReleased && offset >= read_to_ && offset + into.size() <= bytes_.size(),
         "bytes {} to {} of pinned content that was read up to {}", offset, offset + into.size(), read_to_);
  require(state_ != State::kLost, "there was no memory for a copy of {} bytes", bytes_.size() - read_to_);
  if (into.empty()) return;
  const std::byte* from = state_ == State::kCopied ? copy_.data() + (offset - copied_from_) : bytes_.data() + offset;
  std::memcpy(into.data(), from, into.size());
  read_to_ = offset + into.size();
}

void PinnedContent::release() {
  const std::scoped_lock lock(mutex_);
  state_ = State::kReleased;
  copy_ = {};
}

std::int64_t PinnedContent::preserve() noexcept {
  const std::scoped_lock lock(mutex_);
  if (state_ != State::kInPlace) return 0;
  const auto rest = bytes_.subspan(read_to_);
  try {
    copy_.assign(rest.begin(), rest.end());
    copied_from_ = read_to_;
    state_ = State::kCopied;
  } catch (const std::bad_alloc&) {
    state_ = State::kLost;  // the reader reports it; the program goes on
  }
  return static_cast<std::int64_t>(rest.size());
}

}  // namespace tessera
