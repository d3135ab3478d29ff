// SPDX-License-Identifier: Apache-2.0
// Positions, choices and capacities are elementwise ops, sums and products, so that every dim of tokens can be sharded.
#include "tessera/nn/moe.h"

#include <algorithm>
#include <cmath>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/activation.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

Tensor router_float(const Tensor& x) {
  return x.dtype() == DType::kBF16 || x.dtype() == DType::kF16 ? x.to(DType::kF32) : x;
}

const SparseMoe::Options& checked_moe(const SparseMoe::Options& options) {
  require(options.experts >= 1 && options.top_k >= 1 && options.top_k <= options.experts,
          "SparseMoe: top_k must be from 1 to {} experts, got {}", options.experts, options.top_k);
  require(options.capacity_factor >= 0, "SparseMoe: capacity_factor must not be negative, got {}; 0 drops no token",
          options.capacity_factor);
  require(options.jitter >= 0 && options.jitter < 1, "SparseMoe: jitter must be in [0, 1), got {}", options.jitter);
  const auto& known = activation_names();
  require(std::find(known.begin(), known.end(), options.activation) != known.end(),
          "SparseMoe: unknown activation \"{}\"", options.activation);
  return options;
}

// Constrains the experts, dim `dim` of x, and its gradient. The sharding of the other dims does not change.
Tensor with_experts(const Tensor& x, int dim, const std::optional<ActivationSharding>& split, bool sharded) {
  if (!split) return x;
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(x.ndim()), PartitionSpec::Entry(kUnconstrained));
  entries[static_cast<std::size_t>(dim)] = sharded ? PartitionSpec::Entry(split->axis) : PartitionSpec::Entry();
  return mark_sharding_with_gradients(x, split->mesh, PartitionSpec(std::move(entries)));
}

}  // namespace

TopKRouter::TopKRouter(std::int64_t width, std::int64_t experts, const Options& options) : options_(options) {
  require(options.top_k >= 1 && options.top_k <= experts, "TopKRouter: top_k must be from 1 to {} experts, got {}",
          experts, options.top_k);
  weight_ =
      add_parameter("weight", Type::array(options.dtype, {experts, width}), normal(0, options.standard_deviation));
}

Routing TopKRouter::forward(const Tensor& x) {
  Routing out;
  out.logits = dot(at_call(x), weight_, {.lhs_contracting = {x.ndim() - 1}, .rhs_contracting = {1}});
  out.probabilities = softmax(router_float(out.logits), -1);
  const int last = out.probabilities.ndim() - 1;
  const Tensor index = Tensor::iota(out.probabilities.type().with_dtype(DType::kS32), last);
  Tensor rest = out.probabilities.detach();
  Tensor total;
  for (std::int64_t k = 0; k < options_.top_k; ++k) {
    const Tensor is_chosen = index == argmax(rest, last).unsqueeze(-1);
    out.choices.push_back(is_chosen.to(rest.dtype()));
    out.weights.push_back(sum(where(is_chosen, out.probabilities, 0.0), {.dims = {-1}, .keep_dims = true}));
    total = total.is_null() ? out.weights.back() : total + out.weights.back();
    rest = where(is_chosen, -1.0, rest);
  }
  if (options_.normalize)
    for (Tensor& weight : out.weights) weight = weight / total;
  return out;
}

SparseMoe::Experts::Experts(SparseMoe& owner, std::int64_t width, std::int64_t inner) {
  const Options& options = owner.options_;
  const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return add_parameter(name, Type::array(options.dtype, {options.experts, rows, columns}),
                         normal(0, options.standard_deviation));
  };
  owner.w1_ = weight("*.w1.weight", inner, width);
  owner.w2_ = weight("*.w2.weight", width, inner);
  owner.w3_ = weight("*.w3.weight", inner, width);
}

SparseMoe::SparseMoe(std::int64_t width, std::int64_t inner, const Options& options)
    : options_(checked_moe(options)),
      gate_(width, options.experts,
            {.top_k = options.top_k,
             .normalize = options.normalize,
             .standard_deviation = options.standard_deviation,
             .dtype = options.dtype}),
      experts_(*this, width, inner) {
  register_module("gate", gate_);
  register_module("experts", experts_);
}

