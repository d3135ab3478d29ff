// SPDX-License-Identifier: Apache-2.0
// The device `xla:0`, and printing tensors on it.
#include "tessera/frontend/execution/device.h"

#include <gtest/gtest.h>

#include <sstream>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/random.h"
#include "tessera/nn/linear.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::int64_t transfers() {
  const auto data = metrics().metric_data("TransferFromDeviceTime");
  return data ? data->total_samples : 0;
}

TEST(Device, IsXla0OnEveryRank) {
  on_ranks(3, [](int) {
    EXPECT_EQ(printed(xla_device()), "xla:0");
    EXPECT_EQ(device().type(), "xla");
    EXPECT_EQ(device().index(), 0);
    const Tensor x = Tensor::from<float>({3}, {1, 2, 3});
    EXPECT_EQ(x.device(), device());
    mark_sharding(x, Mesh({{"data", 3}}), {"data"});
    EXPECT_EQ((x * 2.0).device(), device());
  });
}

TEST(Device, ToTheDeviceGivesTheSameVariableAndRunsNothing) {
  const FreshRank rank;
  const Tensor x = variable<float>({2}, {1, 2});
  nn::Linear layer(2, 3);
  const std::int64_t before = lazy_counters().recorded_ops;
  EXPECT_TRUE(same_variable(x.to(device()), x));
  EXPECT_EQ(&layer.to(device()), &layer);
  EXPECT_EQ(lazy_counters().recorded_ops, before);
  EXPECT_EQ(lazy_counters().executions, 0);
}

TEST(Device, PrintingShowsValuesAndDeviceAndIsOneTransfer) {
  const FreshRank rank;
  const Tensor y = (f64s({1, 2}) * 2.0).to(device());
  EXPECT_EQ(transfers(), 0);
  EXPECT_EQ(printed(y), "tensor({2,4}, f64[2], device xla:0)");
  EXPECT_EQ(transfers(), 1);
  EXPECT_EQ(lazy_counters().executions, 1);
}

TEST(Device, RandomNumbersWithASeedArePrintedTheSameOnEveryMesh) {
  std::string alone, of_three;
  on_ranks(1, [&](int) { alone = printed(rand(Key(42), {3, 2}).to(device())); });
  on_ranks(3, [&](int rank) {
    const Tensor x = rand(Key(42), {3, 2}).to(device());
    mark_sharding(x, Mesh({{"data", 3}}), {"data", {}});
    const std::string text = printed(x);
    if (rank == 0) of_three = text;
  });
  EXPECT_EQ(of_three, alone);
  EXPECT_NE(alone.find("f32[3,2], device xla:0)"), std::string::npos) << alone;
}

}  // namespace
}  // namespace tessera
