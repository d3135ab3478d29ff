// SPDX-License-Identifier: Apache-2.0
// Reads and writes XLA's text of shardings that name axes:
//
//   {mesh['x'=2,'y'=4], [{'x'}, {'y':(1)2, ?}], replicated={'y':(2)2}}
//   {mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{}, {'x', 'y'}], unreduced={}, manual={}}
//   {{mesh['x'=2], replicated}, {maximal_mesh[device_id=3]}}
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/base/text_cursor.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tile_digits.h"

namespace tessera {
namespace {

std::string read_axis_name(TextCursor& in) {
  in.expect("'", "before the name of an axis");
  std::string name(in.identifier("the name of an axis"));
  in.expect("'", "after the name of an axis");
  return name;
}

template <class Numbers>
Numbers read_numbers(TextCursor& in, std::string_view close) {
  Numbers out;
  if (in.take(close)) return out;
  do {
    out.push_back(in.integer("a number"));
  } while (in.take(","));
  in.expect(close, "after the numbers");
  return out;
}

// The row-major indices of an array of `dims`, read with permuted dims.
std::vector<std::int64_t> permuted_iota(const Dims& dims, const Dims& permutation) {
  Dims strides = row_major_strides(dims);
  Dims sizes;
  Dims steps;
  for (const auto d : permutation) {
    sizes.push_back(at(dims, d));
    steps.push_back(at(strides, d));
  }
  std::vector<std::int64_t> out;
  for_each_index(sizes, [&](const Dims& index) {
    out.push_back(std::inner_product(index.begin(), index.end(), steps.begin(), std::int64_t{0}));
  });
  return out;
}

// Reads the rest after `device_ids=`: a list, or an iota that is reshaped and transposed.
std::vector<std::int64_t> read_device_ids(TextCursor& in, std::int64_t count) {
  in.expect("(", "before the devices");
  if (!in.take("[")) return read_numbers<std::vector<std::int64_t>>(in, ")");
  const Dims dims = read_numbers<Dims>(in, "]");
  Dims permutation(dims.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (in.take("T")) {
    in.expect("(", "before the permutation");
    permutation = read_numbers<Dims>(in, ")");
  }
  in.expect(")", "after the devices");
  auto sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < isize(sorted); ++i)
    require(at(sorted, i) == i, "({}) does not order {} dims", fmt::join(permutation, ","), dims.size());
  for (const auto size : dims)
    require(size >= 1 && size <= count, "device_ids=([{}]..) must have {} devices", fmt::join(dims, ","), count);
  require(permutation.size() == dims.size() && product(dims) == count, "device_ids=([{}]..) must have {} devices",
          fmt::join(dims, ","), count);
  return permuted_iota(dims, permutation);
}

Mesh read_mesh(TextCursor& in) {
  std::vector<MeshAxis> axes;
  std::int64_t count = 1;
  in.expect("[", "before the axes");
  if (!in.take("]")) {
    do {
      MeshAxis axis{read_axis_name(in), 1};
      in.expect("=", "before the size of an axis");
      axis.size = in.integer("the size of an axis");
      require(axis.size >= 1 && axis.size <= kMostDevices / count, "axis {} has size {}", axis.name, axis.size);
      count *= axis.size;
      axes.push_back(std::move(axis));
    } while (in.take(","));
    in.expect("]", "after the axes");
  }
  const auto here = in.position();
  in.take(",");
  std::vector<std::int64_t> order;
  if (in.take_word("device_ids")) {
    in.expect("=", "after device_ids");
    order = read_device_ids(in, count);
    if (std::is_sorted(order.begin(), order.end())) order.clear();
  } else {
    in.seek(here);
  }
  return Mesh(std::move(axes), std::move(order));
}

AxisRef read_axis(TextCursor& in, const Mesh& mesh) {
  AxisRef ref = mesh.full_axis(read_axis_name(in));
  if (!in.take(":")) return ref;
  in.expect("(", "before the prefix of a sub-axis");
  ref.pre = in.integer("the prefix of a sub-axis");
  in.expect(")", "after the prefix of a sub-axis");
  ref.size = in.integer("the size of a sub-axis");
  const auto axis_size = at(mesh.axes(), ref.axis).size;
  require(ref.pre >= 1 && ref.size >= 1 && ref.pre <= axis_size && ref.size <= axis_size / ref.pre &&
              axis_size % (ref.pre * ref.size) == 0,
          "({}){} is not a part of axis {} of size {}", ref.pre, ref.size, at(mesh.axes(), ref.axis).name, axis_size);
  return ref;
}

// `{'x', 'y':(1)2, ?}`
DimSharding read_dim(TextCursor& in, const Mesh& mesh) {
  DimSharding out;
  in.expect("{", "before the axes of a dim");
  if (in.take("}")) return out;
  do {
    if (in.take("?")) {
      out.open = true;
      break;
    }
    out.axes.push_back(read_axis(in, mesh));
  } while (in.take(","));
  in.expect("}", "after the axes of a dim");
  return out;
}

std::vector<AxisRef> read_axes(TextCursor& in, const Mesh& mesh) {
  std::vector<AxisRef> out;
  in.expect("{", "before the axes");
  if (in.take("}")) return out;
  do {
    out.push_back(read_axis(in, mesh));
  } while (in.take(","));
  in.expect("}", "after the axes");
  std::sort(out.begin(), out.end());
  return merged_axes(out);
}

void read_rest(TextCursor& in, Sharding& out) {
  while (in.take(",")) {
    const std::string word(in.identifier("replicated, unreduced, manual or metadata"));
    in.expect("=", "after a word");
    if (word == "replicated")
      read_axes(in, out.mesh);  // axes that no dim uses are replicated
    else if (word == "unreduced")
      out.partial = read_axes(in, out.mesh);
    else if (word == "manual")
      out.manual = read_axes(in, out.mesh);
    else if (word == "metadata")
      in.value("metadata");
    else
      fail("unknown word {}", word);
  }
}

void check_once(const Sharding& sharding) {
  std::vector<AxisRef> seen;
  for (const auto& axis : sharding.used_axes()) {
    require(!overlaps_any(seen, axis), "axis {} is used twice", sharding.mesh.axis_text(axis));
    seen.push_back(axis);
  }
}

// Reads the rest after `{`; ndim is -1 if the text omits the dims.
Sharding read_leaf(TextCursor& in, int ndim, std::int64_t device_count) {
  if (in.take_word("maximal_mesh")) {
    in.expect("[", "after maximal_mesh");
    in.take_word("device_id");
    in.expect("=", "after device_id");
    const auto device = in.integer("a device");
    in.expect("]", "after the device");
    require(device >= 0 && device < device_count, "device {} of {}", device, device_count);
    return Sharding::maximal(Mesh({{"devices", device_count}}), device);
  }
  if (!in.take_word("mesh")) in.fail_expected("mesh");
  Sharding out;
  out.mesh = read_mesh(in);
  in.take(",");
  if (in.take_word("replicated")) {
    out = Sharding::replicated(out.mesh, ndim);
  } else if (in.take_word("manual")) {
    out = Sharding::manual_everywhere(out.mesh);
  } else {
    in.expect("[", "before the dims");
    if (!in.take("]")) {
      do {
        out.dims.push_back(read_dim(in, out.mesh));
      } while (in.take(","));
      in.expect("]", "after the dims");
    }
    read_rest(in, out);
  }
  check_once(out);
  return out;
}

}  // namespace

bool is_named_sharding(std::string_view text) {
  TextCursor in(text);
  while (in.take("{")) {
  }
  const auto word = in.peek_identifier();
  return word == "mesh" || word == "maximal_mesh";
}

std::vector<Sharding> parse_named_shardings(std::string_view text, const std::vector<int>& ndims,
                                            std::int64_t device_count) {
  TextCursor in(text);
  std::vector<Sharding> out;
  const auto ndim = [&] { return out.size() < ndims.size() ? ndims[out.size()] : 0; };
  in.expect("{", "before a sharding");
  const bool is_tuple = in.next_is("{");
  do {
    if (is_tuple) in.expect("{", "before a sharding");
    out.push_back(read_leaf(in, ndim(), device_count));
    if (is_tuple) in.expect("}", "after a sharding");
  } while (is_tuple && in.take(","));
  in.expect("}", "after the sharding");
  if (!in.at_end()) in.fail_expected("the end of the sharding");
  return out;
}

std::vector<std::vector<std::int64_t>> parse_mesh_groups(std::string_view text) {
  TextCursor in(text);
  if (!in.take_word("mesh")) in.fail_expected("mesh");
  const Mesh mesh = read_mesh(in);
  in.take(",");
  std::vector<AxisRef> axes;  // in the order of the text, which is the order within groups
  in.expect("{", "before the axes");
  if (!in.take("}")) {
    do {
      axes.push_back(read_axis(in, mesh));
    } while (in.take(","));
    in.expect("}", "after the axes");
  }
  if (!in.at_end()) in.fail_expected("the end of the groups");
  return mesh.groups(axes);
}

}  // namespace tessera
