// SPDX-License-Identifier: Apache-2.0
// Convolutions over one dim, transposed convolutions, batch normalization of other shapes, and adaptive pools.
#include "tessera/nn/convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "module_checks.h"
#include "support/sanitizers.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/pools.h"

namespace tessera::nn {
namespace {

using Numbers = std::vector<double>;

double inner_product(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }

TEST(Convolutions, OverOneDimEqualTheDefinition) {
  const FreshRank rank;
  constexpr std::int64_t kIn = 6, kOut = 4, kGroups = 2, kLength = 11;
  Conv1d layer(kIn, kOut, 3, {.stride = 2, .padding = 2, .dilation = 2, .groups = kGroups, .dtype = DType::kF64});
  const Tensor x = varied({2, kIn, kLength});
  const Tensor y = layer(x);
  ASSERT_EQ(y.dims(), Dims({2, kOut, 6}));  // (11 + 4 - 5) / 2 + 1
  const Numbers in = x.to_vector<double>(), w = layer.weight().to_vector<double>(),
                b = layer.bias().to_vector<double>(), out = y.to_vector<double>();
  std::size_t place = 0;
  for_each_index(y.dims(), [&](const Dims& o) {
    double total = at(b, o[1]);
    for_each_index({kIn / kGroups, 3}, [&](const Dims& k) {
      const auto l = o[2] * 2 - 2 + k[1] * 2;
      const auto c = o[1] / (kOut / kGroups) * (kIn / kGroups) + k[0];
      if (l >= 0 && l < kLength)
        total += at(in, (o[0] * kIn + c) * kLength + l) * at(w, (o[1] * kIn / kGroups + k[0]) * 3 + k[1]);
    });
    EXPECT_NEAR(out[place++], total, 1e-12);
  });
}

// sum(conv2d(x, w) * y) = sum(x * conv_transpose2d(y, w)): the weight [out, in / groups, ..] of one is that of the other.
TEST(Convolutions, ATransposedConvolutionIsTheAdjointOfAConvolution) {
  const FreshRank rank;
  const struct {
    Dims image, kernel, stride, padding, dilation;
    std::int64_t groups, in, out;
  } cases[] = {{{7, 5}, {3, 2}, {2, 1}, {1, 0}, {1, 1}, 1, 3, 5},
               {{8, 9}, {3, 3}, {2, 3}, {1, 2}, {2, 1}, 1, 2, 3},
               {{6, 7}, {2, 4}, {3, 2}, {0, 1}, {1, 2}, 2, 4, 6},
               {{5, 5}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 3, 3, 6}};
  for (const auto& c : cases) {
    const Tensor x = varied({2, c.in, c.image[0], c.image[1]});
    const Tensor w = varied({c.out, c.in / c.groups, c.kernel[0], c.kernel[1]}, 0.3);
    const Tensor forward = conv2d(x, w, {c.stride, c.padding, c.dilation, c.groups});
    const Tensor y = varied(forward.dims(), 0.7);
    Dims more;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t smallest = (forward.dim(static_cast<int>(d) + 2) - 1) * c.stride[d] - 2 * c.padding[d] +
                                    c.dilation[d] * (c.kernel[d] - 1) + 1;
      more.push_back(c.image[d] - smallest);
    }
    const Tensor back = conv_transpose2d(y, w, {c.stride, c.padding, more, c.dilation, c.groups});
    ASSERT_EQ(back.dims(), x.dims());
    EXPECT_NEAR(inner_product(forward, y), inner_product(x, back), 1e-10);
  }
}

TEST(Convolutions, TransposedOverOneDimByHand) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({1, 1, 2}, Numbers{1, 2});
  const Tensor w = Tensor::from<double>({1, 1, 3}, Numbers{1, 10, 100});
  EXPECT_EQ(conv_transpose1d(x, w, {.stride = 2}).to_vector<double>(), Numbers({1, 10, 102, 20, 200}));
  EXPECT_EQ(conv_transpose1d(x, w, {.stride = 2, .padding = 1, .output_padding = 1}).to_vector<double>(),
            Numbers({10, 102, 20, 200}));
  EXPECT_EQ(conv_transpose1d(x, w, {.dilation = 2}).to_vector<double>(), Numbers({1, 2, 10, 20, 100, 200}));
}

