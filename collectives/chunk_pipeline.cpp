// SPDX-License-Identifier: Apache-2.0
#include "chunk_pipeline.h"

#include <algorithm>

#include "copy_bytes.h"

namespace tessera::collectives {
namespace {

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

std::byte* Scratch::grow(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  release();
  if (memory_) data_ = memory_->take(bytes);
  if (data_ == nullptr) {
    memory_ = nullptr;
    own_.resize(bytes);
    data_ = own_.data();
  }
  bytes_ = bytes;
  return data_;
}

void Scratch::release() {
  if (memory_ && data_ != nullptr) memory_->give_back(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

Chunks::Chunks(std::size_t bytes, std::size_t piece, std::size_t unit)
    : bytes_(bytes),
      piece_(std::min(bytes, rounded_up(std::max({piece, bytes / kMost, std::size_t{1}}), unit))),
      count_(bytes == 0 ? 1 : (bytes + piece_ - 1) / piece_) {}

std::size_t Chunks::size(std::size_t k) const { return std::min(piece_, bytes_ - begin(k)); }

ChunkPipeline::ChunkPipeline(Stages stages, std::size_t in_flight, std::shared_ptr<Scratch> scratch)
    : stages_(std::move(stages)),
      slots_(std::min(in_flight, stages_.chunks)),
      scratch_(std::move(scratch)),
      data_(scratch_->grow(slots_ * rounded_up(stages_.scratch_bytes, kCacheLine))) {}

std::byte* ChunkPipeline::scratch(std::size_t chunk) const {
  return data_ + chunk % slots_ * rounded_up(stages_.scratch_bytes, kCacheLine);
}

bool ChunkPipeline::poll() {
  bool arrived = true;
  for (const auto& operation : in_flight_) arrived = operation->test() && arrived;
  return arrived;
}

void ChunkPipeline::start() {
  while (begun_ < stages_.chunks && begun_ < ended_ + slots_) {
    poll();
    in_flight_.push_back(stages_.begin(*this, begun_));
    ++begun_;
  }
}

void ChunkPipeline::wait() {
  while (ended_ < stages_.chunks) {
    start();
    const auto first = std::move(in_flight_.front());
    in_flight_.pop_front();
    first->wait();
    poll();
    if (stages_.end) stages_.end(*this, ended_);
    ++ended_;
  }
}

bool ChunkPipeline::test() {
  if (ended_ == stages_.chunks) return true;
  return poll() && begun_ == stages_.chunks && !stages_.end;
}

}  // namespace tessera::collectives