std::int64_t SparseMoe::capacity(std::int64_t time) const {
  const double tokens = options_.capacity_factor * static_cast<double>(options_.top_k * time);
  const auto most = static_cast<std::int64_t>(std::ceil(tokens / static_cast<double>(options_.experts)));
  return std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(time, 1));
}

SparseMoe::Output SparseMoe::forward(const Tensor& x) {
  require(x.ndim() == 3 && x.dim(2) == w1_.dim(2), "SparseMoe needs x [batch, time, {}], got {}", w1_.dim(2), x.type());
  Tensor tokens = x;
  if (is_training() && options_.jitter > 0) {
    const Tensor uniform = random_uniform(x.type().with_dtype(DType::kF32)).to(x.dtype());
    tokens = x * (uniform * (2 * options_.jitter) + (1 - options_.jitter));
  }
  tokens = gathered(tokens, inner_split_);
  Output out;
  out.routing = gate_(tokens);
  out.output = options_.capacity_factor > 0 ? with_capacity(tokens, out.routing) : dropless(tokens, out.routing);
  out.output = over_dim(out.output, 1, inner_split_);
  return out;
}

Tensor SparseMoe::dropless(const Tensor& x, const Routing& routing) const {
  Tensor weights;  // [b, t, e]
  for (std::size_t k = 0; k < routing.choices.size(); ++k) {
    const Tensor own = routing.choices[k] * routing.weights[k];
    weights = weights.is_null() ? own : weights + own;
  }
  const DotDims columns{.lhs_contracting = {2}, .rhs_contracting = {2}};
  const Tensor gate = with_experts(dot(x, w1_, columns), 2, split_, true);  // [b, t, e, f]
  const Tensor up = with_experts(dot(x, w3_, columns), 2, split_, true);
  const Tensor hidden = activation(gate, options_.activation) * up * weights.to(x.dtype()).unsqueeze(-1);
  return dot(hidden, w2_, {.lhs_contracting = {2, 3}, .rhs_contracting = {0, 2}});
}

namespace {

struct Dispatch {
  Tensor to_experts;  // [b, t, e, c]: 1 where the token takes this place of the expert
  Tensor combine;     // [b, t, e, c]: its weight
};

// Numbers the tokens of each expert: first choices first, in the order of time. Places at or above `capacity` drop out.
Dispatch dispatch_of(const Routing& routing, std::int64_t capacity) {
  const Type type = routing.choices.front().type();  // [b, t, e]
  const std::int64_t time = type.dim(1);
  const Type square = Type::array(DType::kS32, {time, time});
  const Tensor earlier = (Tensor::iota(square, 0) > Tensor::iota(square, 1)).to(type.dtype());
  const Type places_type = Type::array(type.dtype(), {type.dim(0), time, type.dim(2), capacity});
  const Tensor place = Tensor::iota(places_type, 3);
  Dispatch out;
  Tensor taken;  // [b, 1, e]: by the choices before
  for (std::size_t k = 0; k < routing.choices.size(); ++k) {
    const Tensor& choice = routing.choices[k];
    // [t, s] x [b, s, e] -> [t, b, e]
    const Tensor before = dot(earlier, choice, {.lhs_contracting = {1}, .rhs_contracting = {1}}).transpose({1, 0, 2});
    const Tensor own = taken.is_null() ? before : before + taken;
    const Tensor is_here = (own.unsqueeze(-1) == place).to(type.dtype()) * choice.unsqueeze(-1);
    const Tensor weighted = is_here * routing.weights[k].unsqueeze(-1);
    out.to_experts = k == 0 ? is_here : out.to_experts + is_here;
    out.combine = k == 0 ? weighted : out.combine + weighted;
    const Tensor count = sum(choice, {.dims = {1}, .keep_dims = true});
    taken = taken.is_null() ? count : taken + count;
  }
  return out;
}

}  // namespace