TEST(Convolutions, ErrorsNameTheArguments) {
  const FreshRank rank;
  const auto message = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([] { Conv1d(3, 4, 3, {.groups = 2}); }).find("Conv1d: 2 groups do not divide 3 and 4 channels"),
            std::string::npos);
  EXPECT_NE(message([] { Conv2d(3, 4, 0); }).find("Conv2d: kernel_size must be at least 1, got 0"), std::string::npos);
  EXPECT_NE(message([] { Conv1d(3, 4, -2); }).find("Conv1d: kernel_size must be at least 1, got -2"),
            std::string::npos);
  EXPECT_NE(message([] {
              ConvTranspose2d(4, 4, {1, 2, 3});
            }).find("kernel_size needs one number or two, got 3"),
            std::string::npos);
  EXPECT_NE(message([] {
              ConvTranspose1d(4, 4, 3, {.output_padding = 1, .dtype = DType::kF64})(varied({1, 4, 5}));
            }).find("output_padding 1 must not be negative, and must be below stride 1 or dilation 1"),
            std::string::npos);
  EXPECT_NE(message([] {
              conv1d(varied({2, 3}), varied({2, 3, 1}));
            }).find("x must be [n, c, l], got f64[2,3]"),
            std::string::npos);
  EXPECT_NE(message([] {
              Conv2d(3, 4, {3}, {.dtype = DType::kF64})(varied({1, 4, 8, 8}));
            }).find("Conv2d of 3 channels needs x [n, 3, h, w], got f64[1,4,8,8]"),
            std::string::npos);
  EXPECT_NE(message([] {
              BatchNorm1d(3, {.dtype = DType::kF64})(varied({2, 4}));
            }).find("BatchNorm1d(3) takes a tensor of 2 or 3 dims with 3 channels in dim 1, got f64[2,4]"),
            std::string::npos);
  EXPECT_NE(message([] {
              BatchNorm1d(3, {.dtype = DType::kF64})(varied({1, 3}));
            })
                .find("BatchNorm1d computes statistics of the batch, which needs more than one value for each channel, "
                      "got f64[1,3]"),
            std::string::npos);
}

TEST(AdaptivePools, CoverTheImageWithWindowsOfDifferentSizes) {
  const FreshRank rank;
  const Tensor row = Tensor::from<double>({1, 1, 1, 5}, Numbers{1, 2, 3, 4, 5});
  // Windows [0, 2), [1, 4), [3, 5).
  EXPECT_EQ(AdaptiveAvgPool2d({1, 3})(row).to_vector<double>(), Numbers({1.5, 3, 4.5}));
  EXPECT_EQ(AdaptiveAvgPool2d({1, 7})(row).dims(), Dims({1, 1, 1, 7}));
  const Tensor x = varied({2, 3, 6, 4});
  expect_close(AdaptiveAvgPool2d({3, 2})(x).to_vector<double>(),
               avg_pool2d(x, {.kernel_size = {2}}).to_vector<double>(), "windows of equal sizes", 1e-12);
}

