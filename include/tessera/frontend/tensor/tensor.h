// SPDX-License-Identifier: Apache-2.0
// The lazy tensor: a handle to a value. A value is data (a shard in this rank's memory), traced (an op that has not
// run), or deferred (a variable whose initial value was not needed yet).
//
//   Tensor x = Tensor::from<float>({2, 3}, values);      data
//   Tensor y = softmax(matmul(x, w) * 2.0, -1);          recorded; nothing has run
//   Tensor loss = mean(y);
//   loss.backward();                                     recorded too
//   mark_step();                                         compile or reuse, execute
//   loss.item();
//
// Copies of a Tensor refer to the same variable. Types are global, as if there were one device.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/execution/device.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/frontend/tensor/members.h"
#include "tessera/frontend/tensor/sizes.h"
#include "tessera/frontend/tensor/subscript.h"
#include "tessera/sharding/sharding.h"
#include "tessera/tensor/literal.h"
#include "tessera/tensor/shape.h"

namespace tessera {

class Builder;
class ElementsAt;
struct Value;
namespace detail {
class TensorImpl;
}

/// Emits the complete initial value of a variable into a program when it is first needed. The value is sharded like
/// the variable, so no rank holds more than its shard.
using Initializer = std::function<Value(Builder&, const Type&)>;

/// A handle to a value, which may be null.
class Tensor : public TensorMembers {
 public:
  /// A null tensor.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  /// The handle then refers to another value. Only for named handles: `x[0] = y` and `x.grad() = g` would change
  /// nothing, so they do not compile. Write `x = x.at({0}).set(y)` and `x.set_grad(g)`.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  ~Tensor() = default;

  // ---- construction -------------------------------------------------------------------------------------------------

  /// A host value that is equal on every rank. It is a parameter of the traced program, never a constant.
  static Tensor from_host(Literal value);
  template <class T>
  static Tensor from(Dims dims, const std::vector<T>& values) {
    return from_host(Literal::from<T>(std::move(dims), values));
  }
  /// The same with the element type of `values` (a span, a vector, an array), which are in row-major order. Error
  /// unless there is one value for each element.
  template <std::ranges::contiguous_range Values>
  static Tensor from(const Values& values, const Shape& shape) {
    using T = std::remove_cv_t<std::ranges::range_value_t<Values>>;
    return from_elements(std::as_bytes(std::span<const T>(values)), kDTypeOf<T>, shape);
  }
  static Tensor from(std::initializer_list<std::int32_t> values, const Shape& shape) {
    return from(std::span(values.begin(), values.size()), shape);
  }
  static Tensor from(std::initializer_list<std::int64_t> values, const Shape& shape) {
    return from(std::span(values.begin(), values.size()), shape);
  }
  static Tensor from(std::initializer_list<float> values, const Shape& shape) {
    return from(std::span(values.begin(), values.size()), shape);
  }
  static Tensor from(std::initializer_list<double> values, const Shape& shape) {
    return from(std::span(values.begin(), values.size()), shape);
  }
  static Tensor from(const std::vector<bool>& values, const Shape& shape);
  /// A scalar that may change between steps without a new compilation (learning rate, loss scale).
  /// Error if an integer type cannot represent the number.
  static Tensor scalar(DType dtype, double value, std::source_location where = std::source_location::current());
  /// The same, with the number that `value` returns. Every call of a compiled function calls `value` again.
  static Tensor scalar(DType dtype, const std::function<double()>& value);
  /// Every rank passes its shard under `spec`: a literal of the shard's type, with padding at the end of uneven dims.
  /// Ranks that hold the same elements under `spec` must pass equal shards. The next step that uses the value compares
  /// the shards (TESSERA_CHECK_INPUTS).
  static Tensor from_local_shards(const Type& global, const Mesh& mesh, const PartitionSpec& spec,
                                  const Literal& shard);
  /// A variable whose initial value `initializer` computes at the first use.
  static Tensor deferred(const Type& type, Initializer initializer, std::string name = {});
  /// A variable of zeros with the dims and sharding of `like`.
  static Tensor zeros_like_variable(const Tensor& like, DType dtype, std::string name = {});
  /// An input of this type without a value, for plans only (dry runs). Running a program with it is an error.
  static Tensor abstract(const Type& type, std::string name = {});

