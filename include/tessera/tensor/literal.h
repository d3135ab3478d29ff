// SPDX-License-Identifier: Apache-2.0
// A host value of any Type: an array in row-major order, or a tuple of values. Copies share the buffer until one of
// them is written.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/tensor/type.h"

namespace tessera {

/// A value on the host.
class Literal {
 public:
  /// The empty tuple.
  Literal() = default;
  /// Zeros (in every leaf of a tuple).
  explicit Literal(Type type);
  static Literal tuple(std::vector<Literal> elements);
  /// A value whose elements the HLO text omits (`{...}`), so that only its type is known. `origin` names the constant.
  /// Two such values are equal only if they are copies of the same constant. The leaves of a tuple get the origins
  /// `origin:0`, `origin:1`, ... An array without elements is not elided. Reading elements is an Error that names the
  /// origin.
  static Literal elided(const Type& type, const std::string& origin);
  /// Returns the same value with other origins, one for each leaf. Ignores the origins of leaves that are not elided.
  [[nodiscard]] Literal with_origins(const std::vector<std::string>& by_leaf) const;
  template <class T>
  static Literal scalar(T value) {
    return from<T>({}, {value});
  }
  /// Error unless values.size() is the product of dims.
  template <class T>
  static Literal from(Dims dims, const std::vector<T>& values) {
    Literal out(Type::array(kDTypeOf<T>, std::move(dims)));
    auto data = out.mutable_data<T>();
    out.check_size(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) data[i] = values[i];
    return out;
  }

  [[nodiscard]] const Type& type() const { return type_; }
  [[nodiscard]] const std::vector<Literal>& elements() const { return elements_; }

  /// True if the elements of the array, or of a leaf of the tuple, are elided.
  [[nodiscard]] bool is_elided() const;
  /// One origin for each leaf; "" for a leaf that is not elided.
  [[nodiscard]] std::vector<std::string> origins() const;

  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] std::span<std::byte> mutable_bytes();

  /// The elements in row-major order. Error unless T is the element type.
  template <class T>
  [[nodiscard]] std::span<const T> data() const {
    check_dtype(kDTypeOf<T>);
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<std::size_t>(type_.element_count())};
  }
  template <class T>
  [[nodiscard]] std::span<T> mutable_data() {
    check_dtype(kDTypeOf<T>);
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<std::size_t>(type_.element_count())};
  }

  /// Returns the same elements, in row-major order, with other dims. Their product must be the same.
  [[nodiscard]] Literal reshaped(Dims dims) const;
  /// Returns a complex array as an array of its parts, with one more minor dim of size 2. Other arrays do not change.
  [[nodiscard]] Literal as_reals() const;
  /// The leaves of a tuple in pre-order; an array is its own leaf.
  [[nodiscard]] std::vector<Literal> leaves() const;
  /// Bitwise equality of type and content (NaN equals itself); for elided content, equality of type and origin.
  friend bool operator==(const Literal& a, const Literal& b);
  [[nodiscard]] std::size_t hash() const;
  /// HLO's literal text, without the type: `{{1, 2}, {3, 4}}`, `nan`, `true`, `{...}`.
  [[nodiscard]] std::string str() const;
  /// The same, but of an array with more than 1,000 elements only the first and the last three in each dim, as in
  /// `{0,0,0,...,0,0,0}`.
  [[nodiscard]] std::string summary() const;

 private:
  void check_dtype(DType dtype) const;
  void check_size(std::size_t count) const;
  void check_known() const;
  Type type_;
  std::shared_ptr<std::vector<std::byte>> buffer_;
  std::vector<Literal> elements_;
  std::string origin_;  // not empty: an array whose elements are elided
};

/// Copies the box of `sizes` elements at `from_start` of one array to `to_start` of another with the same element type.
void copy_part(const Literal& from, const Dims& from_start, Literal& to, const Dims& to_start, const Dims& sizes);

/// Returns element i (row-major) of an array as the widest type of its class. pred counts as unsigned.
double element_as_double(const Literal& array, std::int64_t i);
std::int64_t element_as_int(const Literal& array, std::int64_t i);
/// The same for an index: a number larger than every index becomes the largest s64, whereas element_as_int() wraps
/// around.
std::int64_t element_as_index(const Literal& array, std::int64_t i);
/// A scalar of any element type with this value (integers truncate, pred is value != 0).
Literal scalar_of(DType dtype, double value);

}  // namespace tessera
