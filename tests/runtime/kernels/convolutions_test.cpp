// SPDX-License-Identifier: Apache-2.0
// Compares convolutions of f32 that do not run in oneDNN with the reference evaluation, for each instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/close.h"
#include "runtime/on_each_isa.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using testing::expect_as_reference;

struct ConvolutionForm {
  std::string lhs, rhs, result, rest;
};

Program convolution_program(const ConvolutionForm& form) {
  return testing::read(
      fmt::format("HloModule convolution\nENTRY main {{\n  x = {} parameter(0)\n  w = {} parameter(1)\n  "
                  "ROOT y = {} convolution(x, w), {}\n}}\n",
                  form.lhs, form.rhs, form.result, form.rest));
}

void expect_convolution(const ConvolutionForm& form, double units) {
  const Program program = convolution_program(form);
  SCOPED_TRACE(form.result + " " + form.rest);
  expect_as_reference(program, testing::random_arguments(program, 5), units);
}

// The transforms multiply by numbers up to 8, so errors of sums of some hundred products of numbers up to 2 are larger
// than those of the products alone: up to 1e-5 of the typical sum.
constexpr double kTransformed = 2048;

TEST(Convolution, WithWindowsOfThreeByThreeIsTransformed) {
  const std::string forward = "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01";
  for (const ConvolutionForm& form : std::vector<ConvolutionForm>{
           {"f32[2,17,13,11]", "f32[19,17,3,3]", "f32[2,19,13,11]", forward},
           {"f32[5,16,7,7]", "f32[37,16,3,3]", "f32[5,37,7,7]", forward},
           {"f32[7,16,3,3]", "f32[16,16,3,3]", "f32[7,16,3,3]", forward},
           {"f32[1,16,5,131]", "f32[16,16,3,3]", "f32[1,16,3,129]", "window={size=3x3}, dim_labels=bf01_oi01->bf01"},
           {"f32[1,16,9,70]", "f32[18,16,3,3]", "f32[1,18,9,71]",
            "window={size=3x3 pad=2_0x1_2}, dim_labels=bf01_oi01->bf01"},
           {"f32[2,16,15,14]", "f32[3,3,16,20]", "f32[2,20,13,12]", "window={size=3x3}, dim_labels=bf01_01io->bf01"}})
    expect_convolution(form, kTransformed);
}

TEST(Convolution, OfAGradientWithTurnedWindowsIsTransformed) {
  for (const ConvolutionForm& form :
       std::vector<ConvolutionForm>{{"f32[2,19,13,11]", "f32[19,17,3,3]", "f32[2,17,13,11]",
                                     "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"},
                                    {"f32[2,19,11,9]", "f32[19,17,3,3]", "f32[2,17,13,11]",
                                     "window={size=3x3 pad=2_2x2_2 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"},
                                    {"f32[3,16,7,7]", "f32[16,16,3,3]", "f32[3,16,7,8]",
                                     "window={size=3x3 pad=1_1x2_1 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"}})
    expect_convolution(form, kTransformed);
}

TEST(Convolution, OfImagesAndGradientsIsTheTransformedGradientOfWeights) {
  for (const ConvolutionForm& form : std::vector<ConvolutionForm>{
           {"f32[2,17,13,11]", "f32[2,19,13,11]", "f32[19,17,3,3]",
            "window={size=13x11 pad=1_1x1_1}, dim_labels=fb01_io01->fb01"},
           {"f32[5,33,7,7]", "f32[5,16,7,7]", "f32[33,16,3,3]",
            "window={size=7x7 pad=1_1x1_1}, dim_labels=fb01_io01->bf01"},
           {"f32[1,16,9,70]", "f32[1,18,7,68]", "f32[18,16,3,3]", "window={size=7x68}, dim_labels=fb01_io01->fb01"}})
    expect_convolution(form, kTransformed);
}

// The sums over windows of three by three elements with one element of padding, in double, without the reference
// evaluation, which takes long for large images.
struct Direct {
  std::int64_t images, inputs, outputs, size;

  // Calls f(weight, element of the image, element of the map) for every product.
  template <class F>
  void for_each_product(F&& f) const {
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t o = 0; o < outputs; ++o)
        for (std::int64_t i = 0; i < inputs; ++i)
          for (std::int64_t v = 0; v < 3; ++v)
            for (std::int64_t y = std::max<std::int64_t>(0, 1 - v); y < std::min(size, size + 1 - v); ++y)
              for (std::int64_t u = 0; u < 3; ++u)
                for (std::int64_t x = std::max<std::int64_t>(0, 1 - u); x < std::min(size, size + 1 - u); ++x)
                  f(((o * inputs + i) * 3 + v) * 3 + u, ((n * inputs + i) * size + y + v - 1) * size + x + u - 1,
                    ((n * outputs + o) * size + y) * size + x);
  }
};

