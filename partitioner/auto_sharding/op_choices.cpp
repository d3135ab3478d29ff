// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/op_choices.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "strategy/strategy.h"
#include "tessera/base/text.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

std::vector<int> real_axes(const Mesh& mesh) {
  std::vector<int> out;
  for (int a = 0; a < isize(mesh.axes()); ++a)
    if (at(mesh.axes(), a).size > 1) out.push_back(a);
  return out;
}

// Calls use(targets) for each assignment of the axes to one of `sizes` or to none (-1). The parts of a size have at least
// one element, and are equal unless the axis divides none of the sizes.
void for_each_assignment(const Mesh& mesh, const std::vector<std::int64_t>& sizes,
                         const std::function<void(const std::vector<int>&)>& use) {
  const std::vector<int> axes = real_axes(mesh);
  std::vector<int> targets(axes.size(), -1);
  std::vector<std::int64_t> tiles(sizes.size(), 1);
  const std::function<void(std::size_t)> assign = [&](std::size_t next) {
    if (next == axes.size()) return use(targets);
    const std::int64_t size = at(mesh.axes(), axes[next]).size;
    targets[next] = -1;
    assign(next + 1);
    const auto is_even = [&](std::size_t t) { return sizes[t] > 0 && sizes[t] % (tiles[t] * size) == 0; };
    bool some_even = false;
    for (std::size_t t = 0; t < sizes.size(); ++t) some_even = some_even || is_even(t);
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      if (some_even ? !is_even(t) : sizes[t] < tiles[t] * size) continue;
      tiles[t] *= size;
      targets[next] = static_cast<int>(t);
      assign(next + 1);
      tiles[t] /= size;
    }
    targets[next] = -1;
  };
  assign(0);
}

AxisRef axis_ref(const Mesh& mesh, std::size_t number) { return mesh.full_axis(real_axes(mesh)[number]); }

// The shardings of a partial result after its reduction: replicated over the partial axes, or one dim gets them.
std::vector<Sharding> reduced(const Type& type, const Sharding& made) {
  std::vector<Sharding> out = {made.without_partial()};
  if (!made.is_partial()) return out;
  for (int d = 0; d < type.ndim(); ++d) {
    Sharding one = made.without_partial();
    auto& axes = at(one.dims, d).axes;
    axes.insert(axes.end(), made.partial.begin(), made.partial.end());
    if (type.dim(d) % axes_size(axes) == 0) out.push_back(std::move(one));
  }
  return out;
}

class ChoiceMaker {
 public:
  ChoiceMaker(const Mesh& mesh, const OpSignature& signature, const ProgramEstimator& estimator, ReshardCosts& reshards)
      : mesh_(mesh),
        signature_(signature),
        map_(*signature.map),
        estimator_(estimator),
        reshards_(reshards),
        result_types_(signature.view.result.leaves()) {}

  std::vector<OpChoice> made() && {
    std::vector<std::int64_t> sizes;
    for (const Factor& factor : map_.factors) sizes.push_back(factor.size);
    for_each_assignment(mesh_, sizes, [&](const std::vector<int>& targets) {
      Strategy strategy(map_.factors.size());
      for (std::size_t a = 0; a < targets.size(); ++a)
        if (targets[a] >= 0) at(strategy, targets[a]).push_back(axis_ref(mesh_, a));
      if (legal(map_, strategy) == strategy) add(strategy);
    });
    return std::move(out_);
  }

 private:
  void add(const Strategy& strategy) {
    OpChoice choice;
    for (int i = 0; i < isize(map_.operands); ++i)
      choice.needed.push_back(unproject(mesh_, map_, at(map_.operands, i), strategy));
    Shardings made;
    for (int i = 0; i < isize(map_.results); ++i) made.push_back(computed_sharding(mesh_, map_, i, strategy));
    choice.seconds = estimator_.of_op(mesh_, signature_, choice.needed, made).seconds;
    if (made.size() != 1 || !result_types_.front().is_array()) {
      for (std::size_t i = 0; i < made.size(); ++i) reduce(i, made[i], made[i].without_partial(), choice);
      out_.push_back(std::move(choice));
      return;
    }
    for (Sharding& to : reduced(result_types_.front(), made.front())) {
      OpChoice one = choice;
      reduce(0, made.front(), std::move(to), one);
      out_.push_back(std::move(one));
    }
  }

  void reduce(std::size_t leaf, const Sharding& made, Sharding to, OpChoice& choice) const {
    if (result_types_[leaf].is_array() && made.is_partial())
      choice.seconds += reshards_.seconds(result_types_[leaf], reshards_.id_of(made), reshards_.id_of(to));
    choice.results.push_back(std::move(to));
  }

  const Mesh& mesh_;
  const OpSignature& signature_;
  const FactorMap& map_;
  const ProgramEstimator& estimator_;
  ReshardCosts& reshards_;
  std::vector<Type> result_types_;
  std::vector<OpChoice> out_;
};

}  // namespace

std::vector<OpChoice> op_choices(const Mesh& mesh, const OpSignature& signature, const ProgramEstimator& estimator,
                                 ReshardCosts& reshards) {
  return ChoiceMaker(mesh, signature, estimator, reshards).made();
}

std::vector<Sharding> storage_choices(const Mesh& mesh, const Type& type) {
  const int ndim = type.is_array() ? type.ndim() : 0;
  std::vector<std::int64_t> sizes;
  for (int d = 0; d < ndim; ++d) sizes.push_back(type.dim(d));
  std::vector<Sharding> out;
  for_each_assignment(mesh, sizes, [&](const std::vector<int>& targets) {
    Sharding one = Sharding::replicated(mesh, ndim);
    for (std::size_t a = 0; a < targets.size(); ++a)
      if (targets[a] >= 0) at(one.dims, targets[a]).axes.push_back(axis_ref(mesh, a));
    out.push_back(std::move(one));
  });
  return out;
}

}  // namespace tessera
