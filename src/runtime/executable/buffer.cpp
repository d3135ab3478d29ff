// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/executable/buffer.h"

#include <cstring>

#include "executable/memory.h"
#include "tessera/base/error.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {

DeviceArray DeviceArray::uninitialized(Type type) {
  ensure(type.is_array(), "a device array of type {}", type);
  DeviceArray out;
  out.memory_ = std::make_shared<DeviceMemory>(rank_memory().pool, type.byte_size(),
                                               [&] { return fmt::format("the array {}", type.str()); });
  out.type_ = std::move(type);
  return out;
}

DeviceArray DeviceArray::zeros(Type type) {
  DeviceArray out = uninitialized(std::move(type));
  const auto bytes = out.mutable_bytes();
  std::memset(bytes.data(), 0, bytes.size());
  return out;
}

DeviceArray DeviceArray::from_literal(const Literal& literal) {
  const TimedScope timed("TransferToDeviceTime", "transfer");
  DeviceArray out = uninitialized(literal.type());
  if (!literal.bytes().empty()) std::memcpy(out.mutable_bytes().data(), literal.bytes().data(), literal.bytes().size());
  metrics().add_sample("OutboundData", MetricUnit::kBytes, static_cast<double>(literal.bytes().size()));
  return out;
}

Literal DeviceArray::to_literal() const {
  ensure(!is_null(), "reading a device array that was freed");
  const TimedScope timed("TransferFromDeviceTime", "transfer");
  Literal out(type_);
  const auto from = bytes();
  if (!from.empty()) std::memcpy(out.mutable_bytes().data(), from.data(), from.size());
  metrics().add_sample("InboundData", MetricUnit::kBytes, static_cast<double>(from.size()));
  return out;
}

std::span<const std::byte> DeviceArray::bytes() const {
  ensure(!is_null(), "reading a device array that was freed");
  return {memory_->data(), static_cast<std::size_t>(type_.byte_size())};
}
std::span<std::byte> DeviceArray::mutable_bytes() {
  ensure(!is_null(), "writing a device array that was freed");
  return {memory_->data(), static_cast<std::size_t>(type_.byte_size())};
}

DeviceArray DeviceArray::reshaped(Dims dims) const {
  DeviceArray out = *this;
  out.type_ = type_.with_dims(std::move(dims));
  ensure(out.type_.element_count() == type_.element_count(), "{} reshaped to {}", type_, out.type_);
  return out;
}

std::shared_ptr<PinnedContent> DeviceArray::pin() const {
  preserve_pinned();
  memory_->pinned = std::make_shared<PinnedContent>(bytes());
  return memory_->pinned;
}
bool DeviceArray::is_pinned() const { return memory_ != nullptr && memory_->pinned != nullptr; }
std::int64_t DeviceArray::preserve_pinned() const {
  if (!is_pinned()) return 0;
  const std::int64_t copied = memory_->pinned->preserve();
  memory_->pinned.reset();
  return copied;
}

MemoryInfo memory_info() { return rank_memory().pool->info(); }

std::vector<DeviceArray> to_device(const std::vector<Literal>& literals) {
  std::vector<DeviceArray> out;
  for (const Literal& literal : literals)
    for (const Literal& leaf : literal.leaves())  // a token has no memory
      out.push_back(leaf.type().is_array() ? DeviceArray::from_literal(leaf) : DeviceArray());
  return out;
}

}  // namespace tessera
