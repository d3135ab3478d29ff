// SPDX-License-Identifier: Apache-2.0
// The subscripts of `x[...]` and `x.at(...)`: numbers, ranges, tensors of positions, All, NewAxis and Ellipsis, as in
// PyTorch.
//
//   x[2]                        element 2 of dim 0; the dim is removed
//   x[{Range(1, 3), All, -1}]   rows 1 and 2, all of dim 1, the last element of dim 2
//   x[{Ellipsis, NewAxis}]      a new last dim of size 1
//   x[{Range({}, {}, -1)}]      the rows in reverse order
//   x[ids]                      the rows at the positions `ids`, integers: [ids.., columns..]
//   x[{rows, columns}]          the elements at pairs of positions; the two tensors broadcast
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>

namespace tessera {

class Tensor;

/// Elements start, start + step, … before `stop`. A bound without a value is the end of the dim. As in NumPy, negative
/// bounds count from the end, and bounds beyond the ends are clamped to them. A negative step goes backwards.
struct Range {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;
  explicit Range(std::optional<std::int64_t> first, std::optional<std::int64_t> limit, std::int64_t by = 1)
      : start(first), stop(limit), step(by) {}
};

struct AllElements {};
struct NewDim {};
struct OtherDims {};
/// All elements of a dim.
inline constexpr AllElements All;
/// A new dim of size 1.
inline constexpr NewDim NewAxis;
/// Selects all elements of each dim for which the subscript has no other entry.
inline constexpr OtherDims Ellipsis;

/// One entry of a subscript. Of several tensors, all broadcast against each other. Their dims replace the dims along
/// which they select if these are adjacent; otherwise they become the first dims of the result. A tensor without dims
/// counts as a number. Negative positions count from the end. A read at a position that is still out of range reads the
/// nearest element; a write there has no effect.
class Index {
 public:
  enum class Kind : std::uint8_t { kNumber, kRange, kIds, kNewDim, kOtherDims };
  // NOLINTBEGIN(google-explicit-constructor): entries of a subscript convert implicitly
  template <std::integral T>
  Index(T number, std::source_location where = std::source_location::current())
      : kind_(Kind::kNumber), number_(static_cast<std::int64_t>(number)), where_(where) {}
  Index(Range range, std::source_location where = std::source_location::current())
      : kind_(Kind::kRange), range_(range), where_(where) {}
  /// Error, when it is used, unless the element type is an integer.
  Index(const Tensor& ids, std::source_location where = std::source_location::current());
  Index(AllElements, std::source_location where = std::source_location::current())
      : kind_(Kind::kRange), where_(where) {}
  Index(NewDim, std::source_location where = std::source_location::current()) : kind_(Kind::kNewDim), where_(where) {}
  Index(OtherDims, std::source_location where = std::source_location::current())
      : kind_(Kind::kOtherDims), where_(where) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::int64_t number() const { return number_; }
  [[nodiscard]] const Range& range() const { return range_; }
  [[nodiscard]] const Tensor& ids() const { return *ids_; }
  [[nodiscard]] const std::source_location& where() const { return where_; }

 private:
  Kind kind_;
  std::int64_t number_ = 0;
  Range range_{std::nullopt, std::nullopt};
  std::shared_ptr<const Tensor> ids_;
  std::source_location where_;
};

}  // namespace tessera
