// SPDX-License-Identifier: Apache-2.0
#include "tessera/tensor/literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/memory.h"
#include "tessera/base/text.h"

namespace tessera {

namespace {

std::shared_ptr<std::vector<std::byte>> zeros(const Type& type) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 30;  // smaller arrays need no question about the machine
  const std::int64_t bytes = type.byte_size();
  try {
    if (bytes > kLarge && bytes > machine_memory()) throw std::bad_alloc();
    return std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  } catch (const std::exception&) {  // bad_alloc, or length_error
    fail_to_allocate(bytes, fmt::format("the host array {}", type.str()));
  }
}

}  // namespace

Literal::Literal(Type type) : type_(std::move(type)) {
  if (type_.is_array()) buffer_ = zeros(type_);
  if (!type_.is_tuple()) return;
  for (const auto& element : type_.elements()) elements_.emplace_back(element);
}

Literal Literal::tuple(std::vector<Literal> elements) {
  std::vector<Type> types;
  for (const auto& element : elements) types.push_back(element.type());
  Literal out;
  out.type_ = Type::tuple(std::move(types));
  out.elements_ = std::move(elements);
  return out;
}

Literal Literal::elided(const Type& type, const std::string& origin) {
  ensure(!origin.empty(), "an elided {} without an origin", type);
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (const auto& element : type.elements()) elements.push_back(elided(element, origin));
    const Literal out = tuple(std::move(elements));
    std::vector<std::string> by_leaf;
    for (int leaf = 0; leaf < type.leaf_count(); ++leaf) by_leaf.push_back(fmt::format("{}:{}", origin, leaf));
    return out.with_origins(by_leaf);
  }
  if (!type.is_array() || type.element_count() == 0) return Literal(type);
  Literal out;
  out.type_ = type;
  out.origin_ = origin;
  return out;
}

Literal Literal::with_origins(const std::vector<std::string>& by_leaf) const {
  Literal out = *this;
  std::size_t leaf = 0;
  const auto set = [&](const auto& self, Literal& value) -> void {
    for (Literal& element : value.elements_) self(self, element);
    if (value.type_.is_tuple()) return;
    const std::string& origin = at(by_leaf, leaf++);
    if (!value.origin_.empty()) value.origin_ = origin;
  };
  set(set, out);
  return out;
}

std::vector<std::string> Literal::origins() const {
  std::vector<std::string> out;
  for (const Literal& leaf : leaves()) out.push_back(leaf.origin_);
  return out;
}

bool Literal::is_elided() const {
  return !origin_.empty() ||
         std::any_of(elements_.begin(), elements_.end(), [](const Literal& element) { return element.is_elided(); });
}

void Literal::check_known() const {
  require(origin_.empty(), "the elements of constant {} {} are not known: its text elides them, {{...}}", origin_,
          type_);
}

std::span<const std::byte> Literal::bytes() const {
  if (!buffer_) check_known();
  if (!buffer_) return {};
  return {buffer_->data(), buffer_->size()};
}

std::span<std::byte> Literal::mutable_bytes() {
  if (!buffer_) check_known();
  if (!buffer_) return {};
  if (buffer_.use_count() > 1) buffer_ = std::make_shared<std::vector<std::byte>>(*buffer_);
  return {buffer_->data(), buffer_->size()};
}

Literal Literal::reshaped(Dims dims) const {
  Literal out = *this;
  out.type_ = Type::array(type_.dtype(), std::move(dims));
  ensure(out.type_.element_count() == type_.element_count(), "cannot view {} as {}", type_, out.type_);
  return out;
}

Literal Literal::as_reals() const {
  if (!type_.is_array() || !is_complex(type_.dtype())) return *this;
  Literal out = *this;
  Dims dims = type_.dims();
  dims.push_back(2);
  out.type_ = Type::array(real_dtype(type_.dtype()), std::move(dims));
  return out;
}

std::vector<Literal> Literal::leaves() const {
  if (!type_.is_tuple()) return {*this};
  std::vector<Literal> out;
  for (const auto& element : elements_) {
    auto inner = element.leaves();
    out.insert(out.end(), inner.begin(), inner.end());
  }
  return out;
}

bool operator==(const Literal& a, const Literal& b) {
  if (!(a.type_ == b.type_) || a.elements_ != b.elements_ || a.origin_ != b.origin_) return false;
  if (!a.origin_.empty()) return true;
  const auto x = a.bytes();
  const auto y = b.bytes();
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
}

