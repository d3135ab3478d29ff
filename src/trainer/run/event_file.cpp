// SPDX-License-Identifier: Apache-2.0
// The format is that of TensorFlow's record writer (tensorflow/core/lib/io/record_writer.h) and of event.proto.
#include "run/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "tessera/base/files.h"

namespace tessera::trainer {
namespace {

std::array<std::uint32_t, 256> castagnoli_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> out{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kReversedPolynomial : 0);
    out[i] = value;
  }
  return out;
}

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// The checksum of a checksum would be 0, so files contain this form of it.
std::string masked_checksum(std::string_view text) {
  const std::uint32_t plain = crc32c(text);
  return little_endian(((plain >> 15) | (plain << 17)) + 0xA282EAD8U);
}

// ---- protocol buffers -----------------------------------------------------------------------------------------------------

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}
enum class WireType : std::uint8_t { kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5 };
std::string field_key(int number, WireType type) {
  return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(type));
}
std::string bytes_field(int number, const std::string& value) {
  return field_key(number, WireType::kBytes) + varint(value.size()) + value;
}

// wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string event_of(std::int64_t step, const std::string& content) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return field_key(1, WireType::kDouble) + little_endian(now) + field_key(2, WireType::kVarint) +
         varint(static_cast<std::uint64_t>(step)) + content;
}

std::string record_of(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + masked_checksum(length) + event + masked_checksum(event);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::uint32_t crc32c(std::string_view text) {
  static const std::array<std::uint32_t, 256> kTable = castagnoli_table();
  std::uint32_t out = 0xFFFFFFFF;
  for (const char c : text) out = (out >> 8) ^ kTable[(out ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~out;
}

EventFile::EventFile(const std::string& folder) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  make_folder(folder);
  path_ = fmt::format("{}/events.out.tfevents.{}.{}.{}.0", folder, now.count(), own_host_name(), getpid());
  append_file(path_, record_of(event_of(0, bytes_field(3, "brain.Event:2"))));
}

void EventFile::write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string values;
  for (const auto& [name, value] : scalars)  // tag = 1, simple_value = 2
    values += bytes_field(
        1, bytes_field(1, name) + field_key(2, WireType::kFloat) + little_endian(static_cast<float>(value)));
  append_file(path_, record_of(event_of(step, bytes_field(5, values))));
}

}  // namespace tessera::trainer