  static Tensor zeros(const Type& type, std::source_location where = std::source_location::current());
  static Tensor ones(const Type& type, std::source_location where = std::source_location::current());
  /// A constant with all elements equal to `value`. Error if an integer type cannot represent it.
  static Tensor full(const Type& type, double value, std::source_location where = std::source_location::current());
  /// 0, 1, 2, … along `dim`.
  static Tensor iota(const Type& type, int dim, std::source_location where = std::source_location::current());

  // ---- properties ---------------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_null() const { return impl_ == nullptr; }
  [[nodiscard]] const Type& type() const;
  [[nodiscard]] const Dims& dims() const { return type().dims(); }
  [[nodiscard]] Shape shape(std::source_location where = std::source_location::current()) const;
  /// Negative dims count from the end.
  [[nodiscard]] std::int64_t dim(int i) const;
  [[nodiscard]] std::int64_t size(int i) const { return dim(i); }
  [[nodiscard]] int ndim() const { return type().ndim(); }
  /// The number of dims, as ndim().
  [[nodiscard]] int dim() const { return ndim(); }
  /// The sizes of a tensor with N dims: `const auto [b, t, c] = x.sizes<3>();`. Error if it has another number of dims.
  template <std::size_t N>
  [[nodiscard]] std::array<std::int64_t, N> sizes(std::source_location where = std::source_location::current()) const {
    std::array<std::int64_t, N> out{};
    copy_sizes(out, where);
    return out;
  }
  [[nodiscard]] DType dtype() const { return type().dtype(); }
  [[nodiscard]] std::int64_t element_count() const { return type().element_count(); }
  [[nodiscard]] std::int64_t numel() const { return type().element_count(); }
  [[nodiscard]] const std::string& name() const;
  void set_name(std::string name);
  /// The sharding from mark_sharding or from the last execution; nullopt if there is none.
  [[nodiscard]] std::optional<Sharding> sharding() const;
  /// `xla:0`, as for every tensor.
  [[nodiscard]] Device device() const { return tessera::device(); }
  /// True if the value is in memory, so that reading it runs nothing.
  [[nodiscard]] bool is_materialized() const;

  // ---- reading: forces execution ------------------------------------------------------------------------------------

