// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/source.h"

#include <utility>

#include "tessera/base/error.h"

namespace tessera::data {

std::int64_t Source::length(std::int64_t i) const {
  const Arrays sample = get(i);
  require(!sample.entries().empty() && sample.entries().front().second.type().ndim() >= 1,
          "the length of sample {} is not known: its first array has no dims", i);
  return sample.entries().front().second.type().dim(0);
}

Arrays Source::get_part(std::int64_t i, Interval part) const {
  const Arrays sample = get(i);
  Arrays out;
  for (const auto& [name, value] : sample.entries()) {
    Dims origin(value.type().dims().size());
    Dims dims = value.type().dims();
    origin.at(0) = part.start;
    dims.at(0) = part.size();
    out.set(name, take_box({value, Dims(dims.size())}, origin, dims));
  }
  return out;
}

Iterable from_the_start(std::function<Generator(std::int64_t epoch)> begin) {
  return [begin = std::move(begin)](std::int64_t epoch, std::int64_t first) {
    Generator generator = begin(epoch);
    for (std::int64_t i = 0; i < first; ++i)
      require(generator().has_value(), "epoch {} has only {} samples, but the loader resumes it after {}", epoch, i,
              first);
    return generator;
  };
}

Iterable only_once(Generator generator) {
  return [generator = std::move(generator), begun = std::make_shared<bool>(false)](std::int64_t epoch,
                                                                                   std::int64_t first) {
    require(epoch == 0 && !std::exchange(*begun, true),
            "a generator gives its samples only once; make an iterable for more than one epoch");
    return from_the_start([&](std::int64_t) { return generator; })(epoch, first);
  };
}

Arrays BlockSource::get_part(std::int64_t i, Interval part) const {
  Literal tokens(Type::array(DType::kS32, {part.size()}));
  blocks_->read(i, part.start, tokens.mutable_data<std::int32_t>());
  return {{"input_ids", tokens}, {"labels", tokens}};  // of one buffer
}

}  // namespace tessera::data
