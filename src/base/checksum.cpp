// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/checksum.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/random_access.h"

namespace tessera {

struct Checksum::State {
  State() { ensure(xxh3 != nullptr && XXH3_64bits_reset(xxh3) == XXH_OK, "no state of a checksum"); }
  ~State() { XXH3_freeState(xxh3); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* xxh3 = XXH3_createState();
};

Checksum::Checksum() : state_(std::make_unique<State>()) {}
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  ensure(XXH3_64bits_update(state_->xxh3, bytes.data(), bytes.size()) == XXH_OK, "cannot add to a checksum");
}

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(state_->xxh3); }
std::string Checksum::text() const { return checksum_text(value()); }

std::uint64_t checksum_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::string checksum_text(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

std::string checksum_of_file(const std::string& path) {
  constexpr std::uint64_t kAtOnce = 4 << 20;
  const InputFile file(path);
  std::vector<std::byte> buffer(std::min(kAtOnce, file.size()));
  Checksum sum;
  for (std::uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size() - offset));
    file.read(offset, part);
    sum.add(part);
  }
  return sum.text();
}

}  // namespace tessera
