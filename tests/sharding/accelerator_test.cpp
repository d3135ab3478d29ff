// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/accelerator.h"

#include <gtest/gtest.h>

#include "support/error_of.h"

namespace tessera {
namespace {

using ::tessera::testing::error_of;

TEST(AcceleratorSlice, NamesCountCoresOrChips) {
  struct Case {
    const char* name;
    const char* text;
    std::int64_t devices;
  };
  for (const auto& [name, text, devices] :
       {Case{"v2-8", "v2-8: 8 cores, 4 chips, 1 host", 8}, Case{"v3-8", "v3-8: 8 cores, 4 chips, 1 host", 8},
        Case{"v3-32", "v3-32: 32 cores, 16 chips, 4 hosts", 32}, Case{"v4-8", "v4-8: 8 cores, 4 chips, 1 host", 4},
        Case{"v4-64", "v4-64: 64 cores, 32 chips, 8 hosts", 32},
        Case{"v4-512", "v4-512: 512 cores, 256 chips, 64 hosts", 256},
        Case{"v5p-128", "v5p-128: 128 cores, 64 chips, 16 hosts", 64},
        Case{"v5litepod-1", "v5litepod-1: 1 core, 1 chip, 1 host", 1},
        Case{"v5litepod-8", "v5litepod-8: 8 cores, 8 chips, 1 host", 8},
        Case{"v6e-64", "v6e-64: 64 cores, 64 chips, 16 hosts", 64}}) {
    const auto slice = AcceleratorSlice::parse(name);
    ASSERT_TRUE(slice) << name;
    EXPECT_EQ(slice->str(), text);
    EXPECT_EQ(slice->devices, devices) << name;
  }
}

TEST(AcceleratorSlice, OtherTextsAreNotNamesOfSlices) {
  for (const char* text : {"", "8", "v4", "data=8", "v1-8", "-8"}) EXPECT_FALSE(AcceleratorSlice::parse(text)) << text;
}

TEST(AcceleratorSlice, ErrorsSayWhichNumbersAreValid) {
  const auto error = [](const char* name) { return error_of([&] { (void)AcceleratorSlice::parse(name); }); };
  EXPECT_EQ(error("v3-x"), "v3-x: the name of a slice is v3-N, where N is a multiple of 8");
  EXPECT_EQ(error("v3-7"), "v3-7: the name of a slice is v3-N, where N is a multiple of 8");
  EXPECT_EQ(error("v4-12"), "v4-12: a slice of v4 has a multiple of 8 cores");
  EXPECT_EQ(error("v3-4096"), "v3-4096: a pod of v3 has only 2048 cores");
  EXPECT_EQ(error("v5litepod-6"), "v5litepod-6: a slice of v5litepod has a multiple of 4 chips, or 1");
}

}  // namespace
}  // namespace tessera