TEST(BatchNorm, OfVectorsAndSequencesUsesAllButTheChannels) {
  const FreshRank rank;
  BatchNorm1d norm(2, {.epsilon = 0, .momentum = 0.5, .dtype = DType::kF64});
  EXPECT_EQ(norm(Tensor::from<double>({2, 2}, Numbers{1, 10, 3, 30})).to_vector<double>(), Numbers({-1, -1, 1, 1}));
  mark_step();
  EXPECT_EQ(norm.running_mean().to_vector<double>(), Numbers({1, 10}));
  EXPECT_EQ(norm.running_var().to_vector<double>(), Numbers({0.5 + 1, 0.5 + 100}));
  EXPECT_EQ(norm.num_batches_tracked().item(), 1);
  BatchNorm1d sequences(1, {.epsilon = 0, .affine = false, .track_running_stats = false, .dtype = DType::kF64});
  EXPECT_EQ(sequences(Tensor::from<double>({2, 1, 2}, Numbers{1, 1, 3, 3})).to_vector<double>(),
            Numbers({-1, -1, 1, 1}));
  EXPECT_TRUE(sequences.named_parameters().empty() && sequences.named_buffers().empty());
  norm.eval();  // one value for each channel is enough
  EXPECT_EQ(norm(varied({1, 2})).dims(), Dims({1, 2}));
}

// A decoder of images, and a network of sequences.
class Decoder : public Callable<Decoder> {
 public:
  Decoder() {
    add_module("up", up_);
    add_module("norm", norm_);
    add_module("grouped", grouped_);
    add_module("line", line_);
    add_module("line_norm", line_norm_);
    add_module("line_up", line_up_);
  }
  Tensor forward(const Tensor& x) {
    const Tensor image = grouped_(tanh(norm_(up_(x))));
    const Tensor pooled = adaptive_avg_pool2d(image, {2, 5});
    const Tensor sequence = line_up_(tanh(line_norm_(line_(pooled.reshape({x.dim(0), 6, 10})))));
    return mean(square(image)) + mean(square(sequence - 0.5));
  }
  [[nodiscard]] std::string_view class_name() const override { return "Decoder"; }

 private:
  ConvTranspose2d up_{3, 4, {3}, {.stride = {2}, .padding = {1}, .output_padding = {1, 0}, .dtype = DType::kF64}};
  BatchNorm2d norm_{4, {.dtype = DType::kF64}};
  ConvTranspose2d grouped_{4, 6, {2, 3}, {.dilation = {2, 1}, .groups = 2, .dtype = DType::kF64}};
  Conv1d line_{6, 5, 3, {.stride = 2, .padding = 1, .dtype = DType::kF64}};
  BatchNorm1d line_norm_{5, {.dtype = DType::kF64}};
  ConvTranspose1d line_up_{5, 2, 4, {.stride = 3, .padding = 1, .dtype = DType::kF64}};
};

TEST(Convolutions, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  Decoder net;
  expect_gradients(net, [&] { return net(varied({3, 3, 4, 5})); });
}

TEST(Convolutions, TrainingIsTheSameUnderEverySharding) {
  const auto run = [](const Mesh* mesh, const PartitionSpec& spec) {
    manual_seed(2);
    Decoder net;
    return trained_values(net, [&](int step) {
      const Tensor x = varied({5, 3, 4, 5}, step);
      if (mesh != nullptr) mark_sharding(x, *mesh, spec);
      return net(x);
    });
  };
  Numbers expected;
  {
    const FreshRank rank;
    expected = run(nullptr, {});
  }
  const std::vector<std::pair<const char*, PartitionSpec>> layouts = {{"data=2,rows=3", {"data", {}, "rows", {}}},
                                                                      {"data=2", {"data", {}, {}, {}}},
                                                                      {"data=3", {"data", {}, {}, {}}},
                                                                      {"rows=3", {{}, {}, "rows", {}}},
                                                                      {"data=2,rows=2", {"data", {}, {}, "rows"}}};
  for (const auto& [text, spec] : testing::cases_of(layouts)) {
    const Mesh mesh = Mesh::parse(text);
    on_ranks(static_cast<int>(mesh.device_count()),
             [&, spec = spec, text = text](int) { expect_close(run(&mesh, spec), expected, text); });
  }
}

}  // namespace
}  // namespace tessera::nn
