// SPDX-License-Identifier: Apache-2.0
// Functions and members under the names that PyTorch's users type.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/tensor/windows.h"

namespace tessera {
namespace {

using testing::counted;
using testing::error_of;
using testing::numbers;
using testing::Numbers;

TEST(TorchNames, SizesAreNumbers) {
  const FreshRank rank;
  const Tensor x = zeros({2, 3, 5});
  EXPECT_EQ(x.dim(), 3);
  EXPECT_EQ(x.dim(-1), 5);
  const auto [b, t, c] = x.sizes<3>();
  EXPECT_EQ(b, 2);
  EXPECT_EQ(t, 3);
  EXPECT_EQ(c, 5);
  EXPECT_EQ(zeros({}).sizes<0>().size(), 0U);
  EXPECT_EQ(error_of([&] { (void)x.sizes<2>(); }), "sizes: needs 2 dims, got f32[2,3,5]");
}

TEST(TorchNames, ItemsHaveTheTypeOfTheCaller) {
  const FreshRank rank;
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // not a double
  EXPECT_EQ(Tensor::from(std::vector<std::int64_t>{large}, {1}).item<std::int64_t>(), large);
  EXPECT_EQ(full({}, -2.75).item<int>(), -2);
  EXPECT_EQ(full({}, 0.5).item<float>(), 0.5F);
  EXPECT_TRUE(full({}, 0.5).item<bool>());
  EXPECT_EQ((full({}, 3) > 2).item<int>(), 1);
  EXPECT_EQ(full({}, 255, kU8).item<std::uint8_t>(), 255);
  EXPECT_EQ(full({}, 7, kS32).item<std::uint64_t>(), 7U);
  EXPECT_EQ(error_of([] { (void)full({}, 300, kS32).item<std::uint8_t>(); }), "item: 300 is not in the range 0 to 255");
  EXPECT_EQ(error_of([] { (void)full({}, 1e10).item<int>(); }),
            "item: 10000000000 is not in the range -2147483648 to 2147483647");
  EXPECT_NE(error_of([] { (void)full({}, std::nan("")).item<int>(); }), "no error");
  EXPECT_EQ(error_of([] { (void)arange(2).item<int>(); }), "item: needs a single element, got s32[2]");
}

TEST(TorchNames, ShapesAndTypesOfOtherTensors) {
  const FreshRank rank;
  const Tensor x = counted({2, 6}), y = zeros({2, 2, 3}, kS32);
  EXPECT_EQ(x.type_as(y).dtype(), kS32);
  EXPECT_EQ(x.view_as(y).dims(), y.dims());
  EXPECT_EQ(numbers(x.reshape_as(y)), numbers(x));
  EXPECT_EQ(numbers(counted({1, 3}).expand_as(y)), (Numbers{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(counted({2, 3, 5}).T().dims(), Dims({5, 3, 2}));
  EXPECT_EQ(numbers(counted({2, 3}).T()), (Numbers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(counted({2, 3, 5}).mT().dims(), Dims({2, 5, 3}));
  EXPECT_EQ(numbers(x.contiguous()), numbers(x));
  EXPECT_EQ(x.unflatten(1, {3, -1}).dims(), Dims({2, 3, 2}));
  EXPECT_EQ(unflatten(x, -2, {1, 2}).dims(), Dims({1, 2, 6}));
  EXPECT_EQ(error_of([&] {
              (void)x.unflatten(1, {4, -1});
            }),
            "unflatten: the sizes [4,-1] do not multiply to 6, the size of dim 1 of f64[2,6]");
}

TEST(TorchNames, ACloneKeepsTheValueOfAVariable) {
  const FreshRank rank;
  Tensor x = counted({3});
  x.set_requires_grad();
  const Tensor before = x.clone();
  sum(before * 2.0).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{2, 2, 2}));
  x.assign(zeros({3}, kF64));
  EXPECT_EQ(numbers(before), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers(x), (Numbers{0, 0, 0}));
}

TEST(TorchNames, ProductsOfSeveralDims) {
  const FreshRank rank;
  const Tensor x = counted({2, 3}), w = counted({2, 3}) - 1.0, bias = Tensor::from({10.0, 20.0}, {2});
  // rows (0 1 2) and (3 4 5) times (-1 0 1) and (2 3 4)
  EXPECT_EQ(numbers(linear(x, w)), (Numbers{2, 11, 2, 38}));
  EXPECT_EQ(numbers(linear(x, w, bias)), (Numbers{12, 31, 12, 58}));
  EXPECT_EQ(linear(counted({3}), w).dims(), Dims({2}));
  EXPECT_EQ(error_of([&] { (void)linear(x, w.t()); }),
            "linear: needs x [.., in] and a weight [out, in], got f64[2,3] and f64[3,2]");
  EXPECT_EQ(numbers(tensordot(x, w)), Numbers{2 + 38});
  EXPECT_EQ(numbers(tensordot(x, w, 0)).size(), 36U);
  EXPECT_EQ(numbers(tensordot(x, w, {1}, {-1})), (Numbers{2, 11, 2, 38}));
  EXPECT_EQ(numbers(kron(Tensor::from({1.0, 10.0}, {2}), Tensor::from({1.0, 2.0, 3.0}, {3}))),
            (Numbers{1, 2, 3, 10, 20, 30}));
  EXPECT_EQ(numbers(kron(counted({2, 2}), Tensor::from({1.0, 2.0}, {2, 1}))), (Numbers{0, 1, 0, 2, 2, 3, 4, 6}));
}

TEST(TorchNames, PaddingRepeatsElements) {
  const FreshRank rank;
  const Tensor x = counted({4});
  EXPECT_EQ(numbers(pad(x, {2, 3}, PadMode::kReflect)), (Numbers{2, 1, 0, 1, 2, 3, 2, 1, 0}));
  EXPECT_EQ(numbers(pad(x, {2, 1}, PadMode::kReplicate)), (Numbers{0, 0, 0, 1, 2, 3, 3}));
  EXPECT_EQ(numbers(pad(x, {2, 4}, PadMode::kCircular)), (Numbers{2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(numbers(pad(x, {1, -2}, PadMode::kConstant, 7)), (Numbers{7, 0, 1}));
  EXPECT_EQ(numbers(pad(counted({2, 2}), {0, 1, 1, 0}, PadMode::kReflect)), (Numbers{2, 3, 2, 0, 1, 0, 2, 3, 2}));
  EXPECT_EQ(error_of([&] {
              (void)pad(x, {4, 0}, PadMode::kReflect);
            }),
            "pad: padding 4 before and 0 after dim 0 of f64[4] needs more elements than the dim has");
  EXPECT_EQ(error_of([&] {
              (void)pad(x, {0, -1}, PadMode::kCircular);
            }),
            "pad: only a constant padding may be negative, got 0 and -1");
  EXPECT_EQ(error_of([&] { (void)pad(x, {1}); }), "pad: needs two sizes for each of the last dims, got [1]");
}

TEST(TorchNames, WindowsOfImagesAreColumns) {
  const FreshRank rank;
  const Tensor x = counted({1, 1, 3, 3});
  EXPECT_EQ(unfold(x, 2).dims(), Dims({1, 4, 4}));
  EXPECT_EQ(numbers(unfold(x, 2)), (Numbers{0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8}));
  // Padded by 1, the windows with dilation 2 and stride 2 begin at the corners of the padded 5 x 5 image.
  EXPECT_EQ(numbers(unfold(x, 2, {.dilation = 2, .padding = 1, .stride = 2})),
            (Numbers{0, 0, 0, 4, 0, 0, 4, 0, 0, 4, 0, 0, 4, 0, 0, 0}));
  // Each element is in as many windows as fold adds.
  const Tensor ones_of_windows = unfold(ones({2, 3, 3, 3}, kF64), 2);
  EXPECT_EQ(numbers(fold(ones_of_windows, 3, 2)[{1, 2}]), (Numbers{1, 2, 1, 2, 4, 2, 1, 2, 1}));
  EXPECT_EQ(numbers(fold(unfold(x, {3, 1}), {3, 3}, {3, 1})), numbers(x));
  EXPECT_EQ(error_of([&] { (void)unfold(x, 4); }), "unfold: a window of 4 does not fit into the padded size 3");
  EXPECT_EQ(error_of([&] {
              (void)fold(zeros({1, 4, 3}), 3, 2);
            }),
            "fold: needs columns [n, a multiple of 4, 4], got f32[1,4,3]");
}

TEST(TorchNames, Comparisons) {
  const FreshRank rank;
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = Tensor::from({1.0, 100.0, infinity, nan, infinity, 0.0}, {6});
  const Tensor y = Tensor::from({1.00001, 100.01, infinity, nan, -infinity, 1e-9}, {6});
  EXPECT_EQ(numbers(isclose(x, y)), (Numbers{1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(numbers(isclose(x, y, {.rtol = 1e-3, .equal_nan = true})), (Numbers{1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(numbers(isclose(arange(3), Tensor::from({0, 1, 3}, {3}))), (Numbers{1, 1, 0}));
  EXPECT_TRUE(allclose(x[Range(0, 1)], y[Range(0, 1)]));
  EXPECT_FALSE(allclose(x, y));
  EXPECT_TRUE(allclose(x[Range(0, 2)], 50.0, {.rtol = 1}));
  EXPECT_TRUE(equal(arange(3), arange(3)));
  EXPECT_FALSE(equal(arange(3), arange(3) + 1));
  EXPECT_FALSE(equal(arange(3), arange(3).reshape(1, 3)));
  EXPECT_EQ(numbers(heaviside(Tensor::from({-2.0, 0.0, 3.0, nan}, {4}), 0.5)), (Numbers{0, 0.5, 1, 0}));
}

TEST(TorchNames, SizesThatExceed64BitsAreErrors) {
  const FreshRank rank;
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  // The product 2^64 would wrap to 0, the size of the dim.
  EXPECT_TRUE(error_of([&] {
                (void)unflatten(zeros({0}), 0, {4, kHuge});
              }).starts_with("unflatten: the sizes [4,4611686018427387904] do not multiply to 0"));
  const Tensor x = counted({1, 1, 3, 3});
  EXPECT_TRUE(error_of([&] {
                (void)unfold(x, 2, {.padding = kHuge});
              }).starts_with("unfold: a size with its padding or a window exceeds 64 bits"));
  EXPECT_TRUE(error_of([&] {
                (void)unfold(x, {3, 2}, {.dilation = kHuge});
              }).starts_with("unfold: a size with its padding or a window exceeds 64 bits"));
  EXPECT_TRUE(error_of([&] {
                (void)unfold(x, 2, {.padding = 40000});
              }).starts_with("unfold: an image of 80003 x 80003 has more positions than s32 numbers"));
  EXPECT_TRUE(error_of([&] {
                (void)tensordot(x, x, -1);
              }).starts_with("tensordot: the number of dims must not be negative, got -1"));
}

TEST(TorchNames, RandomNumbersLikeATensor) {
  const FreshRank rank;
  const Tensor x = zeros({2, 3}, kF64);
  EXPECT_EQ(numbers(rand_like(Key(7), x)), numbers(rand(Key(7), {2, 3}, kF64)));
  EXPECT_EQ(numbers(randn_like(Key(7), x)), numbers(randn(Key(7), {2, 3}, kF64)));
  const Tensor ids = zeros({2, 3}, kS64);
  EXPECT_EQ(numbers(randint_like(Key(7), ids, 2, 9)), numbers(randint(Key(7), 2, 9, {2, 3}, kS64)));
  EXPECT_EQ(randint_like(Key(7), ids, 2, 9).dtype(), kS64);
}

TEST(TorchNames, DropoutWithAKeyOrWithoutTraining) {
  const FreshRank rank;
  const Tensor x = ones({1000}, kF64);
  const Numbers got = numbers(dropout(Key(3), x, 0.25));
  EXPECT_EQ(got, numbers(dropout(Key(3), x, 0.25)));
  EXPECT_NE(got, numbers(dropout(Key(4), x, 0.25)));
  int kept = 0;
  for (const double value : got) {
    EXPECT_TRUE(value == 0 || value == 1 / 0.75) << value;
    kept += value != 0 ? 1 : 0;
  }
  EXPECT_NEAR(kept, 750, 70);  // five standard deviations
  EXPECT_EQ(numbers(dropout(x, 0.25, {.training = false})), numbers(x));
  EXPECT_NE(numbers(dropout(x, 0.25, {.training = true})), numbers(x));
  EXPECT_EQ(error_of([&] { (void)dropout(Key(3), x, 1); }), "dropout: the probability must be in [0, 1), got 1");
}

}  // namespace
}  // namespace tessera
