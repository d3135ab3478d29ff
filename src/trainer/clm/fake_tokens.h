// SPDX-License-Identifier: Apache-2.0
// Random tokens instead of a text (--fake_data), to try a cluster without data.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/data/source.h"

namespace tessera::trainer {

/// Samples of uniformly random tokens, as `input_ids` and `labels` s32[block_size]. A token follows from the seed, the
/// number of its sample and its position, so it is equal on every rank and machine.
class FakeTokens final : public data::Source {
 public:
  FakeTokens(std::int64_t count, std::int64_t block_size, std::int64_t vocabulary, std::uint64_t seed)
      : count_(count), block_size_(block_size), vocabulary_(vocabulary), seed_(seed) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override { return get_part(i, {0, block_size_}); }
  [[nodiscard]] std::int64_t length(std::int64_t /*i*/) const override { return block_size_; }
  [[nodiscard]] std::optional<std::int64_t> fixed_length() const override { return block_size_; }
  [[nodiscard]] data::Arrays get_part(std::int64_t i, Interval part) const override;

 private:
  std::int64_t count_, block_size_, vocabulary_;
  std::uint64_t seed_;
};

}  // namespace tessera::trainer
