// SPDX-License-Identifier: Apache-2.0
#include "read_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/frontend/execution/runtime.h"
#include "tessera/tensor/literal.h"

namespace tessera {
namespace {

constexpr std::size_t kElementsAtOnce = 1 << 16;

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<From, double>)
    return static_cast<To>(x);
  else
    return static_cast<To>(static_cast<float>(x));
}

void convert(DType from_type, std::span<const std::byte> from, DType to_type, std::span<std::byte> to) {
  visit_any_dtype(from_type, [&]<class From>() {
    visit_any_dtype(to_type, [&]<class To>() {
      if constexpr (is_float(kDTypeOf<From>) && is_float(kDTypeOf<To>)) {
        for (std::size_t i = 0; i < to.size() / sizeof(To); ++i) {
          From x{};
          std::memcpy(&x, from.data() + i * sizeof(From), sizeof(From));
          const To y = converted<To>(x);
          std::memcpy(to.data() + i * sizeof(To), &y, sizeof(To));
        }
      }
    });
  });
}

}  // namespace

void read_elements(const ByteSource& file, std::uint64_t offset, std::int64_t first, DType stored, DType to,
                   std::span<std::byte> into) {
  const auto stored_size = static_cast<std::size_t>(dtype_size(stored));
  offset += static_cast<std::uint64_t>(first) * stored_size;
  if (stored == to) {
    file.read(offset, into);
    if (to == DType::kPred)  // bytes other than 0 and 1 are not valid bools
      for (std::byte& byte : into) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
    return;
  }
  const auto size = static_cast<std::size_t>(dtype_size(to));
  std::vector<std::byte> buffer(std::min(kElementsAtOnce, into.size() / size) * stored_size);
  while (!into.empty()) {
    const std::size_t count = std::min(kElementsAtOnce, into.size() / size);
    const std::span<std::byte> read(buffer.data(), count * stored_size);
    file.read(offset, read);
    convert(stored, read, to, into.first(count * size));
    offset += read.size();
    into = into.subspan(count * size);
  }
}

std::uint64_t content_of_array(const ByteSource& file, std::uint64_t offset, std::uint64_t bytes) {
  if (joined_world()->size() == 1) return 0;
  constexpr std::uint64_t kBlock = 256;
  constexpr std::uint64_t kSmall = 32 << 10;
  const std::uint64_t count = bytes <= kSmall ? kSmall / kBlock : std::clamp<std::uint64_t>(bytes >> 16, 4, 256);
  return hash_of_samples(file, offset, bytes, {count, kBlock});
}

}  // namespace tessera
