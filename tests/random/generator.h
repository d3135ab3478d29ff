// SPDX-License-Identifier: Apache-2.0
// The generator of random_program: it draws operands from a pool of values and adds the results of ops to the pool.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conformance/op_samples.h"
#include "random/random_program.h"

#include "tessera/ir/builder.h"
#include "tessera/ops/collectives.h"

namespace tessera::testing {

/// `exact`: the value has the same bits for every partitioning and on every engine, because nothing was rounded. Ops
/// with discontinuities take only exact values.
struct Entry {
  Value value;
  bool exact = true;
};

/// The values that can be drawn in the current computation or manual region.
struct Scope {
  Builder* builder = nullptr;
  std::vector<Entry> values;
  std::vector<AxisRef> manual;  // axes of the region
  bool is_entry = false;        // parameters may be added
};

/// Returns true for ops of per-device code: collectives, and ops that depend on the device.
bool is_regional(const OpDef& op);

class Generator {
 public:
  Generator(std::uint64_t seed, const Feature& feature, int steps);
  Program make();

 private:
  // ---- generator.cpp
  Value parameter(const Type& type);
  void step();
  void feature();
  Value root();
  void put(Value value);
  /// Adds the leaves of a value of any type to the pool.
  void put_leaves(Value value);
  bool is_exact(Value value);
  /// Returns true if floats are rounded, so that another order of sums or another implementation changes the result.
  [[nodiscard]] bool rounds(const Computation& computation, const Instruction& instruction) const;
  /// Annotates the value with a sharding for each leaf. Returns false if the type has no sharding of `kind`. Null means
  /// any kind.
  bool annotate(Value value, std::optional<ShardingKind> kind = std::nullopt);
  bool annotate_group(Value value, ShardingKind kind);
  [[nodiscard]] bool is_manual() const { return !scope_->manual.empty(); }
  Builder& builder() { return *scope_->builder; }

  // ---- generator_samples.cpp: any op
  /// Emits an instruction of the op from one of its samples, or with a special function if no sample fits. Returns its
  /// id.
  Id sampled(std::string_view op);
  Id sampled(const conformance::Sample& sample);
  Value value_of(const conformance::SampleOperand& operand);
  Value array_of(const Type& type);
  Value resized(Value x, const Dims& dims);
  Value any_sample();
  Value done(Value started);
  Value within(Value x, double low, double high);

  // ---- generator_control.cpp: computations, regions
  Value loop(Value x);
  Value called(Value x);
  Value branches(Value x);
  /// Returns a computation with parameters of these types and a result of type `result`.
  ComputationId body(const std::string& name, const std::vector<Entry>& parameters, const Type& result);
  ComputationId loop_body(const Type& state);
  /// Returns a value of this type, computed from the values of the scope.
  Value finished(const Type& result);
  void region(const std::vector<AxisRef>& axes, bool featured);
  Value enter_region(Value x, const std::vector<AxisRef>& axes);
  Value leave_region(Value local, const std::vector<AxisRef>& axes);
  void annotate_manual(Value value);
  Id called_parameter();
  void mark_collectives(Id first);
  /// Emits an instruction of the featured op inside the region and adds its result to the pool.
  void feature_inside();
  Value any_collective(Value x);
  Value coordinate();
  Value collective(Value x, std::string_view op);
  Value ragged_all_to_all(Value x, CollectiveAttributes attributes);
  Value in_two_halves(Value x, std::string_view op);
  Value permuted(Value x);
  std::vector<std::vector<std::int64_t>> groups();

  // ---- generator_ops.cpp: ops that chain well
  std::optional<Entry> any_entry();
  /// Returns a value of this type, or an iota if there is none.
  Value any_value(DType dtype);
  /// Returns a value with these dims, or a broadcast if there is none.
  Value with_dims(const Dims& dims, DType dtype);
  Value number(DType dtype, double value);
  Dims dims();
  Value chained(Value x);
  Value float_op(Value x);
  Value binary(Value x);
  Value unary(Value x);
  Value broadcast(Value x);
  Value reshape(Value x);
  Value transpose(Value x);
  Value slice(Value x);
  Value pad(Value x);
  Value concat(Value x);
  Value roll(Value x);
  Value convolution(Value x);
  Value reduce_window(Value x);
  Value select_and_scatter(Value x);
  Value reverse(Value x);
  Value reduce(Value x);
  Value dot(Value x);
  Value indices(const Dims& dims, std::int64_t range);
  Value rows(Value x);
  Value scatter(Value x);
  Value drawn_index();
  std::vector<Value> starts(Value x);
  Value dynamic_slice(Value x);
  Value update(Value x);
  Value sort(Value x);
  Value choose(Value x);
  Value ramp(Value x);
  Value mark(Value x);
  Value softmax(Value x);
  Value bits(Value x);

  Dice dice_;
  Feature feature_;
  int steps_ = 0;
  RandomShardings shardings_;
  ProgramBuilder program_;
  Builder main_;
  Scope* scope_ = nullptr;
  Scope entry_;
  int parameters_ = 0;
  int depth_ = 0;
  std::map<const Builder*, std::map<Id, bool>> exact_;
  std::int64_t next_channel_ = 1;
  int next_group_ = 1;
  std::vector<Value> featured_;  // arrays that the featured instruction returns, used in the result
};

}  // namespace tessera::testing