  /// Returns the complete value. Collective, so every rank must read it, unless the value is in memory and fully
  /// replicated.
  [[nodiscard]] Literal to_host(std::source_location where = std::source_location::current()) const;
  /// Returns the single element as a double. Error unless there is exactly one.
  [[nodiscard]] double item(std::source_location where = std::source_location::current()) const;
  /// The same as a number of type T: `x.item<int>()`. For an integer type, a fraction is rounded towards 0. Error if T
  /// cannot represent the number.
  template <class T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] T item(std::source_location where = std::source_location::current()) const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
      constexpr T kLast = std::numeric_limits<T>::max();
      return static_cast<T>(integer_item(static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                                         std::in_range<std::int64_t>(kLast) ? static_cast<std::int64_t>(kLast) : kMost,
                                         where));
    } else {
      return static_cast<T>(item(where));
    }
  }
  /// Returns the elements in row-major order. T must be the element type.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector(std::source_location where = std::source_location::current()) const {
    const Literal value = to_host(where);
    const auto data = value.data<T>();
    return {data.begin(), data.end()};
  }
  /// Returns this rank's shard of a tensor in memory, without communication.
  [[nodiscard]] Literal local_shard(std::source_location where = std::source_location::current()) const;
  /// Returns `tensor({1,2}, f32[2], device xla:0)`. Of more than 1,000 elements it contains only the first and the last
  /// three in each dim; to_host().str() contains all of them. Forces execution.
  [[nodiscard]] std::string str(std::source_location where = std::source_location::current()) const;

  // ---- gradients ----------------------------------------------------------------------------------------------------

  [[nodiscard]] bool requires_grad() const;
  /// Returns *this. Error if the element type is not a float.
  Tensor& set_requires_grad(bool value = true);
  /// Appends the backward pass of this scalar to the trace. It adds to grad() of every variable with requires_grad on
  /// which the scalar depends.
  void backward(std::source_location where = std::source_location::current()) const;
  /// The gradient accumulated so far; null before backward() and after zero_grad().
  [[nodiscard]] Tensor grad() const;
  void set_grad(Tensor grad);
  void zero_grad() { set_grad({}); }
  /// The stored value, without gradient and without FSDP's gathering. Optimizers use it.
  [[nodiscard]] Tensor detach(std::source_location where = std::source_location::current()) const;

  // ---- variables ----------------------------------------------------------------------------------------------------

  /// Gives this variable and its copies a new value of the same type. The sharding of its storage does not change.
  void assign(const Tensor& value, std::source_location where = std::source_location::current());

  // ---- shapes -------------------------------------------------------------------------------------------------------

  /// One size may be -1; it is then computed from the others. Sizes may be written with and without braces:
  /// x.reshape({2, -1}) and x.reshape(2, -1).
  [[nodiscard]] Tensor reshape(Dims dims, std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] Tensor reshape(T size, std::source_location where = std::source_location::current()) const {
    return reshape_to(sizes_of(size), where);
  }
  template <DimNumber... More>
    requires(sizeof...(More) > 0)
  [[nodiscard]] Tensor reshape(FirstSize first, More... more) const {
    return reshape_to(sizes_of(first, more...), first.where);
  }
  /// Dim i of the result is dim permutation[i].
  [[nodiscard]] Tensor transpose(Dims permutation, std::source_location where = std::source_location::current()) const;
  /// The same elements with other sizes, as reshape().
  [[nodiscard]] Tensor view(Dims dims, std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] Tensor view(T size, std::source_location where = std::source_location::current()) const {
    return reshape_to(sizes_of(size), where);
  }
  template <DimNumber... More>
    requires(sizeof...(More) > 0)
  [[nodiscard]] Tensor view(FirstSize first, More... more) const {
    return reshape_to(sizes_of(first, more...), first.where);
  }
  /// Dim i of the result is dim order[i]; negative dims count from the end.
  [[nodiscard]] Tensor permute(Dims order, std::source_location where = std::source_location::current()) const;
  template <DimNumber... More>
    requires(sizeof...(More) > 0)
  [[nodiscard]] Tensor permute(FirstSize first, More... more) const {
    return permute_to(sizes_of(first, more...), first.where);
  }
  /// Exchanges two dims.
  [[nodiscard]] Tensor transpose(int first, int second,
                                 std::source_location where = std::source_location::current()) const;
  /// Merges the dims start..end into one.
  [[nodiscard]] Tensor flatten(int start = 0, int end = -1,
                               std::source_location where = std::source_location::current()) const;
  /// Repeats dims of size 1 to these sizes. -1 keeps a size. `sizes` may begin with additional dims.
  [[nodiscard]] Tensor expand(Dims sizes, std::source_location where = std::source_location::current()) const;
  template <DimNumber... More>
    requires(sizeof...(More) > 0)
  [[nodiscard]] Tensor expand(FirstSize first, More... more) const {
    return expand_to(sizes_of(first, more...), first.where);
  }
  /// A part of the tensor, or its elements at positions, as in PyTorch (subscript.h). Errors: a number out of range,
  /// too many entries, a mask.
  [[nodiscard]] Tensor operator[](const Index& index) const { return (*this)[{index}]; }
  [[nodiscard]] Tensor operator[](std::initializer_list<Index> indices) const;
  /// The elements of `x[...]`, for a new tensor with other values there, as JAX's `x.at[...]`.
  [[nodiscard]] ElementsAt at(const Index& index) const;
  [[nodiscard]] ElementsAt at(std::initializer_list<Index> indices) const;
  /// The tensor with its last two dims exchanged.
  [[nodiscard]] Tensor t(std::source_location where = std::source_location::current()) const;
  /// Elements [start, limit) of a dim; negative numbers count from the end.
  [[nodiscard]] Tensor slice(int dim, std::int64_t start, std::int64_t limit,
                             std::source_location where = std::source_location::current()) const;
  /// Selects element `index` of a dim and removes the dim.
  [[nodiscard]] Tensor select(int dim, std::int64_t index,
                              std::source_location where = std::source_location::current()) const;
  /// Inserts a dim of size 1 at this position (unsqueeze), or removes the dim, which must have size 1 (squeeze).
  [[nodiscard]] Tensor unsqueeze(int dim, std::source_location where = std::source_location::current()) const;
  /// Removes dims whose size is 1. Other dims stay, as in PyTorch.
  [[nodiscard]] Tensor squeeze(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor squeeze(const std::vector<int>& named,
                               std::source_location where = std::source_location::current()) const;
  /// Removes all dims of size 1.
  [[nodiscard]] Tensor squeeze(std::source_location where = std::source_location::current()) const;
  /// NumPy broadcasting to `dims`.
  [[nodiscard]] Tensor broadcast_to(Dims dims, std::source_location where = std::source_location::current()) const;
  /// The tensor with its elements converted to this type.
  [[nodiscard]] Tensor to(DType dtype, std::source_location where = std::source_location::current()) const;
  /// Returns *this, because every tensor is on the device. to_host() copies a value to the host.
  [[nodiscard]] Tensor to(const Device& device) const;

  [[nodiscard]] detail::TensorImpl& impl() const;
  [[nodiscard]] const std::shared_ptr<detail::TensorImpl>& impl_pointer() const { return impl_; }
  explicit Tensor(std::shared_ptr<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  /// True if both refer to the same variable.
  friend bool same_variable(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

 private:
  [[nodiscard]] Tensor reshape_to(std::span<const std::int64_t> sizes, const std::source_location& where) const;
  [[nodiscard]] Tensor permute_to(std::span<const std::int64_t> order, const std::source_location& where) const;
  [[nodiscard]] Tensor expand_to(std::span<const std::int64_t> sizes, const std::source_location& where) const;
  void copy_sizes(std::span<std::int64_t> to, const std::source_location& where) const;
  [[nodiscard]] std::int64_t integer_item(std::int64_t low, std::int64_t high, const std::source_location& where) const;
  static Tensor from_elements(std::span<const std::byte> elements, DType dtype, const Shape& shape);
  std::shared_ptr<detail::TensorImpl> impl_;
};

/// A tensor that is printed, with the source location of the `<<`.
struct PrintedTensor {
  const Tensor& tensor;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): an argument only
  std::source_location where;
  PrintedTensor(const Tensor& printed, std::source_location here = std::source_location::current())  // NOLINT
      : tensor(printed), where(here) {}
};
/// Prints str(): forces execution.
std::ostream& operator<<(std::ostream& out, const PrintedTensor& printed);

/// An argument of an op: a tensor, or a number (which takes the element type of the other operand), with the source
/// location of the call.
class Operand {
 public:
  // NOLINTBEGIN(google-explicit-constructor): arguments of ops convert implicitly
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

/// The elements of x that a subscript selects. Each function returns a tensor that has other values there, and that
/// equals x elsewhere; x does not change. The values broadcast to the shape of `x[...]` and have the element type of x.
///
///   x = x.at({Range(1, 3), All, -1}).set(0);
///   counts = counts.at(ids).add(1);                 an id that occurs twice adds 2
class ElementsAt {
 public:
  ElementsAt(Tensor x, std::vector<Index> indices) : x_(std::move(x)), indices_(std::move(indices)) {}

  /// Replaces the elements. If positions are equal, the last value is written, on every mesh, and only it has a
  /// gradient.
  [[nodiscard]] Tensor set(const Operand& values) const;
  /// Adds, multiplies, or takes the minimum or the maximum of the elements and all values at the same positions. Equal
  /// extremal values share the gradient equally.
  [[nodiscard]] Tensor add(const Operand& values) const;
  [[nodiscard]] Tensor multiply(const Operand& values) const;
  [[nodiscard]] Tensor min(const Operand& values) const;
  [[nodiscard]] Tensor max(const Operand& values) const;

 private:
  Tensor x_;
  std::vector<Index> indices_;
};

/// Returns the complete values of several tensors. Runs one program, whereas to_host() would run one for each tensor.
/// Collective.
std::vector<Literal> read_all(const std::vector<Tensor>& tensors,
                              std::source_location where = std::source_location::current());

}  // namespace tessera
