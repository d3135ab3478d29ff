// SPDX-License-Identifier: Apache-2.0
// All functions of tensors. docs/reference/tensor.md lists them with their names in PyTorch and JAX.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/bounded.h"
#include "tessera/frontend/tensor/creation.h"
#include "tessera/frontend/tensor/indexing.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tensor/products.h"
#include "tessera/frontend/tensor/random.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/frontend/tensor/shaping.h"
#include "tessera/frontend/tensor/sorting.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/frontend/tensor/update_slice.h"
#include "tessera/frontend/tensor/writes.h"

namespace tessera {

/// Normalizes the last dim to mean 0 and variance 1, multiplies by `weight` and adds `bias`. Computed in f32 at least.
Tensor layer_norm(Operand x, Operand weight, Operand bias, double epsilon);

// ---- images: [n, c, h, w], arguments as in PyTorch; one number applies to both dims ---------------------------------

/// A size of a window, stride or padding: one number for both dims of an image, or {h, w}.
class Size2d {
 public:
  // NOLINTBEGIN(google-explicit-constructor): arguments such as `3` and `{3, 5}`
  Size2d(std::int64_t of_both) : sizes_{of_both} {}
  Size2d(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  Size2d(Dims sizes) : sizes_(std::move(sizes)) {}
  operator const Dims&() const { return sizes_; }
  // NOLINTEND(google-explicit-constructor)

 private:
  Dims sizes_;
};

struct Conv2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
};
/// x [n, in, h, w], weight [out, in / groups, kh, kw] -> [n, out, h', w'].
Tensor conv2d(Operand x, Operand weight, const Conv2dOptions& options = {});
struct Pool2dOptions {
  Size2d kernel_size = {};
  Size2d stride = {};  // {}: kernel_size
  Size2d padding = 0;
  Size2d dilation = 1;            // max_pool2d only
  bool ceil_mode = false;         // a last window may extend past the edge
  bool count_include_pad = true;  // of avg_pool2d
};
/// The maximum of each window. Padding is never the maximum. The gradient goes to the first of equal elements.
Tensor max_pool2d(Operand x, const Pool2dOptions& options);
/// The mean of each window. Padding counts as zeros with count_include_pad, and otherwise does not count. Error with a
/// dilation.
Tensor avg_pool2d(Operand x, const Pool2dOptions& options);
/// The mean over h and w: [n, c, 1, 1].
Tensor adaptive_avg_pool2d(Operand x);
/// Mean and biased variance of each channel of [n, c, ...] over the complete batch, for every sharding. Computed in f32
/// at least.
struct ChannelStatistics {
  Tensor mean;
  Tensor variance;
};
/// Computes the mean and the variance of each channel.
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
/// The sum of the losses and the number of labels that are not ignored, from which means over several batches can be
/// computed. With label smoothing e in [0, 1], a loss is 1 - e times the loss of the label plus e times the mean of the
/// losses of all classes.
struct CrossEntropyParts {
  Tensor sum;
  Tensor count;
};
/// Computes the sum and the count of cross_entropy().
CrossEntropyParts cross_entropy_parts(Operand logits, Operand labels, std::int64_t ignore_index = -100,
                                      double label_smoothing = 0);
/// Sets elements to zero with probability p and divides the others by 1 - p. The mask depends only on the seed, the
/// step, the op and the global element index, so it is the same for every mesh.
Tensor dropout(Operand x, double p);
struct DropoutOptions {
  bool training = true;
};
/// The same in training; otherwise x: `dropout(x, 0.1, {.training = is_training()})`.
inline Tensor dropout(Operand x, double p, DropoutOptions options) { return dropout(x, options.training ? p : 0); }
/// Random numbers, uniform in [0, 1). They depend on the same quantities as the mask of dropout().
Tensor random_uniform(const Type& type, std::source_location where = std::source_location::current());

}  // namespace tessera
