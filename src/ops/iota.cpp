// SPDX-License-Identifier: Apache-2.0
//   %i = s32[2,3] iota(), iota_dimension=1      {{0,1,2},{0,1,2}}
#include "elementwise_support.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_iota(const OpView& view) {
  const Type& declared = declared_array(view);
  check_dim(view.as<IotaAttributes>().iota_dimension, declared.ndim(), "iota_dimension");
  require(declared.dtype() != DType::kPred, "needs a numeric element type, got {}", declared);
  return declared;
}

Literal evaluate_iota(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_iota);
  const auto dim = static_cast<std::size_t>(context.view.as<IotaAttributes>().iota_dimension);
  Literal out(context.view.result);
  const Dims& dims = out.type().dims();
  const std::int64_t stride = at(row_major_strides(dims), dim);
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::int64_t index = static_cast<std::int64_t>(i) / stride % dims[dim];
      if constexpr (is_float(kDTypeOf<T>))
        to[i] = static_cast<T>(static_cast<double>(index));
      else if constexpr (is_complex(kDTypeOf<T>))
        to[i] = T(static_cast<typename T::value_type>(index));
      else
        to[i] = static_cast<T>(index);
    }
  });
  return out;
}

FactorMap factors_iota(const OpView& view) {
  FactorMap map;
  map.results = {add_factors(map, view.result)};
  return map;
}

// The local iota plus the start of the shard. Float and narrow types are computed in s32, because additions in bf16
// would not be exact.
Value localize_iota(LocalizeContext& context) {
  const auto dim = static_cast<int>(context.view.as<IotaAttributes>().iota_dimension);
  const Sharding& sharding = context.result_shardings.front();
  if (!sharding.is_tiled() || sharding.tiles(dim) == 1) return localize_declared(context);
  Builder& builder = context.builder;
  const DType dtype = context.local_result().dtype();
  const DType counted = is_float(dtype) || is_complex(dtype) || is_narrow(dtype) ? DType::kS32 : dtype;
  const NotesRef before = std::exchange(builder.default_notes, context.notes);
  const Value start = ops::convert(context.start_of_result(dim), counted);
  const Value local =
      builder.emit(kIota, {}, context.view.attributes, {.type = context.local_result().with_dtype(counted)});
  const Value out = ops::convert(ops::add(local, ops::splat(start, context.local_result().dims())), dtype);
  builder.default_notes = before;
  return out;
}

}  // namespace

const OpDef kIota{
    .name = "iota",
    .rematerializable = true,
    .chunkable = true,
    .materializes = true,
    .parse = parse_attributes<IotaAttributes>,
    .infer = infer_iota,
    .type_inferable = false,
    .evaluate = evaluate_iota,
    .gradient_kind = GradientKind::kZero,
    .factors = factors_iota,
    .localize = localize_iota,
    .flops = no_flops,
};

}  // namespace rows

Value ops::iota(Builder& builder, Type type, int dim) {
  return builder.emit(rows::kIota, {}, make_attributes(IotaAttributes{dim}), {.type = std::move(type)});
}

}  // namespace tessera
