// SPDX-License-Identifier: Apache-2.0
// Numbers and element types: what an integer tensor or a pred tensor does with a number that it cannot represent.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/tensor/bounded.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::numbers;
using testing::Numbers;

// x[0] = y, x.t() = y and x.grad() = y would change nothing.
static_assert(!std::is_assignable_v<Tensor, Tensor> && !std::is_assignable_v<Tensor, const Tensor&>);
static_assert(!std::is_assignable_v<decltype(std::declval<Tensor>()[0]), Tensor>);
static_assert(std::is_assignable_v<Tensor&, Tensor> && std::is_assignable_v<Tensor&, const Tensor&>);
static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);

Tensor bytes() { return Tensor::from(std::vector<std::uint8_t>{0, 7, 255}, {3}); }
Tensor integers() { return Tensor::from({-5, 0, 2147483647}, {3}); }

TEST(NumberTypes, ComparisonsWithNumbersOutOfRangeAreExact) {
  const FreshRank rank;
  const double infinity = std::numeric_limits<double>::infinity();
  const Numbers all{1, 1, 1};
  const Numbers none{0, 0, 0};
  EXPECT_EQ(numbers(integers() < 3e9), all);
  EXPECT_EQ(numbers(integers() <= infinity), all);
  EXPECT_EQ(numbers(integers() > 3e9), none);
  EXPECT_EQ(numbers(integers() >= -infinity), all);
  EXPECT_EQ(numbers(bytes() > -1), all);
  EXPECT_EQ(numbers(bytes() == 256), none);
  EXPECT_EQ(numbers(bytes() != 256), all);
  EXPECT_EQ(numbers(-1 < bytes()), all);
  EXPECT_EQ(numbers(3e9 <= integers()), none);
  EXPECT_EQ(numbers(bytes() >= 255), (Numbers{0, 0, 1}));  // in range
}

TEST(NumberTypes, ComparisonsOfIntegersWithFractionsAreExact) {
  const FreshRank rank;
  const Numbers below{1, 0, 0};
  const Numbers above{0, 1, 1};
  EXPECT_EQ(numbers(bytes() < 6.5), below);
  EXPECT_EQ(numbers(bytes() <= 6.5), below);
  EXPECT_EQ(numbers(bytes() > 6.5), above);
  EXPECT_EQ(numbers(bytes() >= 6.5), above);
  EXPECT_EQ(numbers(6.5 > bytes()), below);
  EXPECT_EQ(numbers(6.5 >= bytes()), below);
  EXPECT_EQ(numbers(6.5 < bytes()), above);
  EXPECT_EQ(numbers(6.5 <= bytes()), above);
  EXPECT_EQ(numbers(bytes() == 6.5), (Numbers{0, 0, 0}));
  EXPECT_EQ(numbers(bytes() != 6.5), (Numbers{1, 1, 1}));
  EXPECT_EQ(numbers(bytes() < std::nan("")), (Numbers{0, 0, 0}));
  EXPECT_EQ(numbers(bytes() != std::nan("")), (Numbers{1, 1, 1}));
}

TEST(NumberTypes, BoundsThatAllNumbersSatisfyHaveNoEffect) {
  const FreshRank rank;
  EXPECT_EQ(numbers(clamp(integers(), {.max = 3e9})), numbers(integers()));
  EXPECT_EQ(numbers(clamp(bytes(), -5, 300)), numbers(bytes()));
  EXPECT_EQ(numbers(clamp(bytes(), -5, 8)), (Numbers{0, 7, 8}));
  EXPECT_EQ(numbers(maximum(bytes(), -5)), numbers(bytes()));
  EXPECT_EQ(numbers(minimum(300, bytes())), numbers(bytes()));
  EXPECT_EQ(
      error_of([] { (void)maximum(bytes(), 300); }),
      "maximum: 300 is out of range: the other operand is u8[3], and u8 has the numbers 0 to 255; convert it with "
      ".to()");
  EXPECT_EQ(error_of([] { (void)clamp(bytes(), {.max = -1}); }),
            "clamp: -1 is out of range: the tensor is u8[3], and u8 has the numbers 0 to 255; convert it with .to()");
}

TEST(NumberTypes, IntegersAreNotDividedByTheNumber0) {
  const FreshRank rank;
  const std::string reason = ": the integers u8[3] are divided by 0";
  EXPECT_EQ(error_of([] { (void)(bytes() % 0); }), "remainder" + reason);
  EXPECT_EQ(error_of([] { (void)div(bytes(), 0, RoundingMode::kTrunc); }), "div" + reason);
  EXPECT_EQ(error_of([] { (void)div(bytes(), 0, RoundingMode::kFloor); }), "floor_divide" + reason);
  EXPECT_EQ(error_of([] { (void)remainder(bytes(), 0); }), "remainder" + reason);
  EXPECT_EQ(error_of([] { (void)fmod(bytes(), 0); }), "fmod" + reason);
  EXPECT_EQ(error_of([] { (void)floor_divide(bytes(), 0); }), "floor_divide" + reason);
  EXPECT_TRUE(std::isinf(numbers(ones({1}) / 0)[0]));
}