// The tiles of these do not fit into one block.
TEST(Convolution, OfLargeImagesIsTransformedInBlocks) {
  const Direct direct{.images = 2, .inputs = 130, .outputs = 17, .size = 70};
  const auto image = testing::random_literal(Type::array(DType::kF32, {2, 130, 70, 70}), 1);
  const auto weights = testing::random_literal(Type::array(DType::kF32, {17, 130, 3, 3}), 2);
  const auto map = testing::random_literal(Type::array(DType::kF32, {2, 17, 70, 70}), 3);
  const auto x = image.data<float>();
  const auto w = weights.data<float>();
  const auto m = map.data<float>();
  std::vector<double> forward(m.size());
  std::vector<double> gradient(w.size());
  direct.for_each_product([&](std::int64_t weight, std::int64_t from, std::int64_t to) {
    forward[static_cast<std::size_t>(to)] += static_cast<double>(at(w, weight)) * static_cast<double>(at(x, from));
    gradient[static_cast<std::size_t>(weight)] += static_cast<double>(at(m, to)) * static_cast<double>(at(x, from));
  });
  std::vector<float> map_values(forward.begin(), forward.end());
  std::vector<float> weight_values(gradient.begin(), gradient.end());
  const auto world = make_single_rank_world();
  const Program transformed = convolution_program({"f32[2,130,70,70]", "f32[17,130,3,3]", "f32[2,17,70,70]",
                                                   "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"});
  const Program transformed_gradient =
      convolution_program({"f32[2,130,70,70]", "f32[2,17,70,70]", "f32[17,130,3,3]",
                           "window={size=70x70 pad=1_1x1_1}, dim_labels=fb01_io01->fb01"});
  testing::on_each_isa([&] {
    EXPECT_TRUE(testing::close(run_program(transformed, *world, {image, weights}),
                               Literal::from<float>({2, 17, 70, 70}, map_values), 8 * kTransformed));
    EXPECT_TRUE(testing::close(run_program(transformed_gradient, *world, {image, map}),
                               Literal::from<float>({17, 130, 3, 3}, weight_values), 16 * kTransformed));
  });
}

TEST(Convolution, WithWindowsOfOneElementIsOneProductOverAllImages) {
  for (const ConvolutionForm& form : std::vector<ConvolutionForm>{
           {"f32[9,65,7,7]", "f32[37,65,1,1]", "f32[9,37,7,7]", "window={size=1x1}, dim_labels=bf01_oi01->bf01"},
           {"f32[3,430,5,5]", "f32[33,430,1,1]", "f32[3,33,5,5]", "window={size=1x1}, dim_labels=bf01_oi01->bf01"},
           {"f32[9,37,7,7]", "f32[37,65,1,1]", "f32[9,65,7,7]",
            "window={size=1x1 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"},
           {"f32[9,65,7,7]", "f32[9,37,7,7]", "f32[37,65,1,1]", "window={size=7x7}, dim_labels=fb01_io01->fb01"},
           {"f32[9,65,7,7]", "f32[9,37,7,7]", "f32[65,37,1,1]", "window={size=7x7}, dim_labels=fb01_io01->bf01"},
           {"f32[2,17,41,23]", "f32[2,19,41,23]", "f32[19,17,1,1]", "window={size=41x23}, dim_labels=fb01_io01->fb01"}})
    expect_convolution(form, 512);
}

TEST(Convolution, WithStepsAndWindowsOfOneElementReadsOnlySomePlaces) {
  for (const ConvolutionForm& form : std::vector<ConvolutionForm>{
           {"f32[3,65,14,13]", "f32[67,65,1,1]", "f32[3,67,7,7]",
            "window={size=1x1 stride=2x2 pad=0_-1x0_0}, dim_labels=bf01_oi01->bf01"},
           {"f32[3,67,7,7]", "f32[67,65,1,1]", "f32[3,65,14,13]",
            "window={size=1x1 pad=0_1x0_0 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"},
           {"f32[3,65,14,13]", "f32[3,67,7,7]", "f32[67,65,1,1]",
            "window={size=7x7 pad=0_-1x0_0 rhs_dilate=2x2}, dim_labels=fb01_io01->fb01"}})
    expect_convolution(form, 512);
}

}  // namespace
}  // namespace tessera
