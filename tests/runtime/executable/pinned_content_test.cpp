// SPDX-License-Identifier: Apache-2.0
// Arrays whose content another thread reads while programs overwrite them.
#include "tessera/runtime/executable/pinned_content.h"

#include <gtest/gtest.h>

#include "runtime/close.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::read;

const Type kType = Type::array(DType::kF32, {6});

DeviceArray array_of(const std::vector<float>& values) {
  return DeviceArray::from_literal(Literal::from<float>(kType.dims(), values));
}

// The elements from `first` on.
std::vector<float> rest_of(PinnedContent& pinned, std::size_t first) {
  std::vector<float> out(6 - first);
  pinned.read(first * sizeof(float), std::as_writable_bytes(std::span(out)));
  return out;
}

// Adds 1 to x in place, and returns the old values as well.
constexpr const char* kIncrement = R"(HloModule increment, input_output_alias={ {0}: (0, {}, must-alias) }
ENTRY %main (x: f32[6]) -> (f32[6], f32[6]) {
  %x = f32[6] parameter(0)
  %one = f32[] constant(1)
  %ones = f32[6] broadcast(%one), dimensions={}
  %y = f32[6] add(%x, %ones)
  %z = f32[6] negate(%x)
  ROOT %out = (f32[6], f32[6]) tuple(%y, %z)
})";

std::int64_t copied() { return metrics().counter_value("PinnedBytesCopied").value_or(0); }

class Pinned : public ::testing::Test {
 protected:
  // Runs the program; x keeps its memory.
  void increment(DeviceArray& x) {
    const std::byte* const memory = x.bytes().data();
    std::vector<DeviceArray> arguments{std::move(x)};
    x = compile(program_, *world_)->run_with(arguments)[0];
    EXPECT_EQ(x.bytes().data(), memory);
  }
  const std::shared_ptr<ProcessGroup> world_ = make_single_rank_world();
  const Program program_ = read(kIncrement);
};

TEST_F(Pinned, ContentSurvivesAProgramThatOverwritesTheArray) {
  DeviceArray x = array_of({1, 2, 3, 4, 5, 6});
  const auto pinned = x.pin();
  increment(x);
  EXPECT_EQ(x.to_literal(), Literal::from<float>({6}, {2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rest_of(*pinned, 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Pinned, OnlyBytesThatWereNotReadAreCopied) {
  DeviceArray x = array_of({1, 2, 3, 4, 5, 6});
  const auto pinned = x.pin();
  std::vector<float> first(4);
  pinned->read(0, std::as_writable_bytes(std::span(first)));
  const auto before = copied();
  increment(x);
  EXPECT_EQ(copied() - before, 8);
  EXPECT_EQ(rest_of(*pinned, 4), (std::vector<float>{5, 6}));
  EXPECT_THROW(rest_of(*pinned, 3), InternalError);
  increment(x);
  EXPECT_EQ(copied() - before, 8);
}

TEST_F(Pinned, AReleasedArrayIsNotCopied) {
  DeviceArray x = array_of({1, 2, 3, 4, 5, 6});
  const auto pinned = x.pin();
  pinned->release();
  const auto before = copied();
  increment(x);
  EXPECT_EQ(copied(), before);
}

TEST_F(Pinned, ContentSurvivesTheArray) {
  DeviceArray x = array_of({1, 2, 3, 4, 5, 6});
  const auto pinned = x.pin();
  x.reset();
  EXPECT_EQ(rest_of(*pinned, 2), (std::vector<float>{3, 4, 5, 6}));
}

TEST_F(Pinned, ASecondPinDoesNotDisturbTheFirst) {
  DeviceArray x = array_of({1, 2, 3, 4, 5, 6});
  const auto first = x.pin();
  const auto second = x.pin();
  increment(x);
  EXPECT_EQ(rest_of(*first, 0), rest_of(*second, 0));
  EXPECT_EQ(rest_of(*first, 6), std::vector<float>());
}

}  // namespace
}  // namespace tessera
