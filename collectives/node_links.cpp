// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/node_links.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// Approximate costs of a processor per byte; links are slower.
constexpr double kSecondsPerSummedByte = 6e-11;  // per operand
constexpr double kSecondsPerByteInside = 2e-10;  // read and written in shared memory
// The cost of a step for a rank, regardless of the link: the calls of MPI, and the handshake of larger messages.
constexpr double kSecondsPerStep = 3e-6;
// The ranks of a node meet for each chunk.
constexpr double kSecondsPerMeeting = 20e-6;
// The most bytes that members of an all-reduce may receive in one round.
constexpr std::size_t kMostReceived = std::size_t{4} << 20;

double step(const NodeLinks& links, double messages, double bytes) {
  return links.step(messages, bytes) + kSecondsPerStep;
}

double doubling_rounds(std::size_t members) { return static_cast<double>(std::bit_width(members - 1)); }

// Seconds to receive the parts of all other members, `bytes` in total. A message of the doubling form may be split in
// two where members wrap around.
double gather_seconds(const NodeLinks& links, std::size_t members, double bytes) {
  const double others = static_cast<double>(members) - 1;
  if (!gathers_by_doubling(links, members)) return step(links, others, bytes);
  return doubling_rounds(members) * step(links, 2, 0) + bytes / links.bytes_per_second;
}

std::optional<double> positive_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

std::string NodeLinks::str() const {
  return fmt::format("{:.1f} us, {:.2f} GB/s per rank, {:.2f} us for each further message", latency_seconds * 1e6,
                     bytes_per_second / 1e9, message_seconds * 1e6);
}

std::optional<NodeLinks> given_node_links() {
  const auto parts = options().list("TESSERA_LINK");
  if (parts.empty()) return {};
  std::vector<double> numbers;
  for (const auto& part : parts)
    if (const auto number = positive_number(part)) numbers.push_back(*number);
  require(numbers.size() == parts.size() && (numbers.size() == 2 || numbers.size() == 3),
          "TESSERA_LINK={}: must be a latency in us and GB/s, as in 50,1.2, optionally followed by us for each further "
          "message",
          options().text("TESSERA_LINK"));
  NodeLinks links{.latency_seconds = numbers[0] * 1e-6, .bytes_per_second = numbers[1] * 1e9};
  if (numbers.size() == 3) links.message_seconds = numbers[2] * 1e-6;
  return links;
}

bool gathers_by_doubling(const NodeLinks& links, std::size_t members) {
  return members > 2 && doubling_rounds(members) * step(links, 2, 0) < step(links, static_cast<double>(members) - 1, 0);
}

bool all_reduces_in_one_round(const NodeLinks& links, std::size_t members, std::size_t bytes) {
  if (bytes * members > kMostReceived) return false;
  const auto n = static_cast<double>(members);
  const auto total = static_cast<double>(bytes);
  const double others = total / n * (n - 1);
  const double one = gather_seconds(links, members, total * (n - 1)) + n * total * kSecondsPerSummedByte;
  const double two =
      step(links, n - 1, others) + total * kSecondsPerSummedByte + gather_seconds(links, members, others);
  return one <= two;
}

bool broadcasts_in_slices(const NodeLinks& links, std::size_t members, std::size_t bytes) {
  if (members < 3) return false;
  const auto total = static_cast<double>(bytes);
  constexpr double kMostRatio = 0.85;  // many small messages cost more than the model predicts
  const double targets = static_cast<double>(members) - 1;
  const double tree = doubling_rounds(members) * step(links, 1, total);
  return step(links, targets, total) + step(links, targets, total / targets * (targets - 1)) < kMostRatio * tree;
}

// The overlap hides all chunks but one, and every chunk adds its latencies.
std::size_t best_chunk_count(const NodeLinks& links, double between, double inside, int steps) {
  const double hidden = std::min(between / links.bytes_per_second, inside * kSecondsPerByteInside);
  const double chunk = steps * step(links, 1, 0) + kSecondsPerMeeting;
  return static_cast<std::size_t>(std::clamp(std::sqrt(hidden / chunk), 1.0, 1e6));
}

}  // namespace tessera
