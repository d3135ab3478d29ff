// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/collate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

// Returns the bytes of one element of a row that only fills the batch.
std::vector<std::byte> filler(const std::string& name, DType dtype) {
  const Literal value = scalar_of(dtype, name == "labels" && is_integer(dtype) ? kIgnoredLabel : 0);
  const auto bytes = value.bytes();
  return {bytes.begin(), bytes.end()};
}

void check_same_names(const Arrays& sample, const Arrays& first, std::int64_t number) {
  require(sample.names() == first.names(), "sample {} has the arrays {}, but the first sample of its batch has {}",
          number, fmt::join(sample.names(), ", "), fmt::join(first.names(), ", "));
}

}  // namespace

Arrays StackCollator::collate(const std::vector<Arrays>& samples, const RowsToMake& request) const {
  const Arrays& first = samples.front();
  Arrays out;
  for (const auto& [name, model] : first.entries()) {
    Dims dims = model.type().dims();
    dims.insert(dims.begin(), request.rows);
    Literal rows(Type::array(model.type().dtype(), dims));
    const auto bytes = rows.mutable_bytes();
    const std::size_t width = model.bytes().size();
    for (std::int64_t row = 0; row < request.real_rows; ++row) {
      check_same_names(tessera::at(samples, row), first, tessera::at(request.samples, row));
      const Literal& value = tessera::at(samples, row).at(name);
      require(value.type() == model.type(), "sample {} has {} {}, but the first sample of its batch has {}",
              tessera::at(request.samples, row), name, value.type(), model.type());
      if (width > 0) std::memcpy(bytes.data() + static_cast<std::size_t>(row) * width, value.bytes().data(), width);
    }
    const std::vector<std::byte> fill = filler(name, model.type().dtype());
    for (auto at = static_cast<std::size_t>(request.real_rows) * width; at < bytes.size(); at += fill.size())
      std::copy(fill.begin(), fill.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    out.set(name, std::move(rows));
  }
  return out;
}

}  // namespace tessera::data
