// SPDX-License-Identifier: Apache-2.0
// The lazy tensor: a handle on a value that is data (a shard in this rank's memory), recorded (an op of the rank's trace that has
// not run), or deferred (a variable whose initial value nobody needed yet).
//
//   Tensor x = Tensor::from<float>({2, 3}, values);      data
//   Tensor y = softmax(matmul(x, w) * 2.0, -1);          recorded; nothing has run
//   Tensor loss = mean(y);
//   loss.backward();                                     recorded too
//   mark_step();                                         compile or reuse, execute
//   loss.item();
//
// Copies of a Tensor are the same variable. Types are global: a Tensor is written as if for one device.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"

namespace tessera {

class Builder;
class TensorImpl;
struct Value;

/// The whole initial value of a variable, emitted into a program when it is first needed; sharded like the variable, so that no
/// rank ever holds more than its part.
using Initializer = std::function<Value(Builder&, const Type&)>;

class Tensor {
 public:
  /// No tensor; is_null().
  Tensor() = default;

  // ---- making ---------------------------------------------------------------------------------------------------------

  /// A host value, the same on every rank; a parameter of the graph, never a constant.
  static Tensor from_host(Literal value);
  template <class T>
  static Tensor from(Dims dims, const std::vector<T>& values) {
    return from_host(Literal::from<T>(std::move(dims), values));
  }
  /// A scalar that may change from step to step without recompilation (learning rate, loss scale).
  static Tensor scalar(DType dtype, double value) { return from_host(scalar_of(dtype, value)); }
  /// The same of what `value` gives: now, and at every call of the compiled function that makes it.
  static Tensor scalar(DType dtype, const std::function<double()>& value);
  /// Every rank gives the part it holds under `spec`: a literal of the shard's type (padding at the end where the sizes do not divide).
  static Tensor from_local_shards(const Type& global, const Mesh& mesh, const PartitionSpec& spec,
                                  const Literal& shard);
  /// A variable whose value `initializer` gives when it is first used.
  static Tensor deferred(const Type& type, Initializer initializer, std::string name = {});
  /// A variable of zeros that takes dims and sharding of `like`.
  static Tensor zeros_like_variable(const Tensor& like, DType dtype, std::string name = {});
  /// A graph input of this type without a value: for plans only (dry runs); executing it is an error.
  static Tensor abstract(const Type& type, std::string name = {});

  static Tensor zeros(const Type& type, std::source_location where = std::source_location::current());
  static Tensor ones(const Type& type, std::source_location where = std::source_location::current());
  /// A graph constant: all elements `value`.
  static Tensor full(const Type& type, double value, std::source_location where = std::source_location::current());
  /// 0, 1, 2, … along `dim`.
  static Tensor iota(const Type& type, int dim, std::source_location where = std::source_location::current());

  // ---- asking ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_null() const { return impl_ == nullptr; }
  [[nodiscard]] const Type& type() const;
  [[nodiscard]] const Dims& dims() const { return type().dims(); }
  /// Negative dims count from the end.
  [[nodiscard]] std::int64_t dim(int i) const;
  [[nodiscard]] int ndim() const { return type().ndim(); }
  [[nodiscard]] DType dtype() const { return type().dtype(); }
  [[nodiscard]] std::int64_t element_count() const { return type().element_count(); }
  [[nodiscard]] const std::string& name() const;
  void set_name(std::string name);
  /// The sharding it was marked with, or that the last execution gave it; nullopt when neither.
  [[nodiscard]] std::optional<Sharding> sharding() const;
  /// True when the value lies in memory (nothing would run to read it).
  [[nodiscard]] bool is_materialized() const;

  // ---- reading: forces execution --------------------------------------------------------------------------------------

  /// The whole value. Local when it is materialised and replicated, otherwise collective: every rank must read it too.
  [[nodiscard]] Literal to_host(std::source_location where = std::source_location::current()) const;
  /// The single element as a double; Error unless there is exactly one.
  [[nodiscard]] double item(std::source_location where = std::source_location::current()) const;
  /// Row-major elements; T is the element type.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector(std::source_location where = std::source_location::current()) const {
    const Literal value = to_host(where);
    const auto data = value.data<T>();
    return {data.begin(), data.end()};
  }
  /// This rank's part of a materialised tensor, without communication.
  [[nodiscard]] Literal local_shard() const;
  /// `tensor([1, 2], f32[2], device xla:0)`; forces execution.
  [[nodiscard]] std::string str(std::source_location where = std::source_location::current()) const;