TEST(NumberTypes, NumbersThatAnIntegerTypeLacksAreErrors) {
  const FreshRank rank;
  const Tensor mask = bytes() > 5;
  const Tensor index = Tensor::from({0, 1, 2}, {3});
  const double infinity = std::numeric_limits<double>::infinity();
  const auto expect_out_of_range = [](const std::function<void()>& f, const std::string& start) {
    EXPECT_EQ(error_of(f).find(start), 0U) << error_of(f);
  };
  expect_out_of_range([&] { (void)(bytes() + 256); }, "add: 256 is out of range");
  expect_out_of_range([&] { (void)where(mask, bytes(), 300); }, "where: 300 is out of range");
  expect_out_of_range([&] { (void)masked_fill(integers(), mask, -infinity); }, "masked_fill: -inf is out of range");
  expect_out_of_range([&] { (void)pad(bytes(), 0, 1, 1, 300); }, "pad: 300 is out of range");
  expect_out_of_range([&] { (void)pad(integers(), 0, 1, 1, 0.5); }, "pad: 0.5 is not an integer");
  expect_out_of_range([&] { (void)scatter(integers(), 0, index, 7.5); }, "scatter: 7.5 is not an integer");
  expect_out_of_range([&] { (void)full_like(integers(), 2.7); }, "full: 2.7 is not an integer");
  expect_out_of_range([&] { (void)full({}, infinity, kS32); }, "full: inf is out of range");
  expect_out_of_range([&] { (void)Tensor::scalar(kS32, 2.7); }, "scalar: 2.7 is not an integer");
  expect_out_of_range([&] { (void)arange(2999999998LL, 3000000001LL); }, "arange: 2999999998 is out of range");
  expect_out_of_range([&] { (void)randint(Key(1), 0, 4000000000LL, {2}); }, "randint: 3999999999 is out of range");
  expect_out_of_range([&] { (void)nonzero(mask, {.size = 2, .fill_value = 0.5}); }, "nonzero: 0.5 is not an integer");
  EXPECT_EQ(
      error_of([] { (void)full({2}, 300, kU8); }),
      "full: 300 is out of range: the result is u8[2], and u8 has the numbers 0 to 255; use another element type");
}

TEST(NumberTypes, EveryNumberOfATypeIsAccepted) {
  const FreshRank rank;
  EXPECT_EQ(numbers(full({1}, 255, kU8)), Numbers{255});
  EXPECT_EQ(numbers(full({1}, -0x1p63, kS64)), Numbers{-0x1p63});
  EXPECT_EQ(numbers(arange(2999999998LL, 3000000000LL, 1, kS64)), (Numbers{2999999998, 2999999999}));
  EXPECT_EQ(randint(Key(1), 0, std::int64_t{1} << 31, {2}).dtype(), kS32);
  EXPECT_EQ(numbers(full({1}, 2, kBool)), Numbers{1});
}

TEST(NumberTypes, APredTensorWithANumberIsAnError) {
  const FreshRank rank;
  const Tensor mask = bytes() > 5;
  const auto advice = [](const std::string& op, const std::string& number) {
    return op + ": the number " + number +
           " with pred[3] would give a result of type pred; convert the tensor first, as in mask.to(kF32) * 2.0";
  };
  EXPECT_EQ(error_of([&] { (void)(mask * 2.0); }), advice("multiply", "2"));
  EXPECT_EQ(error_of([&] { (void)(mask + 1.0); }), advice("add", "1"));
  EXPECT_EQ(error_of([&] { (void)(1.0 - mask); }), advice("subtract", "1"));
  EXPECT_EQ(error_of([&] { (void)(mask == 2.0); }), advice("compare", "2"));
  EXPECT_EQ(error_of([&] { (void)maximum(mask, 2); }), advice("maximum", "2"));
  EXPECT_EQ(numbers(maximum(mask, 1)), (Numbers{1, 1, 1}));
  EXPECT_EQ(numbers(minimum(0, mask)), (Numbers{0, 0, 0}));
  EXPECT_EQ(numbers(mask == true), (Numbers{0, 1, 1}));
  EXPECT_EQ(numbers(where(mask, mask, true)), (Numbers{1, 1, 1}));
  EXPECT_EQ(numbers(mask.to(kF32) * 2.0), (Numbers{0, 2, 2}));
}

}  // namespace
}  // namespace tessera
