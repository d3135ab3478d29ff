// SPDX-License-Identifier: Apache-2.0
#include "tessera/tensor/type.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

enum class TypeKind : std::uint8_t { kArray, kTuple, kToken };

struct Type::Node {
  TypeKind kind = TypeKind::kTuple;
  DType dtype = DType::kPred;
  Dims dims;
  Dims layout;
  std::vector<Type> elements;
  std::vector<int> first_leaves{0};  // the first leaf of each element, then the number of leaves
  std::int64_t element_count = 0;
  std::int64_t byte_size = 0;
  std::size_t hash = 0;
};

Type::Type() {
  static const auto kEmpty = std::make_shared<const Node>();
  node_ = kEmpty;
}

Type Type::array(DType dtype, Dims dims, Dims layout) {
  auto node = std::make_shared<Node>();
  node->kind = TypeKind::kArray;
  node->dtype = dtype;
  node->element_count = 1;
  node->hash = hash_mix(1, static_cast<std::size_t>(dtype));
  Checked extent = dtype_size(dtype);  // bounds the strides: a size of 0 counts as 1
  for (const auto size : dims) {
    // Types are created often, so the texts are formatted only on errors.
    if (size < 0) fail("{}[{}]: a dim may not be negative", dtype_name(dtype), fmt::join(dims, ","));
    extent *= std::max<std::int64_t>(size, 1);
    if (extent.value_or_most() > kMostBytes)
      fail("{}[{}]: more than 2^60 bytes, the most that an array may have (a size of 0 is taken as 1)",
           dtype_name(dtype), fmt::join(dims, ","));
    node->element_count *= size;
    node->hash = hash_mix(node->hash, static_cast<std::size_t>(size));
  }
  node->byte_size = node->element_count * dtype_size(dtype);
  bool row_major = true;
  for (int i = 0; i < isize(layout); ++i) row_major = row_major && at(layout, i) == isize(layout) - 1 - i;
  if (!layout.empty() && layout.size() != dims.size())
    fail("layout {{{}}} does not have one entry per dim of {}[{}]", fmt::join(layout, ","), dtype_name(dtype),
         fmt::join(dims, ","));
  if (!row_major) node->layout = std::move(layout);
  node->dims = std::move(dims);
  return Type(std::move(node));
}

Type Type::tuple(std::vector<Type> elements) {
  auto node = std::make_shared<Node>();
  node->hash = 2;
  for (const auto& element : elements) {
    node->hash = hash_mix(node->hash, element.hash());
    node->byte_size += element.byte_size();  // at most 4 * kMostBytes each: a quarter of the range of 64 bits
    require(node->byte_size <= 4 * kMostBytes,
            "a tuple of {} elements has more than 2^62 bytes, the most that one may have", elements.size());
    node->first_leaves.push_back(node->first_leaves.back() + element.leaf_count());
  }
  node->elements = std::move(elements);
  return Type(std::move(node));
}

Type Type::token() {
  static const auto kToken = [] {
    auto node = std::make_shared<Node>();
    node->kind = TypeKind::kToken;
    node->hash = 3;
    return node;
  }();
  return Type(kToken);
}

bool Type::is_array() const { return node_->kind == TypeKind::kArray; }
bool Type::is_tuple() const { return node_->kind == TypeKind::kTuple; }
bool Type::is_token() const { return node_->kind == TypeKind::kToken; }

DType Type::dtype() const {
  ensure(is_array(), "the element type of {} was requested, which is no array", *this);
  return node_->dtype;
}
const Dims& Type::dims() const {
  ensure(is_array(), "the dims of {} were requested, which is no array", *this);
  return node_->dims;
}
std::int64_t Type::dim(int i) const {
  ensure(i >= 0 && i < ndim(), "dim {} was requested, which {} does not have", i, *this);
  return at(node_->dims, i);
}
int Type::ndim() const { return isize(dims()); }
const Dims& Type::layout() const { return node_->layout; }
std::int64_t Type::element_count() const { return node_->element_count; }
const std::vector<Type>& Type::elements() const {
  ensure(is_tuple(), "the elements of {} were requested, which is no tuple", *this);
  return node_->elements;
}
std::int64_t Type::byte_size() const { return node_->byte_size; }

std::vector<Type> Type::leaves() const {
  if (!is_tuple()) return {*this};
  std::vector<Type> out;
  for (const auto& element : elements()) {
    auto inner = element.leaves();
    out.insert(out.end(), inner.begin(), inner.end());
  }
  return out;
}

int Type::leaf_count() const { return is_tuple() ? node_->first_leaves.back() : 1; }

int Type::leaf_offset(std::int64_t element) const {
  ensure(is_tuple(), "the place of a leaf of {} was requested, which is no tuple", *this);
  return at(node_->first_leaves, element);
}

namespace {
[[noreturn]] void fail_on_path(const Type& type, const Dims& path) {
  fail("there is no array at {{{}}} of {}", fmt::join(path, ","), type);
}
}  // namespace

int Type::leaf_index(const Dims& path) const {
  int leaf = 0;
  const Type* here = this;
  for (const auto index : path) {
    if (!here->is_tuple() || index < 0 || index >= isize(here->elements())) fail_on_path(*this, path);
    leaf += here->leaf_offset(index);
    here = &at(here->elements(), index);
  }
  if (here->is_tuple()) fail_on_path(*this, path);
  return leaf;
}

Type Type::with_dims(Dims dims) const {
  const bool same_ndim = dims.size() == this->dims().size();
  return array(dtype(), std::move(dims), same_ndim ? layout() : Dims{});
}
Type Type::with_dtype(DType dtype) const { return array(dtype, dims(), layout()); }

std::string Type::str(bool with_layout) const {
  if (is_token()) return "token[]";
  if (is_array()) {
    std::string out = fmt::format("{}[{}]", dtype_name(node_->dtype), fmt::join(node_->dims, ","));
    if (!with_layout || node_->dims.empty()) return out;
    Dims layout = node_->layout;
    for (int i = isize(node_->dims); layout.size() < node_->dims.size();) layout.push_back(--i);
    return out + fmt::format("{{{}}}", fmt::join(layout, ","));
  }
  std::vector<std::string> parts;
  for (const auto& element : node_->elements) parts.push_back(element.str(with_layout));
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::size_t Type::hash() const { return node_->hash; }

bool operator==(const Type& a, const Type& b) {
  if (a.node_ == b.node_) return true;
  if (a.node_->hash != b.node_->hash || a.node_->kind != b.node_->kind) return false;
  return a.node_->dtype == b.node_->dtype && a.node_->dims == b.node_->dims && a.node_->elements == b.node_->elements;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (int i = isize(dims) - 2; i >= 0; --i) at(strides, i) = at(strides, i + 1) * at(dims, i + 1);
  return strides;
}

}  // namespace tessera