std::size_t Literal::hash() const {
  if (!origin_.empty()) return hash_mix(type_.hash(), hash_text(origin_));
  std::size_t seed = hash_mix(type_.hash(), hash_bytes(bytes().data(), bytes().size()));
  for (const auto& element : elements_) seed = hash_mix(seed, element.hash());
  return seed;
}

void Literal::check_dtype(DType dtype) const {
  require(type_.is_array() && type_.dtype() == dtype, "the elements of {} cannot be read as {}", type_,
          dtype_name(dtype));
}

void Literal::check_size(std::size_t count) const {
  require(static_cast<std::int64_t>(count) == type_.element_count(), "{} values given for {}, which has {}", count,
          type_, type_.element_count());
}

namespace {

struct PartCopy {
  const Dims& sizes;
  Dims from_steps, to_steps;  // bytes between neighbors in each dim
  std::size_t last;           // from this dim on, the box is contiguous in both arrays
  std::size_t run;            // bytes of each contiguous part

  // `from` and `to` point to the elements of the outer indices.
  void copy(std::size_t dim, const std::byte* from, std::byte* to) const {
    if (dim == last) {
      std::memcpy(to, from, run);
      return;
    }
    for (std::int64_t i = 0; i < sizes[dim]; ++i) copy(dim + 1, from + i * from_steps[dim], to + i * to_steps[dim]);
  }
};

}  // namespace

void copy_part(const Literal& from, const Dims& from_start, Literal& to, const Dims& to_start, const Dims& sizes) {
  const std::byte* source = from.bytes().data();
  std::byte* target = to.mutable_bytes().data();
  if (product(sizes) == 0) return;
  std::size_t last = sizes.size();
  std::int64_t run = dtype_size(to.type().dtype());
  const auto steps = [width = run](const Type& type) {
    Dims out = row_major_strides(type.dims());
    for (auto& step : out) step *= width;
    return out;
  };
  const auto is_full_dim = [&](std::size_t dim) {
    return sizes[dim] == from.type().dims()[dim] && sizes[dim] == to.type().dims()[dim];
  };
  while (last > 0 && (last == sizes.size() || is_full_dim(last))) run *= sizes[--last];
  const PartCopy part{sizes, steps(from.type()), steps(to.type()), last, static_cast<std::size_t>(run)};
  const auto offset = [](const Dims& start, const Dims& step) {
    return std::inner_product(start.begin(), start.end(), step.begin(), std::int64_t{0});
  };
  part.copy(0, source + offset(from_start, part.from_steps), target + offset(to_start, part.to_steps));
}

double element_as_double(const Literal& array, std::int64_t i) {
  if (is_narrow(array.type().dtype()))
    return narrow_value(array.type().dtype(), static_cast<std::uint8_t>(at(array.bytes(), i)));
  return visit_dtype(array.type().dtype(), [&]<class T>() { return static_cast<double>(at(array.data<T>(), i)); });
}

std::int64_t element_as_int(const Literal& array, std::int64_t i) {
  if (is_narrow(array.type().dtype())) return static_cast<std::int64_t>(element_as_double(array, i));
  return visit_dtype(array.type().dtype(), [&]<class T>() {
    if constexpr (is_float(kDTypeOf<T>))
      return static_cast<std::int64_t>(static_cast<double>(at(array.data<T>(), i)));
    else
      return static_cast<std::int64_t>(at(array.data<T>(), i));
  });
}

std::int64_t element_as_index(const Literal& array, std::int64_t i) {
  if (array.type().dtype() != DType::kU64) return element_as_int(array, i);
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(at(array.data<std::uint64_t>(), i), kLargest));
}

Literal scalar_of(DType dtype, double value) {
  if (is_narrow(dtype)) {
    Literal out(Type::scalar(dtype));
    out.mutable_bytes()[0] = static_cast<std::byte>(narrow_bits(dtype, value));
    return out;
  }
  return visit_any_dtype(dtype, [&]<class T>() {
    if constexpr (kDTypeOf<T> == DType::kPred)
      return Literal::scalar<bool>(value != 0);
    else if constexpr (is_complex(kDTypeOf<T>))
      return Literal::scalar<T>(T(static_cast<typename T::value_type>(value)));
    else
      return Literal::scalar<T>(static_cast<T>(value));
  });
}

