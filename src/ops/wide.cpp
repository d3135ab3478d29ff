// SPDX-License-Identifier: Apache-2.0
#include "wide.h"

#include "tessera/base/error.h"

namespace tessera::rows {
namespace {

template <class W, class T>
W wide(T value) {
  if constexpr (is_complex(kDTypeOf<T>)) {
    if constexpr (std::is_same_v<W, Complex128>)
      return static_cast<W>(value);
    else
      throw InternalError("a real sum of complex elements");
  } else if constexpr (is_float(kDTypeOf<T>)) {
    return static_cast<W>(static_cast<double>(value));
  } else if constexpr (std::is_same_v<W, Complex128>) {
    return static_cast<double>(value);
  } else {
    return static_cast<W>(value);
  }
}

template <class T, class W>
T narrowed(W x) {
  if constexpr (is_complex(kDTypeOf<T>))
    return static_cast<T>(wide<Complex128>(x));
  else if constexpr (std::is_same_v<W, Complex128>)
    throw InternalError("a real product of complex elements");
  else if constexpr (kDTypeOf<T> == DType::kPred)
    return x != 0;
  else if constexpr (is_float(kDTypeOf<T>))
    return static_cast<T>(static_cast<double>(x));
  else
    return static_cast<T>(x);
}

}  // namespace

template <class W>
std::vector<W> widened(const Literal& x) {
  std::vector<W> out;
  out.reserve(static_cast<std::size_t>(x.type().element_count()));
  visit_any_dtype(x.type().dtype(), [&]<class T>() {
    for (const T value : x.data<T>()) out.push_back(wide<W>(value));
  });
  return out;
}

template <class W>
void narrow(const std::vector<W>& sums, Literal& out) {
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < sums.size(); ++i) to[i] = narrowed<T>(sums[i]);
  });
}

template std::vector<double> widened(const Literal&);
template std::vector<std::uint64_t> widened(const Literal&);
template std::vector<Complex128> widened(const Literal&);
template void narrow(const std::vector<double>&, Literal&);
template void narrow(const std::vector<std::uint64_t>&, Literal&);
template void narrow(const std::vector<Complex128>&, Literal&);

}  // namespace tessera::rows
