// SPDX-License-Identifier: Apache-2.0
// The bytes of a token file, as docs/reference/file_formats.md describes them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/checked.h"
#include "tessera/base/checksum.h"
#include "tessera/base/text.h"

namespace tessera::data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

inline constexpr std::array<char, 8> kTokenMagic = {'t', 's', 'r', 't', 'o', 'k', 'e', 'n'};
inline constexpr std::uint32_t kTokenVersion = 2;
inline constexpr std::uint32_t kTokenVersionWithoutSums = 1;  // its files have no checksums of blocks
inline constexpr std::size_t kTokenBlock = std::size_t{64} << 10;
inline constexpr std::int64_t kTokenAlignment = 64;
inline constexpr std::int64_t kU16Vocabulary = 65536;

/// The first bytes of the file. The name of the tokenizer and its vocabulary follow.
struct TokenHeader {
  std::array<char, 8> magic = kTokenMagic;
  std::uint32_t version = kTokenVersion;
  std::uint32_t token_bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t vocab_size = 0;
  std::int64_t end_of_text = -1;  // -1: none
  std::uint64_t text_bytes = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t vocabulary_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3 of the bytes before it, the name and the vocabulary
};
static_assert(sizeof(TokenHeader) == 72 && offsetof(TokenHeader, checksum) == 64);

/// `texts` is the name and the vocabulary.
inline std::uint64_t checksum_of(const TokenHeader& header, std::span<const std::byte> texts) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(&header, 1)).first(offsetof(TokenHeader, checksum)));
  sum.add(texts);
  return sum.value();
}

/// Where the parts begin, and the size of the file. The bytes from `tokens` to `sums` are divided into blocks of
/// kTokenBlock bytes, the last of which may be shorter.
struct TokenPlaces {
  Checked tokens = 0;
  Checked offsets = 0;
  Checked sums = 0;
  Checked size = 0;
};
inline Checked padded(Checked size, std::int64_t multiple) {
  return size.fits() ? size + (multiple - size.value_or_most() % multiple) % multiple : size;
}
inline Checked block_count(Checked bytes) {
  constexpr auto kBlock = static_cast<std::int64_t>(kTokenBlock);
  return bytes.fits() ? bytes.value() / kBlock + (bytes.value() % kBlock == 0 ? 0 : 1) : bytes;
}
/// The counts of the header must not exceed 2^63 - 1.
inline TokenPlaces places_of(const TokenHeader& header) {
  const auto number = [](std::uint64_t n) { return Checked(static_cast<std::int64_t>(n)); };
  TokenPlaces out;
  out.tokens = padded(number(sizeof(TokenHeader)) + number(header.name_bytes) + number(header.vocabulary_bytes),
                      kTokenAlignment);
  out.offsets = padded(out.tokens + number(header.tokens) * number(header.token_bytes), sizeof(std::uint64_t));
  out.sums = out.size = out.offsets + number(header.documents) * sizeof(std::uint64_t);
  if (header.version != kTokenVersionWithoutSums)
    out.size += block_count(out.sums - out.tokens) * sizeof(std::uint64_t);
  return out;
}

}  // namespace tessera::data
