// SPDX-License-Identifier: Apache-2.0
// Operators and functions on lazy tensors. Operands broadcast as in NumPy. A number takes the element type of the
// tensor. Tensors of different element types are an error; convert with .to().
#pragma once

#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

Tensor operator+(Operand lhs, Operand rhs);
Tensor operator-(Operand lhs, Operand rhs);
Tensor operator*(Operand lhs, Operand rhs);
Tensor operator/(Operand lhs, Operand rhs);
Tensor operator-(Operand x);
Tensor operator<(Operand lhs, Operand rhs);
Tensor operator<=(Operand lhs, Operand rhs);
Tensor operator>(Operand lhs, Operand rhs);
Tensor operator>=(Operand lhs, Operand rhs);
/// Elementwise, as all operators here.
Tensor operator==(Operand lhs, Operand rhs);
Tensor operator!=(Operand lhs, Operand rhs);
Tensor operator&&(Operand lhs, Operand rhs);
Tensor operator||(Operand lhs, Operand rhs);
Tensor operator!(Operand x);

Tensor maximum(Operand lhs, Operand rhs);
Tensor minimum(Operand lhs, Operand rhs);
Tensor pow(Operand lhs, Operand rhs);
Tensor remainder(Operand lhs, Operand rhs);
Tensor exp(Operand x);
Tensor log(Operand x);
Tensor sqrt(Operand x);
Tensor rsqrt(Operand x);
Tensor tanh(Operand x);
Tensor sin(Operand x);
Tensor cos(Operand x);
Tensor erf(Operand x);
Tensor abs(Operand x);
Tensor sign(Operand x);
Tensor square(Operand x);
Tensor sigmoid(Operand x);
Tensor relu(Operand x);
/// x * Phi(x), by erf.
Tensor gelu(Operand x);
/// GPT-2's tanh form.
Tensor gelu_new(Operand x);
/// Elements of `on_true` where `predicate` holds.
Tensor where(Operand predicate, Operand on_true, Operand on_false);
/// Selects one of two computed values by a scalar predicate. Differentiable.
Tensor cond(Operand predicate, Operand on_true, Operand on_false);

/// The dims to reduce; negative dims count from the end. Empty: all dims.
struct ReduceOptions {
  std::vector<int> dims{};
  bool keep_dims = false;
};
Tensor sum(Operand x, ReduceOptions options = {});
Tensor mean(Operand x, ReduceOptions options = {});
Tensor max(Operand x, ReduceOptions options = {});
Tensor min(Operand x, ReduceOptions options = {});
/// The index of the first largest element along `dim`, as s32.
Tensor argmax(Operand x, int dim);

/// [.., m, k] x [k, n] -> [.., m, n]; or [.., m, k] x [.., k, n] -> [.., m, n] with equal leading batch dims.
Tensor matmul(Operand lhs, Operand rhs);
/// General product. Contracts dims of lhs with dims of rhs. The result has the batch dims, then the free dims of lhs,
/// then those of rhs.
struct DotDims {
  Dims lhs_contracting{};
  Dims rhs_contracting{};
  Dims lhs_batch{};
  Dims rhs_batch{};
};
Tensor dot(Operand lhs, Operand rhs, const DotDims& dims);

Tensor concat(const std::vector<Tensor>& parts, int dim, std::source_location where = std::source_location::current());
/// Pads a dim with `low` elements of `value` before and `high` after it. Negative numbers remove elements.
Tensor pad(Operand x, int dim, std::int64_t low, std::int64_t high, double value = 0);
Tensor softmax(Operand x, int dim);
Tensor log_softmax(Operand x, int dim);
Tensor logsumexp(Operand x, int dim);
/// Mean 0, variance 1 over the last dim, then weight and bias. Computed in f32 at least.
Tensor layer_norm(Operand x, Operand weight, Operand bias, double epsilon);

// ---- images: [n, c, h, w], arguments as in PyTorch; one number applies to both dims ---------------------------------

struct Conv2dOptions {
  Dims stride{1};
  Dims padding{0};
  Dims dilation{1};
  std::int64_t groups = 1;
};
/// weight [out, in / groups, kh, kw] -> [n, out, h', w'].
Tensor conv2d(Operand x, Operand weight, const Conv2dOptions& options = {});
struct Pool2dOptions {
  Dims kernel_size{};
  Dims stride{};  // empty: kernel_size
  Dims padding{0};
  Dims dilation{1};               // max_pool2d only; no gradient if dilated
  bool ceil_mode = false;         // a last window may extend past the edge
  bool count_include_pad = true;  // of avg_pool2d
};
/// Padding is never the maximum. The gradient goes to the first of equal elements.
Tensor max_pool2d(Operand x, const Pool2dOptions& options);
Tensor avg_pool2d(Operand x, const Pool2dOptions& options);
/// The mean over h and w: [n, c, 1, 1].
Tensor adaptive_avg_pool2d(Operand x);
/// Mean and biased variance of each channel of [n, c, ...] over the complete batch, whatever its sharding. Computed in f32
/// at least.
struct ChannelStatistics {
  Tensor mean;
  Tensor variance;
};
ChannelStatistics channel_statistics(Operand x);
/// (x - mean) / sqrt(variance + epsilon), channel by channel.
Tensor normalize_channels(Operand x, Operand mean, Operand variance, double epsilon);
/// Broadcasts a vector with one number for each channel along dim 1 of x.
Tensor per_channel(Operand vector, const Tensor& x);

/// Rows of a table: table[v, d], ids[...] -> [..., d].
Tensor embedding(Operand table, Operand ids);
/// The mean of -log softmax(logits)[label] over labels other than ignore_index: logits [..., classes], integer labels
/// [...]. A sharded class dim stays sharded. 0 if all labels are ignored.
Tensor cross_entropy(Operand logits, Operand labels, std::int64_t ignore_index = -100);
/// The sum of the losses and the number of labels that are not ignored. For means over several batches.
struct CrossEntropyParts {
  Tensor sum;
  Tensor count;
};
CrossEntropyParts cross_entropy_parts(Operand logits, Operand labels, std::int64_t ignore_index = -100);
/// Sets elements to zero with probability p and divides the others by 1 - p. The mask depends only on the seed, the
/// step, the op and the global element index, so it is the same for every mesh.
Tensor dropout(Operand x, double p);
/// Uniform in [0, 1), with the same dependence.
Tensor random_uniform(const Type& type, std::source_location where = std::source_location::current());

}  // namespace tessera