namespace {

// Returns `nan`, with its payload unless it is the quiet NaN: `-nan(0x1)`.
template <class T>
std::string nan_text(T value) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  constexpr int kMantissa = kDTypeOf<T> == DType::kF16    ? 10
                            : kDTypeOf<T> == DType::kBF16 ? 7
                            : sizeof(T) == 4              ? 23
                                                          : 52;
  const auto bits = static_cast<std::uint64_t>(std::bit_cast<Bits>(value));
  const std::uint64_t payload = bits & ((std::uint64_t{1} << kMantissa) - 1);
  const bool negative = (bits >> (sizeof(T) * 8 - 1)) != 0;
  if (payload == std::uint64_t{1} << (kMantissa - 1)) return negative ? "-nan" : "nan";
  return fmt::format("{}nan(0x{:x})", negative ? "-" : "", payload);
}

// Returns the shortest decimal text that reads back as the same bits of T.
template <class T>
std::string element_text(T value) {
  if constexpr (is_complex(kDTypeOf<T>)) {
    return fmt::format("({}, {})", element_text(value.real()), element_text(value.imag()));
  } else if constexpr (kDTypeOf<T> == DType::kPred) {
    return value ? "true" : "false";
  } else if constexpr (!is_float(kDTypeOf<T>)) {
    return std::to_string(value);
  } else {
    const auto number = static_cast<double>(value);
    if (std::isnan(number)) return nan_text(value);
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    if constexpr (kDTypeOf<T> == DType::kF64) return fmt::format("{}", number);
    return fmt::format("{}", static_cast<float>(value));
  }
}

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

// Calls print(element) for each element from `next` on, and writes the braces of all dims around them. Of a dim with
// more than 2 * edge elements, it writes only the first and the last `edge`.
template <class Print>
void print_dim(const Literal& array, int dim, std::int64_t& next, std::string& out, const Print& print,
               std::int64_t edge) {
  const Type& type = array.type();
  if (dim == type.ndim()) {
    out += print(next++);
    return;
  }
  std::int64_t each = 1;
  for (int d = dim + 1; d < type.ndim(); ++d) each *= type.dim(d);
  const std::string_view separator = dim + 1 == type.ndim() ? "," : ", ";
  const std::int64_t size = type.dim(dim);
  const bool is_truncated = size / 2 > edge || (size / 2 == edge && size % 2 != 0);
  out += '{';
  for (std::int64_t i = 0; i < size; ++i) {
    if (i > 0) out += separator;
    if (is_truncated && i == edge) {
      out += "...";
      out += separator;
      next += (size - 2 * edge) * each;
      i = size - edge;
    }
    print_dim(array, dim + 1, next, out, print, edge);
  }
  out += '}';
}

// Text of an array that has elements.
std::string text_of_elements(const Literal& array, std::int64_t edge) {
  std::string out;
  std::int64_t next = 0;
  if (is_narrow(array.type().dtype())) {
    print_dim(
        array, 0, next, out, [&](std::int64_t i) { return element_text(element_as_double(array, i)); }, edge);
    return out;
  }
  visit_any_dtype(array.type().dtype(), [&]<class T>() {
    const auto data = array.data<T>();
    print_dim(
        array, 0, next, out, [&](std::int64_t i) { return element_text(T(at(data, i))); }, edge);
  });
  return out;
}

}  // namespace

std::string Literal::str() const {
  std::string out;
  if (type_.is_tuple()) {
    std::vector<std::string> parts;
    for (const auto& element : elements_) parts.push_back(element.str());
    return fmt::format("({})", fmt::join(parts, ", "));
  }
  if (!type_.is_array()) return out;
  if (!origin_.empty()) return "{...}";
  std::int64_t next = 0;
  if (type_.element_count() == 0) {
    constexpr std::int64_t kMostRows = 1000;
    std::int64_t rows = 1;
    for (int d = 0; type_.dim(d) != 0; ++d) {
      if (rows > kMostRows / type_.dim(d)) return "{...}";
      rows *= type_.dim(d);
    }
    print_dim(
        *this, 0, next, out, [](std::int64_t) { return std::string(); }, kAll);
    return out;
  }
  return text_of_elements(*this, kAll);
}

std::string Literal::summary() const {
  constexpr std::int64_t kMostElements = 1000;
  constexpr std::int64_t kEdge = 3;
  const bool is_truncated = type_.is_array() && origin_.empty() && type_.element_count() > kMostElements;
  return is_truncated ? text_of_elements(*this, kEdge) : str();
}

}  // namespace tessera