  // ---- gradients ------------------------------------------------------------------------------------------------------

  [[nodiscard]] bool requires_grad() const;
  /// Returns *this. Error on element types that are not floats.
  Tensor& set_requires_grad(bool value = true);
  /// Appends the backward pass of this scalar to the trace: adds to grad() of every variable with requires_grad it was
  /// computed from.
  void backward(std::source_location where = std::source_location::current()) const;
  /// The gradient gathered so far; null before backward() and after zero_grad().
  [[nodiscard]] Tensor grad() const;
  void set_grad(Tensor grad);
  void zero_grad() { set_grad({}); }
  /// The value as stored, without gradient and without the gathering of an FSDP unit: what optimizers work on.
  [[nodiscard]] Tensor detach(std::source_location where = std::source_location::current()) const;

  // ---- variables ------------------------------------------------------------------------------------------------------

  /// Gives this variable (and its copies) a new value of the same type; its storage sharding stays.
  void assign(const Tensor& value, std::source_location where = std::source_location::current());

  // ---- shapes ---------------------------------------------------------------------------------------------------------

  /// One size may be -1: what is left.
  [[nodiscard]] Tensor reshape(Dims dims, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor transpose(Dims permutation, std::source_location where = std::source_location::current()) const;
  /// The last two dims swapped.
  [[nodiscard]] Tensor t(std::source_location where = std::source_location::current()) const;
  /// Elements [start, limit) of a dim; negative numbers count from the end.
  [[nodiscard]] Tensor slice(int dim, std::int64_t start, std::int64_t limit,
                             std::source_location where = std::source_location::current()) const;
  /// Element `index` of a dim, which goes away.
  [[nodiscard]] Tensor select(int dim, std::int64_t index,
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor unsqueeze(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor squeeze(int dim, std::source_location where = std::source_location::current()) const;
  /// NumPy broadcasting to `dims`.
  [[nodiscard]] Tensor broadcast_to(Dims dims, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor to(DType dtype, std::source_location where = std::source_location::current()) const;

  [[nodiscard]] TensorImpl& impl() const;
  [[nodiscard]] const std::shared_ptr<TensorImpl>& impl_pointer() const { return impl_; }
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  /// The same variable?
  friend bool same_variable(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

 private:
  std::shared_ptr<TensorImpl> impl_;
};

/// Prints str(): forces execution.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

/// An argument of an op: a tensor or a number (which takes the other operand's element type), and where the call stands.
class Operand {
 public:
  // NOLINTBEGIN(google-explicit-constructor): an argument of an op is written as it is
  Operand(const Tensor& tensor, std::source_location where = std::source_location::current())
      : tensor_(tensor), where_(where) {}
  Operand(double number, std::source_location where = std::source_location::current())
      : number_(number), is_number_(true), where_(where) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool is_number() const { return is_number_; }
  [[nodiscard]] double number() const { return number_; }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  [[nodiscard]] const std::source_location& where() const { return where_; }

 private:
  Tensor tensor_;
  double number_ = 0;
  bool is_number_ = false;
  std::source_location where_;
};

/// The whole values of several tensors, by one program where to_host() would need one for each; collective.
std::vector<Literal> read_all(const std::vector<Tensor>& tensors,
                              std::source_location where = std::source_location::current());

/// Ends the step: one program computes the new values of all variables and live tensors; they become data. Where a core is free for it
/// (TESSERA_ASYNC) the program runs while the next step is traced: who reads a value of it waits, and what goes wrong in it is thrown
/// by the next mark_step() or reading.
void mark_step(std::source_location where = std::source_location::current());

struct StepOptions {
  bool wait = false;  // return when the step has ended
};
void mark_step(StepOptions options, std::source_location where = std::source_location::current());

/// Returns when every step that mark_step() began has ended; throws what went wrong.
void wait_device_ops();

/// The random seed of this rank's trace (the same on every rank) for dropout and initial values. Default 42.
void manual_seed(std::uint64_t seed);

/// Random ops recorded within draw what they would for these rows of the whole batch, and a mark_step() within does not move on to the
/// next step's random numbers: dropout masks do not depend on how a batch is cut into micro-batches. Dim 0 must be the rows.
class MicroBatch {
 public:
  explicit MicroBatch(std::int64_t first_row);
  ~MicroBatch();
  MicroBatch(const MicroBatch&) = delete;
  MicroBatch& operator=(const MicroBatch&) = delete;
};

}  // namespace tessera