Tensor SparseMoe::with_capacity(const Tensor& x, const Routing& routing) const {
  const Dispatch places = dispatch_of(routing, capacity(x.dim(1)));
  // Each device first orders its own rows by expert. Then the experts take the place of the rows: an all-to-all.
  const Tensor own_rows = dot(places.to_experts.to(x.dtype()), x,
                              {.lhs_contracting = {1}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}});
  const Tensor by_expert = with_experts(with_experts(own_rows, 1, split_, false), 1, split_, true);  // [b, e, c, d]
  const DotDims columns{.lhs_contracting = {3}, .rhs_contracting = {2}, .lhs_batch = {1}, .rhs_batch = {0}};
  const Tensor hidden = activation(dot(by_expert, w1_, columns), options_.activation) * dot(by_expert, w3_, columns);
  // [e, b, c, d]
  const Tensor results =
      dot(hidden, w2_, {.lhs_contracting = {3}, .rhs_contracting = {2}, .lhs_batch = {0}, .rhs_batch = {0}});
  const Tensor back = with_experts(with_experts(results, 0, split_, true), 0, split_, false);
  return dot(places.combine.to(x.dtype()), back,
             {.lhs_contracting = {2, 3}, .rhs_contracting = {0, 2}, .lhs_batch = {0}, .rhs_batch = {1}});
}

namespace {

// Marks the weights of both kinds of sharding: dim 0 over the axis of experts, the inner dim over the other.
void mark_weights(SparseMoe& moe) {
  using Entry = PartitionSpec::Entry;
  const auto axis_of = [](const std::optional<ActivationSharding>& split) {
    return split ? Entry(split->axis) : Entry();
  };
  const Entry experts = axis_of(moe.experts_sharding());
  const Entry inner = axis_of(moe.activations_sharding());
  const Mesh& mesh = moe.experts_sharding() ? moe.experts_sharding()->mesh : moe.activations_sharding()->mesh;
  for (const Tensor& weight : {moe.w1(), moe.w2(), moe.w3()}) {
    if (weight.sharding()) clear_sharding(weight);
    const bool is_down = same_variable(weight, moe.w2());
    mark_sharding(weight, mesh, PartitionSpec({experts, is_down ? Entry() : inner, is_down ? inner : Entry()}));
  }
}

}  // namespace

void shard_experts(SparseMoe& moe, const Mesh& mesh, const std::string& axis) {
  moe.shard_experts({mesh, axis});
  mark_weights(moe);
}

void shard_tensor_parallel(SparseMoe& moe, const ActivationSharding& split) {
  moe.shard_activations(split);
  mark_weights(moe);
}

Tensor load_balancing_loss(const std::vector<Routing>& layers, const Tensor& mask) {
  require(!layers.empty(), "load_balancing_loss needs the routing of at least one layer");
  const DType dtype = layers.front().probabilities.dtype();
  const Tensor counts = mask.is_null() ? Tensor() : (mask != 0.0).to(dtype).unsqueeze(-1);  // [b, t, 1]
  // The sum over all tokens: [e].
  const auto total = [&](const Tensor& x) { return sum(counts.is_null() ? x : x * counts, {.dims = {0, 1}}); };
  Tensor probabilities;
  std::vector<Tensor> choices(layers.front().choices.size());
  const auto add = [](Tensor& to, const Tensor& x) { to = to.is_null() ? x : to + x; };
  for (const Routing& layer : layers) {
    add(probabilities, total(layer.probabilities));
    for (std::size_t k = 0; k < choices.size(); ++k) add(choices[k], total(layer.choices[k]));
  }
  Tensor chosen;
  for (const Tensor& choice : choices) add(chosen, choice);
  const Type& type = layers.front().probabilities.type();
  const auto scale = static_cast<double>(type.dim(2));
  const auto layer_count = static_cast<double>(layers.size());
  if (counts.is_null()) {
    const double tokens = static_cast<double>(type.dim(0) * type.dim(1)) * layer_count;
    return sum(chosen * probabilities) * (scale / (tokens * tokens));
  }
  const Tensor tokens = sum(counts) * layer_count;
  return sum(chosen * probabilities) * scale / (tokens * tokens);
}

Tensor router_z_loss(const std::vector<Routing>& layers) {
  require(!layers.empty(), "router_z_loss needs the routing of at least one layer");
  Tensor total;
  for (const Routing& layer : layers) {
    const Tensor own = mean(square(logsumexp(router_float(layer.logits), -1)));
    total = total.is_null() ? own : total + own;
  }
  return total / static_cast<double>(layers.size());
}

}  // namespace tessera::nn
