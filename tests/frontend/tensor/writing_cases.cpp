// SPDX-License-Identifier: Apache-2.0
// Subscripts with tensors, and functional writes.
#include <cmath>

#include "frontend/tensor/function_cases.h"

namespace tessera::testing {
namespace {

using Inputs = const std::vector<Tensor>&;

// Positions in [0, size), in no order and some of them equal.
Tensor ids(const Shape& shape, int size) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>((5 * i + i * i / 3 + 1)) % size;
  return Tensor::from(values, shape);
}

// The same positions, counted from the end.
Tensor ids_from_end(const Shape& shape, int size) { return ids(shape, size) - static_cast<double>(size); }

class Cases {
 public:
  void add(std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f,
           std::function<double(double)> values = {}) {
    cases_.push_back({std::move(name), std::move(inputs), std::move(f), std::move(values)});
  }
  [[nodiscard]] std::vector<FunctionCase> all() && { return std::move(cases_); }

 private:
  std::vector<FunctionCase> cases_;
};

void add_reads(Cases& out) {
  out.add("subscript_ids", {{5, 3}}, [](Inputs x) { return x[0][ids({2, 4}, 5)]; });
  out.add("subscript_ids_from_end", {{5, 7}}, [](Inputs x) { return square(x[0][{All, ids_from_end({4}, 7)}]); });
  out.add("subscript_pairs", {{5, 7, 2}}, [](Inputs x) { return x[0][{ids({2, 1}, 5), ids({3}, 7)}]; });
  out.add("subscript_apart", {{5, 2, 7}}, [](Inputs x) { return x[0][{ids({3}, 5), All, ids_from_end({2, 3}, 7)}]; });
  out.add("subscript_in_range", {{5, 7, 2}}, [](Inputs x) { return x[0][{Range({}, {}, -2), ids({4}, 7), 1}]; });
  out.add("subscript_scalar", {{5, 7}}, [](Inputs x) { return x[0][{Range(1, 4), ids({}, 7)}] * x[0][ids({}, 5)][0]; });
  out.add("subscript_of_each_row", {{5, 7}}, [](Inputs x) {
    return x[0][{arange(5).reshape({5, 1}), ids({5, 3}, 7)}];
  });
  out.add("take", {{5, 7}}, [](Inputs x) { return take(x[0], ids_from_end({2, 9}, 35)); });
  out.add("narrow", {{5, 7}}, [](Inputs x) { return narrow(x[0], 1, ids({}, 4), 3) * narrow(x[0], 1, -3, 3); });
}

void add_subscript_writes(Cases& out) {
  out.add("at_set", {{5, 3}, {7, 3}}, [](Inputs x) { return x[0].at(ids({7}, 5)).set(x[1]); });
  out.add("at_set_pairs", {{5, 7, 2}, {2, 3, 2}}, [](Inputs x) {
    return x[0].at({ids({2, 1}, 5), ids_from_end({3}, 7)}).set(x[1]);
  });
  out.add("at_set_apart", {{5, 2, 7}, {2}}, [](Inputs x) {
    return x[0].at({ids({4}, 5), All, ids({4}, 7)}).set(x[1]);
  });
  out.add("at_set_of_each_row", {{5, 7}, {5, 3}}, [](Inputs x) {
    return x[0].at({arange(5).reshape({5, 1}), ids({5, 3}, 7)}).set(x[1]);
  });
  out.add("at_set_range", {{5, 7}, {3, 2}}, [](Inputs x) { return x[0].at({Range(1, 4), Range(2, 4)}).set(x[1]); });
  out.add("at_set_steps", {{5, 7}, {3, 3}}, [](Inputs x) {
    return x[0].at({Range({}, {}, 2), Range({}, {}, -3)}).set(x[1]);
  });
  out.add("at_set_in_range", {{5, 7, 2}, {3, 4}}, [](Inputs x) {
    return x[0].at({Range({}, {}, -2), ids({4}, 7), 1}).set(x[1]);
  });
  out.add("at_add", {{5, 3}, {7, 1}}, [](Inputs x) { return square(x[0].at(ids_from_end({7}, 5)).add(x[1])); });
  out.add("at_add_range", {{5, 7}, {7}}, [](Inputs x) { return square(x[0].at(Range(1, 4)).add(x[1])); });
  out.add("at_multiply", {{5, 3}, {7, 3}}, [](Inputs x) { return x[0].at(ids({7}, 5)).multiply(x[1]); });
  out.add(
      "at_multiply_zeros", {{5, 3}, {9, 3}}, [](Inputs x) { return x[0].at(ids({9}, 5)).multiply(x[1]); },
      [](double x) { return std::fabs(x) < 0.4 ? 0 : x; });
  out.add("at_max", {{5, 3}, {7, 3}}, [](Inputs x) { return x[0].at(ids({7}, 5)).max(x[1]); });
  out.add("at_min", {{5, 7}, {5, 4}}, [](Inputs x) { return x[0].at({All, ids({4}, 7)}).min(x[1]); });
  out.add("index_put", {{5, 7}, {4}}, [](Inputs x) {
    return square(index_put(x[0], {ids({4}, 5), ids({4}, 7)}, x[1], {.accumulate = true}));
  });
}

void add_writes_along_a_dim(Cases& out) {
  out.add("index_add", {{5, 7}, {5, 4}}, [](Inputs x) { return square(index_add(x[0], 1, ids({4}, 7), x[1])); });
  out.add("index_copy", {{5, 7}, {8, 7}}, [](Inputs x) { return index_copy(x[0], 0, ids({8}, 5), x[1]); });
  out.add("index_fill", {{5, 7}, {}}, [](Inputs x) { return index_fill(x[0], 1, ids_from_end({3}, 7), x[1]); });
  out.add("masked_scatter", {{5, 7}, {5, 8}}, [](Inputs x) { return masked_scatter(x[0], x[0] > 0.1, x[1]); });
  const auto reduced = [&](const std::string& name, ScatterReduction reduction) {
    for (const bool include_self : {true, false})
      out.add("scatter_" + name + (include_self ? "" : "_without_self"), {{5, 7}, {4, 7}}, [=](Inputs x) {
        return scatter_reduce(x[0], 0, ids({4, 6}, 5), x[1], reduction, {.include_self = include_self});
      });
  };
  reduced("sum", ScatterReduction::kSum);
  reduced("prod", ScatterReduction::kProd);
  reduced("mean", ScatterReduction::kMean);
  reduced("amax", ScatterReduction::kAmax);
  reduced("amin", ScatterReduction::kAmin);
}

}  // namespace

std::vector<FunctionCase> writing_cases() {
  Cases out;
  add_reads(out);
  add_subscript_writes(out);
  add_writes_along_a_dim(out);
  return std::move(out).all();
}

}  // namespace tessera::testing
