// SPDX-License-Identifier: Apache-2.0
#include "byte_spelling.h"

#include <cstddef>
#include <cstdint>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

bool is_printable(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; }

constexpr std::uint32_t kFirstSubstitute = 256;  // the unprintable bytes are spelled U+0100, U+0101, … in order
constexpr std::size_t kCodePoints = 512;

struct Table {
  std::array<unsigned char, 256> order{};
  std::array<std::uint32_t, 256> code_of_byte{};
  std::array<int, kCodePoints> byte_of_code{};

  Table() {
    byte_of_code.fill(-1);
    std::size_t next = 0;
    std::uint32_t substitute = kFirstSubstitute;
    for (int byte = 0; byte < 256; ++byte)
      if (is_printable(byte)) add(next, byte, static_cast<std::uint32_t>(byte));
    for (int byte = 0; byte < 256; ++byte)
      if (!is_printable(byte)) add(next, byte, substitute++);
  }
  void add(std::size_t& next, int byte, std::uint32_t code) {
    order[next++] = static_cast<unsigned char>(byte);
    code_of_byte[static_cast<std::size_t>(byte)] = code;
    byte_of_code[code] = byte;
  }
};

const Table& table() {
  static const Table kTable;
  return kTable;
}

}  // namespace

const std::array<unsigned char, 256>& gpt2_byte_order() { return table().order; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const std::uint32_t code = table().code_of_byte[static_cast<unsigned char>(c)];
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      out += static_cast<char>(0xC0U | (code >> 6));
      out += static_cast<char>(0x80U | (code & 0x3FU));
    }
  }
  return out;
}

std::string unspell_bytes(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::uint32_t code = static_cast<unsigned char>(token[i]);
    if (code >= 0xC0 && code < 0xE0 && i + 1 < token.size())
      code = ((code & 0x1FU) << 6) | (static_cast<unsigned char>(token[++i]) & 0x3FU);
    const int byte = code < kCodePoints ? table().byte_of_code[code] : -1;
    require(byte >= 0, "token {} contains a character that represents no byte", [&] { return quote(token); });
    out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace tessera::data
