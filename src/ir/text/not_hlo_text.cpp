// SPDX-License-Identifier: Apache-2.0
#include "text/not_hlo_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace tessera {
namespace {

constexpr std::string_view kHowToPrint =
    "; tessera reads HLO text: in JAX print jax.jit(f).lower(x).compiler_ir(\"hlo\").as_hlo_text(), elsewhere set "
    "XLA_FLAGS=\"--xla_dump_to=FOLDER --xla_dump_hlo_as_text\"";

// Reads and removes a varint of protocol buffers, which has seven bits per byte.
std::optional<std::uint64_t> take_number(std::string_view& in) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80U) return number;
  }
  return std::nullopt;
}

// Reads and removes a field; false if there is none. A field that exceeds the end counts, because the file may be
// truncated.
bool take_field(std::string_view& in) {
  constexpr std::uint64_t kNumber = 0;
  constexpr std::uint64_t kEightBytes = 1;
  constexpr std::uint64_t kBytes = 2;
  constexpr std::uint64_t kFourBytes = 5;
  const auto tag = take_number(in);
  if (!tag || *tag >> 3 == 0) return false;
  const std::uint64_t kind = *tag & 7U;
  if (kind == kNumber) return take_number(in).has_value();
  if (kind != kEightBytes && kind != kBytes && kind != kFourBytes) return false;
  const auto size = kind == kBytes ? take_number(in) : kind == kEightBytes ? 8 : 4;
  if (!size) return false;
  in.remove_prefix(static_cast<std::size_t>(std::min<std::uint64_t>(*size, in.size())));
  return true;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 && std::string_view("\t\n\v\f\r").find(c) == std::string_view::npos;
}

// An HloModuleProto begins with its name and an HloProto with the module; both are field 1 and consist of bytes.
bool looks_like_proto(std::string_view content) {
  constexpr char kFirstField = 1 << 3 | 2;
  constexpr std::size_t kLooked = 4096;
  const std::string_view first = content.substr(0, kLooked);
  if (!content.starts_with(kFirstField) || std::none_of(first.begin(), first.end(), is_control)) return false;
  std::string_view left = content;
  while (!left.empty())
    if (!take_field(left)) return false;
  return true;
}

}  // namespace

std::string other_form_of_program(std::string_view content) {
  std::string_view form;
  if (content.starts_with("ML\xefR"))
    form = "MLIR bytecode (StableHLO)";
  else if (content.starts_with("\x1f\x8b"))
    form = "compressed by gzip";
  else if (looks_like_proto(content))
    form = "a serialized protocol buffer (HloModuleProto or HloProto)";
  return form.empty() ? "" : std::string(form).append(kHowToPrint);
}

}  // namespace tessera
